"""Local complexity at fixed points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regionscope.complexity import LocalComplexity, complexity_gap, local_complexity
from regionscope.lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope.lab.instruments.options import passed
from regionscope.types import Estimate


def complexity(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``local_complexity``, its mean over the points; with ``by_layer`` also that of each layer."""
    own = _own(context, options)

    def make(part: str) -> Callable[[Any], Any]:
        points = context.points(part, options["n"], options)

        def read(model: Any) -> Any:
            found = local_complexity(model, points, **own)
            return _with_layers(found) if options["by_layer"] else found

        return read

    return for_each(options["points"], make)


def gap(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``complexity_gap`` between train and test points: the gap, and the area under the curve (``auc``)."""
    own = _own(context, options)
    train, test = (context.points(part, options["n"], options) for part in ("train", "test"))

    def read(model: Any) -> Any:
        return complexity_gap(local_complexity(model, train, **own), local_complexity(model, test, **own))

    return read


def _own(context: MeasurementContext, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the Python function."""
    return {**passed(local_complexity, options), "seed": context.seed_of(options)}


def _with_layers(found: LocalComplexity) -> dict[str, Any]:
    layers = {f"layer.{name}": Estimate.of(counts) for name, counts in found.by_layer.items()}
    return {"": found, **layers}
