"""Exact counts on one slice that stays the same over training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regionscope.exact import decision_regions, linear_regions
from regionscope.lab.instruments.measurement_context import MeasurementContext
from regionscope.lab.instruments.options import passed
from regionscope.network import Program, retrace


class Retracer:
    """Reads a network whole the first time and where its layers have changed, and otherwise its weights alone."""

    def __init__(self) -> None:
        self._program: Program | None = None

    def __call__(self, model: Any, input_shape: tuple[int, ...]) -> Program:
        self._program = retrace(self._program, model, input_shape)
        return self._program


def linear(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``linear_regions``: linear regions, activation regions and, with ``by_layer``, those after each nonlinearity."""
    slice, own, reader = context.slice(options), passed(linear_regions, options), Retracer()

    def read(model: Any) -> dict[str, Any]:
        found = linear_regions(reader(model, slice.input_shape), slice, **own)
        layers = {f"layer.{name}": count for name, count in found.by_layer.items()} if options["by_layer"] else {}
        return {"": found, **layers}

    return read


def decision(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``decision_regions``: their number."""
    slice, own, reader = context.slice(options), passed(decision_regions, options), Retracer()
    return lambda model: decision_regions(reader(model, slice.input_shape), slice, **own)
