"""Readings of the weights, and of the outputs on labelled data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.measures.gap import generalisation_gap
from regionscope.measures.norms import distance_from, parameter_norms
from regionscope.measures.sharpness import sharpness
from regionscope_lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope_lab.instruments.options import accepted_options
from regionscope_lab.train.evaluation import evaluate, one_hot_mse

Read = Callable[[Any], Any]


def norms(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``parameter_norms``: l1 and l2; with ``by_layer`` the Frobenius and spectral norm of each parameter."""

    def read(model: Any) -> dict[str, Any]:
        result = parameter_norms(model, **accepted_options(parameter_norms, options))
        by_parameter = {
            **{f"frobenius.{name}": value for name, value in result.frobenius.items()},
            **{f"spectral.{name}": value for name, value in result.spectral.items()},
        }
        return {"": result, **(by_parameter if options["by_layer"] else {})}

    return read


def distance(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``distance_from`` the weights before training."""
    if context.initial is None:
        raise InputError("Expected the weights before training for distance_from, got none. Pass initial= to build().")
    start = {name: value.detach().cpu().clone() for name, value in context.initial.items()}
    kwargs = accepted_options(distance_from, options)
    return lambda model: distance_from(model, start, **kwargs)


def on_labelled(
    function: Callable[..., Any], context: MeasurementContext, options: dict[str, Any], **chosen: Any
) -> Read:
    """``function(model, inputs, labels)``, such as ``error_rate``, on the points that are asked for, or on a seeded
    choice of ``n`` of them. chosen: parameters of ``function`` that are no options."""
    kwargs = {**accepted_options(function, options), **chosen}

    def make(part: str) -> Read:
        inputs, labels = context.labelled(part, options.get("n"), context.seed_of(options))
        return lambda model: function(model, inputs, labels, **kwargs)

    return for_each(options["points"], make)


def sharpest(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``sharpness`` on a sample of labelled data, for the loss that is trained on."""
    loss_function = one_hot_mse if context.loss_of(options) == "mse" else None
    return on_labelled(sharpness, context, options, seed=context.seed_of(options), loss=loss_function)


def gap(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``generalisation_gap``, with the train error and the test error."""
    kwargs = accepted_options(generalisation_gap, options)
    train, test = ((data.inputs, data.labels) for data in (context.split.train, context.split.test))
    return lambda model: generalisation_gap(model, train, test, **kwargs)


def loss(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """Mean loss on labelled data, of the kind that is trained on."""
    return on_labelled(_mean_loss, context, options, loss=context.loss_of(options))


def _mean_loss(model: nn.Module, inputs: Tensor, labels: Tensor, *, loss: str) -> float:
    return evaluate(model, inputs, labels, loss=loss)[0]
