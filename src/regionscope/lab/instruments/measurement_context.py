"""What instruments look at: points, labelled data, slices; and what their options may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regionscope.checks import is_whole
from regionscope.complexity.measure_points import uniform_points
from regionscope.errors import InputError
from regionscope.geometry import Box, Slice
from regionscope.lab.data import Dataset, DataSplit
from regionscope.sampled.drawn_slices import Hulls

__all__ = ["MeasurementContext", "check_option", "for_each"]

PARTS = ("train", "test", "random")
_CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("grid", "refined", "exact"),
    "through": ("inputs", "direction", "origin"),
    "pieces": ("linear", "activation"),
    "which": ("all", "weights"),
    "where": ("auto", "box", "plane"),
    "frames": ("shared", "per-point"),
    "hull": ("cross-polytope", "hypercube"),
    "loss": ("cross_entropy", "mse"),
    "dtype": ("float32", "float64"),
}
_COUNTS = {
    "dim", "slices", "grid", "n", "dims", "batch_size", "max_points", "max_slices", "samples", "max_products",
    "max_regions", "memory",
}  # fmt: skip
_POSITIVE = {"length", "until", "radius", "tolerance"}
_SWITCHES = {"by_layer", "linear_outputs", "max_pool"}
_PAIRS = {"alpha", "domain", "box"}
_OPTIONAL = {
    "grid", "length", "until", "domain", "box", "dims", "max_regions", "dtype", "samples", "seed", "batch_size",
    "layers", "memory", "loss", "n",
}  # fmt: skip


def check_option(instrument: str, name: str, value: Any) -> None:
    """Refuse what can never work, in one sentence."""

    def refuse(accepted: str) -> None:
        raise InputError(f"{name} of {instrument} came as {value!r}; it must be {accepted}.")

    is_int = isinstance(value, int) and not isinstance(value, bool)
    number = is_int or (isinstance(value, float) and math.isfinite(value))
    if value is None:
        if name not in _OPTIONAL:
            refuse("given")
    elif name in _CHOICES and value not in _CHOICES[name]:
        refuse("one of " + ", ".join(_CHOICES[name]))
    elif name in _COUNTS and not is_whole(value):
        refuse("a whole number of at least 1")
    elif name == "seed" and not is_whole(value, least=0):
        refuse("a whole number of at least 0")
    elif name in _POSITIVE and not (number and value > 0):
        refuse("a positive number")
    elif name == "margin" and not (number and value >= 0):
        refuse("a number of at least 0")
    elif name in _SWITCHES and not isinstance(value, bool):
        refuse("true or false")
    elif name in _PAIRS and not _is_pair(value):
        refuse("two finite numbers, the smaller first")
    elif name == "points" and not _are_parts(value):
        refuse(f"one of {', '.join(PARTS)}, or a list of them")


@dataclass(frozen=True, eq=False)
class MeasurementContext:
    """The data of a training, the seed from which points are drawn, the weights before training, and the loss."""

    split: DataSplit
    seed: int
    initial: Mapping[str, Tensor] | None = None
    loss: str = "cross_entropy"

    def data(self, part: str) -> Dataset:
        """The labelled points called "train" or "test"."""
        if part not in ("train", "test"):
            raise InputError(f"points came as {part!r}; this instrument needs labels, so it must be train or test.")
        return self.split.train if part == "train" else self.split.test

    def points(self, part: str, n: int | None, options: Mapping[str, Any]) -> Tensor:
        """Inputs (up to n, *shape) of one part: all or a seeded choice, or n uniform ones (1,000 by default)."""
        seed = self.seed_of(options)
        if part == "random":
            low, high = options.get("domain") or self.range()
            return uniform_points(n or 1000, self.split.input_shape, domain=(low, high), seed=seed)
        return self.labelled(part, n, seed)[0]

    def labelled(self, part: str, n: int | None, seed: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels of "train" or "test": all, or a seeded choice of n."""
        data = self.data(part)
        if n is None or n >= len(data):
            return data.inputs, data.labels
        chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed), device="cpu")[:n]
        return data.inputs[chosen], data.labels[chosen]

    def range(self) -> tuple[float, float]:
        """Smallest and largest entry of the training inputs."""
        inputs = self.split.train.inputs
        return float(inputs.min()), float(inputs.max())

    def slice(self, options: Mapping[str, Any]) -> Slice:
        """The box around data of one or two numbers, or the plane through three training points."""
        where, margin = options["where"], float(options["margin"])
        inputs = self.split.train.inputs.double().cpu()
        small = inputs[0].numel() <= 2
        if options["box"] is not None and where != "plane":
            low, high = options["box"]
        else:
            low, high = inputs.amin(0), inputs.amax(0)
        if where == "plane" or (where == "auto" and not small):
            three = Hulls(inputs, 2, self.seed_of(options)).draw(0)
            return Box.through(three.embed(three.corners), margin)
        if not small:
            raise InputError(
                f'where="box" is for inputs of one or two numbers, and these have {inputs[0].numel()}; take "plane".'
            )
        return Box.between(low, high, inputs.shape[1:], margin)

    def seed_of(self, options: Mapping[str, Any]) -> int:
        """The option ``seed``, or else the seed of the context."""
        own = options.get("seed")
        return self.seed if own is None else int(own)

    def loss_of(self, options: Mapping[str, Any]) -> str:
        """The option ``loss``, or else the loss that is trained on."""
        own = options.get("loss")
        return self.loss if own is None else str(own)


def for_each(points: Any, make: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """One function for a single set of points; for a list, a function that returns one result for each."""
    if isinstance(points, str):
        return make(points)
    functions = {part: make(part) for part in points}
    return lambda model: {part: function(model) for part, function in functions.items()}


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(v, int | float) and math.isfinite(v) for v in value)
        and value[0] < value[1]
    )


def _are_parts(value: Any) -> bool:
    parts = [value] if isinstance(value, str) else value
    return isinstance(parts, list | tuple) and len(parts) > 0 and all(part in PARTS for part in parts)
