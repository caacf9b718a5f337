"""The runs of all studies of this paper: one grid, Table 1, for each network and data set, with one list of measures.

Studies name the same experiments, so one training serves many of them. ``examples/table1_cifar10.toml`` is
``cifar10_sweep()`` and ``cifar10_longer()`` as a file, ``examples/table1_cifar10_networks.toml`` is
``cifar10_networks()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from regionscope.lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope.studies.li2025 import paper
from regionscope.studies.study import Size

__all__ = [
    "OPTIMISER_RATES",
    "OTHER_NETWORKS",
    "PRIMARY",
    "Counting",
    "Grid",
    "cifar10_longer",
    "cifar10_networks",
    "cifar10_sweep",
    "counting_runs",
    "data_sets",
    "grid",
    "measures",
    "networks",
    "of",
]  # fmt: skip

OPTIMISER_RATES = {"sgd": 1.0, "adam": 0.1, "adagrad": 1.0}
"""Learning rates of Table 1 are multiplied by this; with 0.1 Adam does not train. The paper gives no rates for it."""


Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Counting:
    """How many slices: on lines (counted on a grid and refined), on other lines, on hulls, along the training.

    With 0 that measure is left out.
    """

    lines: int
    others: int
    hulls: int
    path: int
    path_every: int  # epochs


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How one network is trained on one data set: the values of Table 1, scaled to what there is."""

    data: DataSpec
    network: NetworkSpec
    epochs: int
    counting: Counting
    lr: tuple[float, ...] = paper.LEARNING_RATES
    batch_size: tuple[int, ...] = paper.BATCH_SIZES
    weight_decay: tuple[float, ...] = paper.WEIGHT_DECAYS
    seeds: tuple[int, ...] = (0, 1, 2)
    augment: str = "none"
    precision: str = "float32"
    ranges: bool = False  # also count on longer lines, for Table 6


PRIMARY: dict[Size, tuple[str, str]] = {
    "smoke": ("mlp", "digits"),
    "desk": ("cnn", "digits"),
    "full": ("resnet18", "cifar10"),
}
"""The network and data set that stand where the paper has ResNet18 on CIFAR-10."""

OTHER_NETWORKS = ("vgg19", "mobilenetv2", "senet18")
"""Beside ResNet18 on CIFAR-10: plain, of depthwise convolutions, and one with sigmoid gates (not piecewise affine)."""

_SLOW = {(0.01, 1024): 24, (0.001, 256): 60, (0.001, 512): 120, (0.001, 1024): 240}  # learning rate x steps: about 12
_MORE_EPOCHS = {  # of OTHER_NETWORKS, by learning rate and batch size
    "vgg19": {(0.1, 256): 60, (0.1, 512): 60, (0.1, 1024): 60},
    "mobilenetv2": _SLOW,
    "senet18": _SLOW,
}

_DESK_BATCHES = (16, 32, 64)
_PAPER = Counting(lines=100, others=100, hulls=100, path=100, path_every=10)
_SMALL = Counting(lines=6, others=4, hulls=2, path=4, path_every=1)
_DESK = Counting(lines=100, others=50, hulls=16, path=40, path_every=15)
_FEW_DIGITS = DataSpec(name="digits", options={"test_share": 0.8})  # 360 to train on, 1,437 to test on


def _smoke() -> dict[tuple[str, str], Grid]:
    data = DataSpec(name="digits", n_train=96, n_test=200, options={"test_share": 0.5})
    nets = {"mlp": {"depth": 2, "width": 16}, "cnn": {"depth": 2, "width": 4}}
    return {
        (name, "digits"): Grid(
            data=data, network=NetworkSpec(name=name, options=options), epochs=4, counting=_SMALL, lr=(0.1, 0.01),
            batch_size=(16, 32), weight_decay=(1e-5,), seeds=(0, 1), ranges=name == "mlp",
        )
        for name, options in nets.items()
    }  # fmt: skip


def _desk() -> dict[tuple[str, str], Grid]:
    nets = {
        "mlp": NetworkSpec(name="mlp", options={"depth": 3, "width": 64}),
        "cnn": NetworkSpec(name="cnn", options={"depth": 3, "width": 16}),
        "resnet18": NetworkSpec(name="resnet18", options={"width": 8}),
    }
    found = {
        (name, "digits"): Grid(
            data=_FEW_DIGITS, network=nets[name], epochs=150, counting=_DESK, batch_size=_DESK_BATCHES,
            seeds=seeds, ranges=name == "cnn",
        )
        for name, seeds in (("cnn", (0, 1, 2)), ("resnet18", (0,)))
    }  # fmt: skip
    for data, epochs, seeds in ((_FEW_DIGITS, 200, (0, 1, 2)), (_fewer("fashion_mnist"), 150, (0, 1, 2)),
                                (_fewer("mnist"), 150, (0,))):  # fmt: skip
        counting = Counting(lines=200, others=100, hulls=20, path=50, path_every=epochs // 10)
        found["mlp", data.name] = Grid(
            data=data, network=nets["mlp"], epochs=epochs, counting=counting, batch_size=_DESK_BATCHES, seeds=seeds,
            lr=(0.05, 0.02, 0.005),
        )  # fmt: skip
    return found


def _fewer(name: str) -> DataSpec:
    return DataSpec(name=name, n_train=1000, n_test=5000)


def _full() -> dict[tuple[str, str], Grid]:
    found = {}
    for net in paper.ALL_NETWORKS:
        for name in ("cifar10", "cifar100"):
            found[net, name] = Grid(
                data=DataSpec(name=name),
                network=NetworkSpec(name=net),
                epochs=200,
                counting=_PAPER,
                ranges=(net, name) == PRIMARY["full"],
            )
        found[net, "imagenet"] = Grid(
            data=DataSpec(name="imagenet", options={"memory_gib": 256.0}),
            network=NetworkSpec(name=net),
            epochs=50,
            augment="crop_flip",
            counting=_PAPER,
        )
    return found


_GRIDS = {"smoke": _smoke(), "desk": _desk(), "full": _full()}


def networks(size: Size) -> tuple[str, ...]:
    """Those of Figures 4 and 5, all on the data set of ``PRIMARY``."""
    return paper.NETWORKS if size == "full" else tuple(net for net, data in _GRIDS[size] if data == PRIMARY[size][1])


def data_sets(size: Size) -> tuple[tuple[str, str], ...]:
    """Network and data set, for every cell of the left half of Table 2."""
    return tuple(_GRIDS[size])


def of(size: Size, network: str, data: str) -> Grid:
    """How this network is trained on this data set."""
    return _GRIDS[size][network, data]


def grid(
    size: Size,
    network: str,
    data: str,
    *,
    optimizer: str = "sgd",
    augment: str | None = None,
    mixup: float = 0.0,
    seeds: Sequence[int] | None = None,
) -> tuple[Experiment, ...]:
    """Table 1 for one network and data set: learning rate x batch size x weight decay x seed."""
    chosen = of(size, network, data)
    own = {"optimizer": optimizer, "augment": augment or chosen.augment, "mixup": mixup}
    rates = [round(rate * OPTIMISER_RATES[optimizer], 12) for rate in chosen.lr]
    return _product(chosen, rates, chosen.seeds if seeds is None else tuple(seeds), measures(chosen), own)


def cifar10_sweep() -> tuple[Experiment, ...]:
    """ResNet18 on CIFAR-10, all of Table 1 with one seed, 25 epochs: for a GPU in minutes."""
    chosen = Grid(
        data=DataSpec(name="cifar10"), network=NetworkSpec(name="resnet18"), epochs=25, seeds=(0,), precision="bf16",
        counting=Counting(lines=1000, others=500, hulls=100, path=200, path_every=5),
    )  # fmt: skip
    return _product(chosen, chosen.lr, chosen.seeds, measures(chosen), {})


def cifar10_longer() -> tuple[Experiment, ...]:
    """The settings of ``cifar10_sweep`` that do not fit their data in 25 epochs, for 50: few and small steps."""
    rate, size = min(paper.LEARNING_RATES), max(paper.BATCH_SIZES)
    return tuple(
        replace(one, training=replace(one.training, epochs=50))
        for one in cifar10_sweep()
        if (one.training.lr, one.training.batch_size) == (rate, size)
    )


def cifar10_networks() -> tuple[Experiment, ...]:
    """Three more networks on CIFAR-10 over learning rate and batch size, one seed, each until it fits its data."""
    chosen = [
        Grid(
            data=DataSpec(name="cifar10"), network=NetworkSpec(name=name), epochs=15, seeds=(0,), precision="bf16",
            weight_decay=(_middle(paper.WEIGHT_DECAYS),),
            counting=Counting(lines=500, others=250, hulls=0, path=0, path_every=15),
        )
        for name in OTHER_NETWORKS
    ]  # fmt: skip
    return tuple(_fitting(one) for grid in chosen for one in _product(grid, grid.lr, grid.seeds, measures(grid), {}))


def _fitting(one: Experiment) -> Experiment:
    """With more epochs where 15 were seen to leave a training error above 1%."""
    training = one.training
    epochs = _MORE_EPOCHS[one.network.name].get((training.lr, training.batch_size), training.epochs)
    return replace(one, training=replace(training, epochs=epochs))


def counting_runs(size: Size) -> tuple[Experiment, ...]:
    """Tables 4 and 5: one setting of ``PRIMARY`` (the middle of Table 1), counted with many grids and samples."""
    chosen = of(size, *PRIMARY[size])
    lines, sides, samples = resolutions(size)
    slices = chosen.counting.lines
    counted = (
        *(_count(f"grid_{n}", slices=slices, grid=n) for n in lines),
        *(_count(f"grid_{n}x{n}", dim=2, slices=chosen.counting.hulls, grid=n) for n in sides),
        *(_count(f"samples_{n}", slices=n) for n in samples),
    )
    training = _training(chosen, _middle(chosen.lr), _middle(chosen.batch_size), _middle(chosen.weight_decay), {})
    return tuple(
        Experiment(data=chosen.data, network=chosen.network, training=training, measures=counted, seed=seed)
        for seed in chosen.seeds
    )


def measures(chosen: Grid) -> tuple[MeasureSpec, ...]:
    """The one list of measures; studies read what they need."""
    n = chosen.counting
    lines: dict[str, Any] = {"dim": 1, "points": "train", "slices": n.lines, "grid": 200}
    path: dict[str, Any] = {"dim": 1, "points": "train", "slices": n.path, "grid": 200}
    ranges = {f"regions_from_{low}_to_{high}": [float(low), float(high)] for low, high in paper.RANGES if low < 0}
    return (
        _count("regions", **lines),
        _count("regions_refined", **lines, method="refined"),
        _count("regions_test", dim=1, points="test", slices=n.others, grid=200),
        _count("regions_random", dim=1, points="train", slices=n.others, grid=200, through="direction"),
        *(_count(f"regions_{k}d", dim=k, points="train", slices=n.hulls) for k in (2, 3, 4, 5) if n.hulls),
        *([_count("regions_path", when=f"every {n.path_every} epochs", **path)] if n.path else []),
        *(_count(name, dim=1, slices=n.others, alpha=alpha) for name, alpha in ranges.items() if chosen.ranges),
        MeasureSpec(instrument="parameter_norms", name="norm"),
        MeasureSpec(instrument="distance_from", name="distance"),
        MeasureSpec(instrument="output_margin", name="margin"),
    )


def resolutions(size: Size) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Points on a line, points along a side of a plane, and numbers of slices, for Tables 4 and 5."""
    if size == "smoke":
        return (50, 200, 500), (10, 30, 50), (5, 20, 40)
    return tuple(paper.GRIDS_1D), tuple(paper.GRIDS_2D), tuple(paper.SAMPLES)


def _middle(values: Sequence[Number]) -> Number:
    return values[len(values) // 2]


def _count(name: str, *, when: str = "end", **options: Any) -> MeasureSpec:
    return MeasureSpec(instrument="region_count", name=name, when=when, options=options)


def _product(
    chosen: Grid, rates: Sequence[float], seeds: Sequence[int], specs: tuple[MeasureSpec, ...], own: dict[str, Any]
) -> tuple[Experiment, ...]:
    return tuple(
        Experiment(
            data=chosen.data, network=chosen.network, training=_training(chosen, lr, batch, decay, own), measures=specs,
            seed=seed,
        )
        for lr, batch, decay, seed in product(rates, chosen.batch_size, chosen.weight_decay, seeds)
    )  # fmt: skip


def _training(chosen: Grid, lr: float, batch: int, decay: float, own: dict[str, Any]) -> Training:
    return Training(
        epochs=chosen.epochs, lr=lr, batch_size=batch, weight_decay=decay, momentum=0.9, schedule="cosine",
        precision=chosen.precision,
        evaluate_every=chosen.counting.path_every, **own,
    )  # fmt: skip
