"""The runs of the studies of transformers.

Modular addition follows Nanda et al. 2023 ("Progress measures for grokking via mechanistic interpretability"): one
layer of width 128 with ReLU and without LayerNorm, p = 113, 30% of the pairs, AdamW with rate 0.001 and weight decay 1;
but batches of 1,024 in place of all pairs. The text and the images follow Li et al. 2025: settings of learning rate,
batch size and weight decay, whose networks fit their data.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers.study import Size

RADIUS, FINE = 0.05, 0.01
"""Of neighbourhoods, as shares of the root mean square distance of the embedded sequences from their mean."""


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Modular addition: data, network, length, and how often and at how many points LC is measured."""

    modulus: int
    train_share: float
    width: int
    batch: int
    steps: int
    looks: int
    points: int
    seeds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TransformerGrid:
    """Settings of a network on a data set, and the number of slices: lines, and hulls of three points."""

    data: DataSpec
    network: NetworkSpec
    epochs: int
    lr: tuple[float, ...]
    batch_size: tuple[int, ...]
    weight_decay: tuple[float, ...]
    seeds: tuple[int, ...]
    lines: int
    planes: int
    loss: str = "cross_entropy"
    precision: str = "float32"


_SUMS: dict[Size, Sums] = {
    "smoke": Sums(
        modulus=7, train_share=0.6, width=8, batch=16, steps=60, looks=3, points=8, seeds=(0,)
    ),
    "desk": Sums(
        modulus=59, train_share=0.4, width=64, batch=512, steps=6000, looks=50, points=100, seeds=(0, 1, 2)
    ),
    "full": Sums(
        modulus=113, train_share=0.3, width=128, batch=1024, steps=40_000, looks=80, points=500, seeds=(0, 1, 2)
    ),
}  # fmt: skip

TEXT: dict[Size, TransformerGrid] = {
    "smoke": TransformerGrid(
        data=DataSpec(name="text", n_train=24, n_test=10, options={"book": "gettysburg", "context": 8, "stride": 8}),
        network=NetworkSpec(name="gpt", options={"depth": 1, "width": 8, "heads": 2}),
        epochs=3, lr=(0.01, 0.003), batch_size=(8, 12), weight_decay=(0.01,), seeds=(0,), lines=5, planes=2,
        loss="next_token",
    ),
    "desk": TransformerGrid(
        data=DataSpec(name="text", n_train=64, n_test=2000, options={"context": 16, "stride": 16}),
        network=NetworkSpec(name="gpt", options={"depth": 2, "width": 32}),
        epochs=300, lr=(0.006, 0.003, 0.0015), batch_size=(4, 8, 16), weight_decay=(0.01,), seeds=(0, 1, 2),
        lines=100, planes=10, loss="next_token",
    ),
    "full": TransformerGrid(
        data=DataSpec(name="text", n_train=512, n_test=6000),
        network=NetworkSpec(name="gpt", options={"width": 256}),
        epochs=600, lr=(0.002, 0.001, 0.0005), batch_size=(16, 32, 64), weight_decay=(0.01,), seeds=(0, 1, 2),
        lines=500, planes=50, loss="next_token",
    ),
}  # fmt: skip

IMAGES: dict[Size, TransformerGrid] = {
    "smoke": TransformerGrid(
        data=DataSpec(name="digits", n_train=64, n_test=100, options={"test_share": 0.5}),
        network=NetworkSpec(name="vit", options={"depth": 1, "width": 8, "heads": 2}),
        epochs=3, lr=(0.01, 0.003), batch_size=(16, 32), weight_decay=(0.01,), seeds=(0,), lines=5, planes=2,
    ),
    "desk": TransformerGrid(
        data=DataSpec(name="digits", options={"test_share": 0.8}),
        network=NetworkSpec(name="vit", options={"depth": 2, "width": 32, "heads": 2, "patch": 2}),
        epochs=100, lr=(0.003, 0.0015, 0.0008), batch_size=(16, 32, 64), weight_decay=(0.01,), seeds=(0, 1, 2),
        lines=100, planes=16,
    ),
    "full": TransformerGrid(
        data=DataSpec(name="cifar10"), network=NetworkSpec(name="vit"), epochs=60,
        lr=(0.002, 0.001, 0.0005, 0.00025, 0.000125), batch_size=(128, 256, 512), weight_decay=(0.01,),
        seeds=(0, 1, 2), lines=500, planes=50, precision="bf16",
    ),
}  # fmt: skip


def sums(size: Size, *, decay: float = 1.0, random_labels: bool = False) -> tuple[Experiment, ...]:
    """Modular addition with one layer, one run a seed. decay: weight decay."""
    setting = _SUMS[size]
    data = DataSpec(
        name="modular_addition", label_noise=1.0 if random_labels else 0.0,
        options={"modulus": setting.modulus, "train_share": setting.train_share},
    )  # fmt: skip
    options = {"depth": 1, "width": setting.width, "activation": "relu", "norm": False}
    n_train = round(setting.train_share * setting.modulus**2)
    epochs = -(-setting.steps // -(-n_train // setting.batch))
    training = Training(
        epochs=epochs, optimizer="adamw", lr=1e-3, weight_decay=decay, batch_size=setting.batch, schedule="constant",
        evaluate_every=epochs,
    )  # fmt: skip
    when = f"start and log 10 {setting.steps} {setting.looks}"
    measures = (
        _complexity("lc", when, setting.points, RADIUS),
        _complexity("fine", when, setting.points, FINE),
        MeasureSpec(instrument="error_rate", name="error", when=when, options={"points": ["train", "test"]}),
        MeasureSpec(instrument="parameter_norms", name="norm", when=when),
    )
    network = NetworkSpec(name="gpt", options=options)
    return tuple(
        Experiment(data=data, network=network, training=training, measures=measures, seed=seed)
        for seed in setting.seeds
    )


def grid(settings: TransformerGrid) -> tuple[Experiment, ...]:
    """Seed x weight decay x learning rate x batch size, in this order."""
    return tuple(
        Experiment(
            data=settings.data, network=settings.network, measures=_counts(settings), seed=seed,
            training=Training(
                epochs=settings.epochs, optimizer="adamw", lr=lr, batch_size=batch, weight_decay=decay,
                loss=settings.loss, precision=settings.precision, evaluate_every=settings.epochs,
            ),
        )
        for seed, decay, lr, batch in product(settings.seeds, settings.weight_decay, settings.lr, settings.batch_size)
    )  # fmt: skip


def _complexity(name: str, when: str, n: int, radius: float) -> MeasureSpec:
    options = {"points": ["train", "test"], "n": n, "radius": radius, "relative": True, "by_position": True}
    return MeasureSpec(instrument="local_complexity", name=name, when=when, options=options)


def _counts(settings: TransformerGrid) -> tuple[MeasureSpec, ...]:
    lines: dict[str, Any] = {"dim": 1, "slices": settings.lines, "grid": 200}
    counted = {
        "regions": lines,
        "regions_refined": {**lines, "slices": -(-settings.lines // 5), "method": "refined", "max_points": 10_000},
        "regions_test": {**lines, "points": "test"},
        "regions_2d": {"dim": 2, "slices": settings.planes},
    }
    return (
        *(MeasureSpec(instrument="region_count", name=name, options=options) for name, options in counted.items()),
        MeasureSpec(instrument="loss", options={"points": ["train", "test"]}),
        MeasureSpec(instrument="parameter_norms", name="norm"),
        MeasureSpec(instrument="output_margin", name="margin"),
    )
