"""The numbers of Qi & Wei 2023, as printed, and the training that gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import nn

from regionscope.monitor import Schedule
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset
from regionscope_lab.papers.declaration import printed
from regionscope_lab.train import train

_BATCH = 32

WIDTHS = (16, 32, 64)  # neurons in each of three hidden layers


def _by_number(file: str, name: str) -> tuple[tuple[int, ...], dict[int, tuple[int, ...]]]:
    """The epochs of a table, and its counts by the number at the head of each row."""
    rows = printed("qi2023", file, name)
    return tuple(rows.pop("epochs")), {int(number): tuple(counts) for number, counts in rows.items()}


EPOCHS, MOONS = _by_number("toy", "table2")
_, QUANTILES = _by_number("toy", "table3")
RANDOM_EPOCHS, RANDOM = _by_number("random_points", "table1")


def random(n: int, epochs: Iterable[int]) -> list[int]:
    """The counts of Table 1 for n points at some of its epochs."""
    return [RANDOM[n][RANDOM_EPOCHS.index(epoch)] for epoch in epochs]


def train_as_printed(
    model: nn.Sequential, data: Dataset, look: Callable[[int, nn.Module], object], *, epochs: Sequence[int], seed: int,
    weight_decay: float = 0.0,
) -> None:  # fmt: skip
    """Train with Adam and batches of 32; ``look(epoch, model)`` sees the model at each of ``epochs``, in order."""
    per_epoch = -(-len(data) // _BATCH)
    plan = Training(
        epochs=epochs[-1], optimizer="adam", lr=1e-3, batch_size=_BATCH, schedule="constant", weight_decay=weight_decay,
        checkpoints=str(Schedule(points=tuple(epoch * per_epoch for epoch in epochs))), evaluate_every=epochs[-1],
    )  # fmt: skip
    train(model, data, plan, seed=seed, numpy=True, on_checkpoint=lambda step, epoch, private: look(epoch, private))
