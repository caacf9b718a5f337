"""Counts of regions on random slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regionscope.lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope.lab.instruments.options import passed
from regionscope.lab.instruments.regions import Retracer
from regionscope.measures.region_count import linear_region_count, slice_sampler


def on_slices(
    function: Callable[..., Any],
    context: MeasurementContext,
    options: dict[str, Any],
    count: Callable[..., Any] | None = None,
) -> Callable[[Any], Any]:
    """``function``, such as ``region_count``, on the same slices at every reading. count: what runs in its place."""
    count = count or function
    own = {**passed(function, options), "seed": context.seed_of(options)}
    drawn = passed(slice_sampler, own)

    def make(part: str) -> Callable[[Any], Any]:
        inputs = context.points(part, None, options)
        if inputs.is_floating_point():  # token ids are embedded first
            slice_sampler(inputs, **drawn).draw(0)  # so that what cannot be drawn is said now
        return lambda model: count(model, inputs, **own)

    return for_each(options["points"], make)


def linear_region_counts(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``linear_region_count`` on the same slices at every reading."""
    reader = Retracer()

    def count(model: Any, inputs: Tensor, **own: Any) -> Any:
        read = reader(model, tuple(inputs.shape[1:])) if inputs.is_floating_point() else model
        return linear_region_count(read, inputs, **own)

    return on_slices(linear_region_count, context, options, count)
