"""Counts of regions: exact ones on one slice that stays the same over training, and means over random slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regionscope.exact import decision_regions, linear_regions
from regionscope.measures.region_count import linear_region_count, slice_sampler
from regionscope.network import Program, retrace
from regionscope_lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope_lab.instruments.options import accepted_options


class Retracer:
    """Traces a network the first time and after its layers have changed; else copies its weights alone."""

    def __init__(self) -> None:
        self._program: Program | None = None

    def __call__(self, model: Any, input_shape: tuple[int, ...]) -> Program:
        self._program = retrace(self._program, model, input_shape)
        return self._program


def linear(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``linear_regions``: linear regions, activation regions and, with ``by_layer``, those after each fold."""
    slice, kwargs, reader = context.slice(options), accepted_options(linear_regions, options), Retracer()

    def read(model: Any) -> dict[str, Any]:
        partition = linear_regions(reader(model, slice.input_shape), slice, **kwargs)
        layers = {f"layer.{name}": count for name, count in partition.by_layer.items()} if options["by_layer"] else {}
        return {"": partition, **layers}

    return read


def decision(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``decision_regions``: their number."""
    slice, kwargs, reader = context.slice(options), accepted_options(decision_regions, options), Retracer()
    return lambda model: decision_regions(reader(model, slice.input_shape), slice, **kwargs)


def on_slices(
    function: Callable[..., Any],
    context: MeasurementContext,
    options: dict[str, Any],
    count: Callable[..., Any] | None = None,
) -> Callable[[Any], Any]:
    """``function``, such as ``region_count``, on the same slices at every call. count: called in its place."""
    count = count or function
    kwargs = {**accepted_options(function, options), "seed": context.seed_of(options)}
    drawn = accepted_options(slice_sampler, kwargs)

    def make(part: str) -> Callable[[Any], Any]:
        inputs = context.points(part, None, options)
        if inputs.is_floating_point():  # token ids are embedded first
            slice_sampler(inputs, **drawn).draw(0)  # so that what cannot be drawn is said now
        return lambda model: count(model, inputs, **kwargs)

    return for_each(options["points"], make)


def linear_region_counts(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``linear_region_count`` on the same slices at every reading."""
    reader = Retracer()

    def count(model: Any, inputs: Tensor, **kwargs: Any) -> Any:
        read = reader(model, tuple(inputs.shape[1:])) if inputs.is_floating_point() else model
        return linear_region_count(read, inputs, **kwargs)

    return on_slices(linear_region_count, context, options, count)
