"""The exact regions of a stored network on the square of the data."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.formatting import counted
from regionscope.geometry import Box
from regionscope_lab.papers.charts import Picture, Pictures
from regionscope_lab.store import RunFolder

_SMALL = 1.6  # inches: eight pictures stand side by side


def model_at_epoch(run: RunFolder, epoch: int) -> nn.Module:
    """The network as it was after ``epoch`` epochs."""
    for stored in run.checkpoints():
        if stored.epoch == epoch:
            return run.model_at(stored)
    raise InputError(
        f"No checkpoint of epoch {epoch} found in the run {run.path}. Remove the folder and train it again."
    )


def regions_of(model: nn.Module) -> tuple[Partition, DecisionRegions]:
    """Linear and decision regions on [-1, 1]^2."""
    square = Box.between(-1.0, 1.0, (2,))
    return linear_regions(model, square), decision_regions(model, square)


def over_epochs(run: RunFolder, epochs: Sequence[int], title: str) -> Pictures:
    """Figures 9 and 10: linear regions in the first row, decision regions in the second, one column for each epoch."""
    found = [regions_of(model_at_epoch(run, epoch)) for epoch in epochs]
    first = [
        Picture(f"epoch {epoch}\n{counted(linear.n_linear_regions, 'linear region')}", linear)
        for epoch, (linear, _) in zip(epochs, found, strict=True)
    ]
    second = [Picture(counted(decision.count, "decision region"), decision, "decision") for _, decision in found]
    return Pictures(title=title, columns=len(epochs), pictures=(*first, *second), inches=_SMALL)
