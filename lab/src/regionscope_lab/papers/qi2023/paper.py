"""The numbers of Qi & Wei 2023, as printed, and the training that gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import nn

from regionscope.monitor import Schedule
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset
from regionscope_lab.train import train

_BATCH = 32

WIDTHS = (16, 32, 64)  # neurons in each of three hidden layers
EPOCHS = (0, 2, 5, 8, 10, 20, 50, 100)

MOONS = {  # Table 2: linear regions by width, at EPOCHS
    16: (206, 198, 319, 358, 363, 395, 456, 467),
    32: (1151, 1151, 1222, 1401, 1274, 1533, 1756, 1725),
    64: (4112, 3897, 3803, 4472, 5172, 6354, 6037, 7082),
}
QUANTILES = {  # Table 3
    16: (207, 174, 189, 228, 415, 437, 438, 436),
    32: (1154, 1638, 2362, 2204, 2045, 2197, 2420, 2505),
    64: (4113, 5501, 7524, 8402, 8809, 8706, 8433, 8579),
}

RANDOM_SIZES = (200, 500, 1000, 2000, 5000, 10_000)
RANDOM_EPOCHS = (0, 10, 30, 50, 80, 100, 300, 500, 800, 1000, 3000, 5000, 10_000, 30_000, 50_000)
RANDOM = {  # Table 1: linear regions of [32, 32, 32] by the number of points, at RANDOM_EPOCHS
    200: (1151, 925, 953, 1011, 995, 1176, 1426, 1499, 1858, 1749, 1896, 2108, 1988, 2149, 2455),
    500: (1151, 977, 1393, 1441, 1572, 1549, 2067, 2316, 2542, 2771, 3129, 3616, 3884, 4377, 4212),
    1000: (1153, 992, 928, 984, 1180, 1244, 1700, 2047, 2236, 2195, 2453, 2667, 2810, 3010, 3138),
    2000: (1154, 791, 1222, 1308, 1344, 1423, 1250, 1205, 1346, 1324, 1431, 1519, 1545, 1910, 1953),
    5000: (1151, 834, 1020, 560, 391, 325, 158, 111, 88, 143, 379, 344, 415, 442, 605),
    10_000: (1152, 873, 353, 316, 198, 79, 70, 109, 61, 80, 42, 51, 31, 34, 35),
}


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
