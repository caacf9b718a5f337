"""What instruments look at: points, labelled data, slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regionscope.checks import unknown_name
from regionscope.complexity.measure_points import uniform_points
from regionscope.default_slice import default_slice
from regionscope.errors import InputError
from regionscope.geometry import Box, Slice
from regionscope.sampled.drawn_slices import Hulls
from regionscope_lab.config import Experiment
from regionscope_lab.data import Dataset, DataSplit
from regionscope_lab.data.dataset import derived_seed


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
            raise unknown_name("points with labels", part, ("train", "test"))
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
        """The default slice of the training data, a box, or the plane through three random training points."""
        where, box, margin = options["where"], options["box"], options["margin"]
        inputs = self.split.train.inputs.double().cpu()
        if where == "auto" and box is None:
            return default_slice(inputs, self.split.train.labels.cpu(), margin=margin)
        if box is not None and (where == "plane" or inputs[0].numel() > 2):
            raise InputError(
                f"Expected box for inputs of one or two numbers and where='box', got inputs of {inputs[0].numel()} and "
                f"where={where!r}. Leave box out to take a plane through three training points."
            )
        margin = 0.0 if margin is None else float(margin)
        if where == "plane":
            three = Hulls(inputs, dim=2, seed=self.seed_of(options)).draw(0)
            return Box.through(three.embed(three.corners), margin)
        if inputs[0].numel() > 2:
            raise InputError(
                f'Expected inputs with one or two entries for where="box", got {inputs[0].numel()}. Use "plane".'
            )
        low, high = (inputs.amin(0), inputs.amax(0)) if box is None else box
        return Box.between(low, high, inputs.shape[1:], margin)

    def seed_of(self, options: Mapping[str, Any]) -> int:
        """The option ``seed``, or else the seed of the context."""
        seed = options.get("seed")
        return self.seed if seed is None else int(seed)

    def loss_of(self, options: Mapping[str, Any]) -> str:
        """The option ``loss``, or else the loss that is trained on."""
        loss = options.get("loss")
        return self.loss if loss is None else str(loss)


def measure_seed(experiment: Experiment) -> int:
    """The seed of the measures of a run. It differs from the seed of the weights."""
    return derived_seed(experiment.seed, "points")


def for_each(points: Any, make: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """One function for a single set of points; for a list, a function that returns one result for each."""
    if isinstance(points, str):
        return make(points)
    functions = {part: make(part) for part in points}
    return lambda model: {part: function(model) for part, function in functions.items()}
