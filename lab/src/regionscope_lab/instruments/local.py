"""Local complexity at fixed points, and their regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regionscope.complexity import LocalComplexity, complexity_gap, local_complexity
from regionscope.errors import InputError
from regionscope.network.embedded import embedded
from regionscope.network.token_ids import takes_tokens
from regionscope.points import regions_at
from regionscope.types import Estimate
from regionscope_lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope_lab.instruments.options import accepted_options


def complexity(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``local_complexity``, its mean over the points; with ``by_layer`` also that of each layer, with ``by_position``
    that at each token. ``relative``: the radius is a share of the spread of the (embedded) points, see ``spread``."""
    kwargs = _kwargs_of(context, options)

    def make(part: str) -> Callable[[Any], Any]:
        points = context.points(part, options["n"], options)

        def read(model: Any) -> Any:
            size = spread(model, points) if options["relative"] else 1.0
            local = local_complexity(model, points, **{**kwargs, "radius": size * kwargs["radius"]})
            more = _by_layer(local) if options["by_layer"] else {}
            more |= _by_position(local) if options["by_position"] else {}
            return {"": local, **more} if more else local

        return read

    return for_each(options["points"], make)


def point_regions(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``regions_at``: the number of regions of the points, and quantiles of their distances."""
    kwargs = accepted_options(regions_at, options)

    def make(part: str) -> Callable[[Any], Any]:
        points = context.points(part, options["n"], options)
        return lambda model: regions_at(model, points, **kwargs)

    return for_each(options["points"], make)


def gap(context: MeasurementContext, options: dict[str, Any]) -> Callable[[Any], Any]:
    """``complexity_gap`` between train and test points: the gap, and the area under the curve (``auc``)."""
    kwargs = _kwargs_of(context, options)
    train, test = (context.points(part, options["n"], options) for part in ("train", "test"))

    def read(model: Any) -> Any:
        return complexity_gap(local_complexity(model, train, **kwargs), local_complexity(model, test, **kwargs))

    return read


def _kwargs_of(context: MeasurementContext, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the Python function."""
    return {**accepted_options(local_complexity, options), "seed": context.seed_of(options)}


def spread(model: Any, points: Tensor) -> float:
    """Root mean square distance of the points from their mean; of token ids, that of their embeddings."""
    where = embedded(model, points, position=None).inputs if takes_tokens(model, points) else points
    flat = where.flatten(1).double()
    return float((flat - flat.mean(0)).square().sum(1).mean().sqrt())


def _by_layer(complexity: LocalComplexity) -> dict[str, Any]:
    return {f"layer.{name}": Estimate.of(counts) for name, counts in complexity.by_layer.items()}


def _by_position(complexity: LocalComplexity) -> dict[str, Any]:
    """Units of all layers at each token."""
    if not complexity.by_position:
        raise InputError("Expected a network whose layers work on tokens for by_position, got none. Leave it out.")
    counts = torch.stack(list(complexity.by_position.values())).sum(0)
    return {f"position.{i}": Estimate.of(column) for i, column in enumerate(counts.unbind(1))}
