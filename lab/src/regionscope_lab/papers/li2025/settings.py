"""The runs of all studies of this paper: one grid, Table 1, for each network and data set, with one list of measures.

Studies name the same experiments, so one training serves many of them. Size full is CIFAR-10 as far as one GPU allows:
``examples/table1_cifar10.toml``, ``table1_cifar10_training.toml`` and ``table4_cifar10.toml`` are these runs as files.
The values that the paper prints are in ``paper.py``; to run other ones, replace them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers.li2025 import paper
from regionscope_lab.papers.study import Size

OPTIMISER_RATES = {"sgd": 1.0, "adam": 0.1, "adagrad": 1.0}
"""Learning rates of Table 1 are multiplied by this; with 0.1 Adam does not train. The paper gives no rates for it."""

MOMENTUM = 0.9
"""Of SGD; the paper gives none."""

FITTED = 1.0
"""Training error in percent below which a setting fits its data."""

SCHEDULES = (25, 50, 100)
"""Epochs of other networks than ResNet18 on CIFAR-10 at size full; ``schedule.planned`` chooses one of them."""

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class Counting:
    """How many slices: on lines, on other lines (then the first ones are also refined), on hulls, along the training.

    With 0 that measure is left out.
    """

    lines: int
    others: int
    hulls: int
    path: int
    path_every: int  # epochs


@dataclass(frozen=True, kw_only=True)
class Table1:
    """How one network is trained on one data set: the values of Table 1, scaled to what there is."""

    data: DataSpec
    network: NetworkSpec
    epochs: tuple[int, ...]  # schedules of which one is chosen, see ``schedule.planned``
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

OTHER_NETWORKS = ("senet18", "mobilenetv2", "vgg19")
FIVE_NETWORKS = ("efficientnetb0", "resnet34", "shufflenetv2", "regnetx200mf", "simpledla")
"""Beside ResNet18 on CIFAR-10: together all of Table 2."""

_DESK_BATCHES = (16, 32, 64)
_PAPER = Counting(lines=100, others=100, hulls=100, path=100, path_every=10)
_MANY = Counting(lines=1000, others=300, hulls=100, path=100, path_every=5)
_ENDS = Counting(lines=500, others=250, hulls=50, path=0, path_every=25)
_LINES_ONLY = Counting(lines=500, others=0, hulls=0, path=0, path_every=25)
_SMALL = Counting(lines=6, others=4, hulls=2, path=4, path_every=1)
_SMALL_LINES = Counting(lines=6, others=0, hulls=0, path=0, path_every=1)
_DESK = Counting(lines=100, others=50, hulls=16, path=40, path_every=15)
_FEW_DIGITS = DataSpec(name="digits", options={"test_share": 0.8})  # 360 to train on, 1,437 to test on


def _smoke() -> dict[tuple[str, str], Table1]:
    data = DataSpec(name="digits", n_train=96, n_test=200, options={"test_share": 0.5})
    nets = {"mlp": {"depth": 2, "width": 16}, "cnn": {"depth": 2, "width": 4}}
    return {
        (name, "digits"): Table1(
            data=data, network=NetworkSpec(name=name, options=options), epochs=(4,), counting=_SMALL, lr=(0.1, 0.01),
            batch_size=(16, 32), weight_decay=(1e-5,), seeds=(0, 1), ranges=name == "mlp",
        )
        for name, options in nets.items()
    }  # fmt: skip


def _desk() -> dict[tuple[str, str], Table1]:
    nets = {
        "mlp": NetworkSpec(name="mlp", options={"depth": 3, "width": 64}),
        "cnn": NetworkSpec(name="cnn", options={"depth": 3, "width": 16}),
        "resnet18": NetworkSpec(name="resnet18", options={"width": 8}),
    }
    tables = {
        (name, "digits"): Table1(
            data=_FEW_DIGITS, network=nets[name], epochs=(150,), counting=_DESK, batch_size=_DESK_BATCHES,
            seeds=seeds, ranges=name == "cnn",
        )
        for name, seeds in (("cnn", (0, 1, 2)), ("resnet18", (0,)))
    }  # fmt: skip
    for data, epochs, seeds in ((_FEW_DIGITS, 200, (0, 1, 2)), (_fewer("fashion_mnist"), 150, (0, 1, 2)),
                                (_fewer("mnist"), 150, (0,))):  # fmt: skip
        counting = Counting(lines=200, others=100, hulls=20, path=50, path_every=epochs // 10)
        tables["mlp", data.name] = Table1(
            data=data, network=nets["mlp"], epochs=(epochs,), counting=counting, batch_size=_DESK_BATCHES, seeds=seeds,
            lr=(0.05, 0.02, 0.005),
        )  # fmt: skip
    return tables


def _fewer(name: str) -> DataSpec:
    return DataSpec(name=name, n_train=1000, n_test=5000)


def _full() -> dict[tuple[str, str], Table1]:
    """All of Table 1 for ResNet18 on CIFAR-10, one weight decay for other networks there; the rest as in the paper."""
    tables = {}
    for net in paper.ALL_NETWORKS:
        network, rates = NetworkSpec(name=net), paper.VGG_RATES if net == "vgg19" else paper.LEARNING_RATES
        tables[net, "cifar10"] = Table1(
            data=DataSpec(name="cifar10"), network=network, epochs=SCHEDULES, counting=_ENDS, lr=rates,
            weight_decay=(_middle(paper.WEIGHT_DECAYS),), precision="bf16",
        )  # fmt: skip
        tables[net, "cifar100"] = Table1(
            data=DataSpec(name="cifar100"), network=network, epochs=(200,), counting=_PAPER, lr=rates
        )
        tables[net, "imagenet"] = Table1(
            data=DataSpec(name="imagenet", options={"memory_gib": 256.0}), network=network, epochs=(50,),
            augment="crop_flip", counting=_PAPER, lr=rates,
        )  # fmt: skip
    primary = PRIMARY["full"]
    tables[primary] = replace(
        tables[primary], epochs=(50,), counting=_MANY, weight_decay=paper.WEIGHT_DECAYS, ranges=True
    )
    return tables


def _middle(values: Sequence[_Number]) -> _Number:
    return values[len(values) // 2]


_GRIDS = {"smoke": _smoke(), "desk": _desk(), "full": _full()}


def networks(size: Size) -> tuple[str, ...]:
    """Those of Figures 4 and 5, all on the data set of ``PRIMARY``."""
    return paper.NETWORKS if size == "full" else tuple(net for net, data in _GRIDS[size] if data == PRIMARY[size][1])


def data_sets(size: Size) -> tuple[tuple[str, str], ...]:
    """Network and data set, for every cell of the left half of Table 2."""
    return tuple(_GRIDS[size])


def of(size: Size, network: str, data: str) -> Table1:
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
    momentum: float = MOMENTUM,
    seeds: Sequence[int] | None = None,
) -> tuple[Experiment, ...]:
    """Table 1 for one network and data set: schedule x seed x weight decay x learning rate x batch size, in this order.

    Except at size desk, other optimisers, momenta and augmentations have one weight decay, one seed and lines between
    training points only; at size full other optimisers have 30 epochs.
    """
    table = of(size, network, data)
    variant = {"optimizer": optimizer, "augment": augment or table.augment, "mixup": mixup, "momentum": momentum}
    rates = [round(rate * OPTIMISER_RATES[optimizer], 12) for rate in table.lr]
    plain = {"optimizer": "sgd", "augment": table.augment, "mixup": 0.0, "momentum": MOMENTUM}
    if size != "desk" and variant != plain:
        table = replace(
            table, weight_decay=(_middle(table.weight_decay),), seeds=(0,), ranges=False,
            counting=_LINES_ONLY if size == "full" else _SMALL_LINES,
            epochs=(30,) if size == "full" and optimizer != "sgd" else table.epochs,
        )  # fmt: skip
    return tuple(
        Experiment(
            data=table.data, network=table.network, training=_training(table, epochs, lr, batch, decay, variant),
            measures=measures(table), seed=seed,
        )
        for epochs, seed, decay, lr, batch in product(
            table.epochs, table.seeds if seeds is None else seeds, table.weight_decay, rates, table.batch_size
        )
    )  # fmt: skip


def counting_runs(size: Size) -> tuple[Experiment, ...]:
    """Tables 4 and 5: one setting of ``PRIMARY`` (the middle of Table 1), counted with many grids and samples."""
    table = of(size, *PRIMARY[size])
    lines, sides, samples = resolutions(size)
    slices = table.counting.lines
    counted = (
        *(_count(f"grid_{n}", slices=slices, grid=n) for n in lines),
        *(_count(f"grid_{n}x{n}", dim=2, slices=table.counting.hulls, grid=n) for n in sides),
        *(_count(f"samples_{n}", slices=n) for n in samples),
    )
    lr, batch, decay = (_middle(each) for each in (table.lr, table.batch_size, table.weight_decay))
    training = _training(table, table.epochs[0], lr, int(batch), decay, {})
    return tuple(
        Experiment(data=table.data, network=table.network, training=training, measures=counted, seed=seed)
        for seed in table.seeds
    )


def measures(table: Table1) -> tuple[MeasureSpec, ...]:
    """The one list of measures; studies read what they need."""
    counting = table.counting
    lines: dict[str, Any] = {"dim": 1, "points": "train", "slices": counting.lines, "grid": 200}
    path: dict[str, Any] = {"dim": 1, "points": "train", "slices": counting.path, "grid": 200}
    others = (
        _count("regions_refined", **lines, method="refined"),
        _count("regions_test", dim=1, points="test", slices=counting.others, grid=200),
        _count("regions_random", dim=1, points="train", slices=counting.others, grid=200, through="direction"),
    )
    ranges = {f"regions_from_{low}_to_{high}": [float(low), float(high)] for low, high in paper.RANGES if low < 0}
    return (
        _count("regions", **lines),
        *(others if counting.others else ()),
        *(
            _count(f"regions_{k}d", dim=k, points="train", slices=counting.hulls)
            for k in (2, 3, 4, 5)
            if counting.hulls
        ),
        *([_count("regions_path", when=f"every {counting.path_every} epochs", **path)] if counting.path else []),
        *(_count(name, dim=1, slices=counting.others, alpha=alpha) for name, alpha in ranges.items() if table.ranges),
        MeasureSpec(instrument="parameter_norms", name="norm"),
        MeasureSpec(instrument="distance_from", name="distance"),
        MeasureSpec(instrument="output_margin", name="margin"),
    )


def resolutions(size: Size) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Points on a line, points along a side of a plane, and numbers of slices, for Tables 4 and 5."""
    if size == "smoke":
        return (50, 200, 500), (10, 30, 50), (5, 20, 40)
    return tuple(paper.GRIDS_1D), tuple(paper.GRIDS_2D), tuple(paper.SAMPLES)


def _count(name: str, *, when: str = "end", **options: Any) -> MeasureSpec:
    return MeasureSpec(instrument="region_count", name=name, when=when, options=options)


def _training(table: Table1, epochs: int, lr: float, batch: int, decay: float, variant: dict[str, Any]) -> Training:
    return Training(
        epochs=epochs, lr=lr, batch_size=batch, weight_decay=decay, schedule="cosine",
        precision=table.precision,
        evaluate_every=table.counting.path_every, **variant,
    )  # fmt: skip
