"""Readings of the weights, and of the outputs on labelled data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regionscope.errors import InputError
from regionscope.lab.instruments.measurement_context import MeasurementContext, for_each
from regionscope.lab.train.evaluation import evaluate
from regionscope.measures.gap import error_rate, generalisation_gap
from regionscope.measures.margin import output_margin
from regionscope.measures.norms import distance_from, parameter_norms
from regionscope.measures.sharpness import sharpness

__all__ = ["distance", "error", "gap", "loss", "margin", "norms", "sharpest"]

Read = Callable[[Any], Any]


def norms(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``parameter_norms``: l1 and l2; with ``by_layer`` the Frobenius and spectral norm of each parameter."""

    def read(model: Any) -> dict[str, float]:
        found = parameter_norms(model, which=options["which"])
        each = {
            **{f"frobenius.{name}": value for name, value in found.frobenius.items()},
            **{f"spectral.{name}": value for name, value in found.spectral.items()},
        }
        return {"l1": found.l1, "l2": found.l2, **(each if options["by_layer"] else {})}

    return read


def distance(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``distance_from`` the weights before training."""
    if context.initial is None:
        raise InputError("distance_from needs the weights before training; give them to build() as initial=.")
    start = {name: value.detach().cpu().clone() for name, value in context.initial.items()}
    return lambda model: distance_from(model, start, which=options["which"])


def margin(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``output_margin`` over labelled data."""

    def make(part: str) -> Read:
        data = context.data(part)
        return lambda model: output_margin(model, data.inputs, data.labels, batch_size=options["batch_size"])

    return for_each(options["points"], make)


def sharpest(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``sharpness`` on a sample of labelled data, for the loss that is trained on."""
    dtype = None if options["dtype"] is None else getattr(torch, options["dtype"])
    own = {name: value for name, value in options.items() if name not in ("points", "loss", "dtype", "seed")}
    own |= {
        "dtype": dtype,
        "seed": context.seed_of(options),
        "loss": _squared if context.loss_of(options) == "mse" else None,
    }

    def make(part: str) -> Read:
        data = context.data(part)
        return lambda model: sharpness(model, data.inputs, data.labels, **own).value

    return for_each(options["points"], make)


def error(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``error_rate`` on labelled data."""

    def make(part: str) -> Read:
        inputs, labels = context.labelled(part, options["n"], context.seed_of(options))
        return lambda model: error_rate(model, inputs, labels)

    return for_each(options["points"], make)


def gap(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """``generalisation_gap``, with the train error and the test error."""
    train, test = ((data.inputs, data.labels) for data in (context.split.train, context.split.test))

    def read(model: Any) -> dict[str, Any]:
        found = generalisation_gap(model, train, test)
        return {"": found, "train_error": found.train_error, "test_error": found.test_error}

    return read


def loss(context: MeasurementContext, options: dict[str, Any]) -> Read:
    """Mean loss on labelled data, of the kind that is trained on."""
    kind = context.loss_of(options)

    def make(part: str) -> Read:
        data = context.data(part)
        return lambda model: evaluate(model, data.inputs, data.labels, loss=kind)[0]

    return for_each(options["points"], make)


def _squared(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.mse_loss(outputs, functional.one_hot(labels, outputs.shape[1]).to(outputs.dtype))
