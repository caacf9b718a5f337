"""Exact counts on one slice that stays the same over training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regionscope.exact import decision_regions, linear_regions
from regionscope.lab.instruments.measurement_context import MeasurementContext
from regionscope.lab.instruments.options import passed


def linear(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``linear_regions``: linear regions, activation regions and, with ``by_layer``, those after each nonlinearity."""
    slice, own = context.slice(options), passed(linear_regions, options)

    def read(model: Any) -> dict[str, Any]:
        found = linear_regions(model, slice, **own)
        layers = {f"layer.{name}": count for name, count in found.by_layer.items()} if options["by_layer"] else {}
        return {"": found, **layers}

    return read


def decision(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``decision_regions``: their number."""
    slice, own = context.slice(options), passed(decision_regions, options)
    return lambda model: decision_regions(model, slice, **own)
