"""Table 1 as printed, and under a hypothesis: that the paper's networks were trained with weight decay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment
from regionscope_lab.data import load
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.workspace import Workspace

_WIDTH = 32


def random_counts(*, n: int, decay: float, seed: int, epochs: list[int]) -> dict[str, Any]:
    """Linear regions on the square, and training accuracy, of one network at the given epochs.

    The network, data and training are those of Table 1; ``seed`` is that of the points, labels, weights and batches.
    """
    data = load(DataSpec(name="random_labels", n_train=n, n_test=1, seed=seed)).train
    model = zoo.mlp([2, *[_WIDTH] * 3, 2], seed=seed)
    by_epoch: dict[str, list[float]] = {"regions": [], "accuracy": []}

    def look(epoch: int, model: nn.Module) -> None:
        by_epoch["regions"].append(linear_regions(model, Box.between(-1.0, 1.0, (2,))).n_linear_regions)
        by_epoch["accuracy"].append(float((model(data.inputs).argmax(1) == data.labels).double().mean()))

    paper.train_as_printed(model, data, look, epochs=epochs, seed=seed, weight_decay=decay)
    return by_epoch


_EPOCHS: dict[Size, tuple[int, ...]] = {
    "smoke": (0, 10),
    "desk": paper.RANDOM_EPOCHS[:6],
    "full": paper.RANDOM_EPOCHS[:11],
}
_DECAYS = (0.0, 5e-5, 1e-4, 2e-4, 1e-3)


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Every decay, number of points and seed, the longest first."""
    small = size == "smoke"
    sizes: tuple[int, ...] = (500, 200) if small else (10_000, 5000, 1000)
    decays: tuple[float, ...] = (0.0, 1e-4) if small else _DECAYS
    asked = [
        {"n": n, "decay": decay, "seed": seed, "epochs": list(_EPOCHS[size])}
        for n in sizes
        for decay in decays
        for seed in (5, 6, 7)
    ]
    workspace.compute(random_counts, asked)
