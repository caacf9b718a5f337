"""Counts of regions on random slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regionscope.lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope.lab.instruments.options import passed
from regionscope.measures.region_count import slice_sampler


def on_slices(count: Callable[..., Any], context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``count``, such as ``region_count``, on the same slices at every reading."""
    own = {**passed(count, options), "seed": context.seed_of(options)}
    drawn = passed(slice_sampler, own)

    def make(part: str) -> Callable[[Any], Any]:
        inputs = context.points(part, None, options)
        if inputs.is_floating_point():  # token ids are embedded first
            slice_sampler(inputs, **drawn).draw(0)  # so that what cannot be drawn is said now
        return lambda model: count(model, inputs, **own)

    return for_each(options["points"], make)
