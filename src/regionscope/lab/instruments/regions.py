"""Exact counts on one slice that stays the same over training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regionscope.exact import decision_regions, linear_regions
from regionscope.lab.instruments.measurement_context import MeasurementContext

__all__ = ["decision", "linear"]


def linear(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``linear_regions``: linear regions, activation regions and, with ``by_layer``, those after each nonlinearity."""
    where = context.slice(options)

    def read(model: Any) -> dict[str, int]:
        found = linear_regions(model, where, max_regions=options["max_regions"], memory=options["memory"])
        layers = {f"layer.{name}": count for name, count in found.by_layer.items()} if options["by_layer"] else {}
        return {"": found.n_linear_regions, "activation": found.n_activation_regions, **layers}

    return read


def decision(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``decision_regions``: their number."""
    where = context.slice(options)
    return lambda model: (
        decision_regions(model, where, max_regions=options["max_regions"], memory=options["memory"]).count
    )
