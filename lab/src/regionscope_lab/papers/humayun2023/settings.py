"""The runs of this paper's studies, made in one place so that studies share them.

Section 4.1: MNIST with fully connected networks, squared error on one-hot labels; CIFAR-10 with convolutional ones,
cross-entropy; rate 0.001 and weight decay 0.01. The paper gives no optimiser and no batch size: AdamW, and batches of
200 for MNIST at full size, are those of Liu et al. 2022, whose setup it follows. It names 100,000 steps for the network
of Figure 14 only. Random points come from [0, 1]^d for MNIST and from [-1, 1]^d for CIFAR-10, and the images lie in the
same cube, which the paper calls the domain of the data: a radius means the same at data and at random points. "Depth"
of a fully connected network counts linear layers, so that depth 4 has three hidden layers; that of a CNN counts
convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers.study import Size

FINE, COARSE = 0.005, 0.5  # radii of Figure 3
_CHECKPOINTS = 20
_BASELINE_DEPTH = 4  # of Figure 1
_EXACT_DEPTHS = (3, 4)  # of the networks whose regions are also counted exactly


@dataclass(frozen=True, kw_only=True)
class Dense:
    """Fully connected networks: data, length, how often and at how many points is measured, and what is varied."""

    data: str
    n_train: int
    n_test: int | None
    width: int
    steps: int
    batch: int
    looks: int
    points: int
    seeds: tuple[int, ...]
    depths: tuple[int, ...]
    widths: tuple[int, ...]
    gelu_depths: tuple[int, ...]
    layered_depth: int
    samples: tuple[int, ...]
    grokking_depths: tuple[int, ...]
    grokking_steps: int


@dataclass(frozen=True, kw_only=True)
class Images:
    """Convolutional networks: data, width, length, and how often and at how many points is measured."""

    data: str
    n_train: int | None
    n_test: int | None
    width: int
    steps: int
    batch: int
    looks: int
    points: int
    dims: int
    seeds: tuple[int, ...]
    judged: int | None = None  # images on which accuracy is read while training; None: all
    precision: str = "float32"
    depths: tuple[int, ...] = ()
    decays: tuple[float, ...] = ()
    decayed_depth: int = 5


_DENSE: dict[Size, Dense] = {
    "smoke": Dense(
        data="digits", n_train=100, n_test=100, width=16, steps=60, batch=50, looks=4, points=10, seeds=(0, 1),
        depths=(2, 3, 4), widths=(8, 16), gelu_depths=(3,), layered_depth=4, samples=(100, 200),
        grokking_depths=(3, 4), grokking_steps=80,
    ),
    "desk": Dense(
        data="mnist", n_train=1000, n_test=1000, width=200, steps=5000, batch=100, looks=40, points=300, seeds=(0, 1),
        depths=(2, 3, 4, 5), widths=(20, 100, 500, 1000), gelu_depths=(3, 4, 5), layered_depth=6,
        samples=(1000, 3000, 10_000), grokking_depths=(3, 4), grokking_steps=60_000,
    ),
    "full": Dense(
        data="mnist", n_train=1000, n_test=None, width=200, steps=100_000, batch=200, looks=60, points=10_000,
        seeds=(0, 1, 2), depths=(2, 3, 4, 5), widths=(20, 100, 500, 1000, 2000), gelu_depths=(3, 4, 5),
        layered_depth=6, samples=(1000, 5000, 10_000, 50_000), grokking_depths=(3, 4, 5), grokking_steps=100_000,
    ),
}  # fmt: skip
_CNN: dict[Size, Images] = {
    "smoke": Images(
        data="digits", n_train=100, n_test=100, width=3, steps=12, batch=50, looks=3, points=5, dims=4, seeds=(0,),
        depths=(2, 3), decays=(0.01, 1.0), decayed_depth=3,
    ),
    "desk": Images(
        data="cifar10", n_train=500, n_test=1000, width=8, steps=1000, batch=64, looks=14, points=48, dims=25,
        seeds=(0, 1), depths=(3, 5), decays=(0.01, 0.1, 1.0),
    ),
    "full": Images(
        data="cifar10", n_train=None, n_test=None, width=32, steps=30_000, batch=128, looks=24, points=2000, dims=25,
        seeds=(0, 1, 2), judged=2000, precision="bf16", depths=(3, 4, 5), decays=(0.001, 0.01, 0.1, 1.0),
    ),
}  # fmt: skip
_RESNET: dict[Size, Images] = {
    "smoke": Images(
        data="digits", n_train=64, n_test=64, width=1, steps=4, batch=32, looks=2, points=3, dims=4, seeds=(0,)
    ),
    "desk": Images(
        data="cifar10", n_train=500, n_test=1000, width=8, steps=600, batch=64, looks=14, points=24, dims=20,
        seeds=(0, 1),
    ),
    "full": Images(
        data="cifar10", n_train=None, n_test=None, width=64, steps=8000, batch=256, looks=18, points=1000, dims=20,
        seeds=(0, 1, 2), judged=2000, precision="bf16",
    ),
}  # fmt: skip


def mlp_grid(size: Size) -> Dense:
    """What is varied for fully connected networks."""
    return _DENSE[size]


def cnn_grid(size: Size) -> Images:
    """What is varied for plain convolutional networks."""
    return _CNN[size]


def mlp(
    size: Size,
    *,
    depth: int = 4,
    width: int | None = None,
    n: int | None = None,
    activation: str = "relu",
    scale: float = 1.0,
    random_labels: bool = False,
    by_layer: bool = False,
) -> tuple[Experiment, ...]:
    """A fully connected network, one run a seed; None is the size's own number.

    Networks of the paper's usual setting are also measured at the coarse radius, store checkpoints at depth 3 and 4,
    and have their train/test gap taken at depth 4.
    """
    grid = _DENSE[size]
    n, width = n or grid.n_train, width or grid.width
    usual = (width, n, activation, scale, random_labels, by_layer) == (
        grid.width, grid.n_train, "relu", 1.0, False, False,
    )  # fmt: skip
    steps = grid.grokking_steps if scale != 1.0 else grid.steps
    when = f"start and log 1 {steps} {grid.looks}"
    data = DataSpec(
        name=grid.data, n_train=n, n_test=grid.n_test, label_noise=1.0 if random_labels else 0.0, normalise=False,
        options={"flatten": True},
    )  # fmt: skip
    measures = [*_complexity(when, grid.points, [0.0, 1.0], by_layer=by_layer), _errors(when)]
    if usual:
        measures += _complexity(when, grid.points, [0.0, 1.0], name="coarse", radius=COARSE)
    if usual and depth == _BASELINE_DEPTH:
        own = {"n": grid.points, "radius": FINE}
        measures.append(MeasureSpec(instrument="complexity_gap", name="gap", when=when, options=own))
    stored = f"start and log 1 {steps} {_CHECKPOINTS}" if usual and depth in _EXACT_DEPTHS else "end"
    training = _training(steps, n, grid.batch, loss="mse", checkpoints=stored)
    options = {"depth": depth - 1, "width": width, "activation": activation, "scale": scale}
    return _by_seed(grid.seeds, data, NetworkSpec(name="mlp", options=options), training, measures)


def cnn(size: Size, *, depth: int, bn: bool, decay: float = 0.01) -> tuple[Experiment, ...]:
    """Convolutions of one width, and a linear layer that sees all of their outputs; no other layer has weights."""
    options = {"depth": depth, "width": _CNN[size].width, "bn": bn, "flatten": True}
    network = NetworkSpec(name="cnn", options=options)
    return _on_images(_CNN[size], network, decay=decay)


def resnet(size: Size, *, bn: bool) -> tuple[Experiment, ...]:
    """The pre-activation ResNet18 of Figures 5, 16 and 19, measured layer by layer."""
    network = NetworkSpec(name="preactresnet18", options={"width": _RESNET[size].width, "bn": bn})
    return _on_images(_RESNET[size], network, by_layer=True)


def imagenet(size: Size) -> tuple[Experiment, ...]:
    """Figure 12: ResNet18 on ImageNet at full size; else the ResNet18 with batch normalisation stands in for it."""
    if size != "full":
        return resnet(size, bn=True)
    data = DataSpec(name="imagenet", n_train=100_000, n_test=5000, options={"size": 224, "memory_gib": 70.0})
    training = Training(epochs=90, batch_size=256, lr=0.1, weight_decay=1e-4, augment="crop_flip", precision="bf16")
    when = "start and log 1 35000 40"
    measures = [*_complexity(when, 1000, [-1.0, 1.0], dims=20, parts=["test"]), _errors(when)]
    network = NetworkSpec(name="resnet18", options={"stem": "imagenet"})
    return _by_seed((0,), data, network, training, measures)


def _on_images(
    grid: Images, network: NetworkSpec, *, decay: float = 0.01, by_layer: bool = False
) -> tuple[Experiment, ...]:
    when = f"start and log 1 {grid.steps} {grid.looks}"
    data = DataSpec(
        name=grid.data, n_train=grid.n_train, n_test=grid.n_test, normalise=False, options={"symmetric": True}
    )
    measures = [
        *_complexity(when, grid.points, [-1.0, 1.0], dims=grid.dims, by_layer=by_layer),
        _errors(when, grid.judged),
    ]
    training = _training(grid.steps, grid.n_train or 50_000, grid.batch, decay=decay, precision=grid.precision)
    return _by_seed(grid.seeds, data, network, training, measures)


def _by_seed(
    seeds: tuple[int, ...], data: DataSpec, network: NetworkSpec, training: Training, measures: list[MeasureSpec]
) -> tuple[Experiment, ...]:
    return tuple(
        Experiment(data=data, network=network, training=training, measures=tuple(measures), seed=seed) for seed in seeds
    )


def _training(
    steps: int,
    n: int,
    batch: int,
    *,
    loss: str = "cross_entropy",
    decay: float = 0.01,
    checkpoints: str = "end",
    precision: str = "float32",
) -> Training:
    epochs = -(-steps // -(-n // batch))
    return Training(
        epochs=epochs, optimizer="adamw", lr=1e-3, weight_decay=decay, batch_size=batch, schedule="constant", loss=loss,
        checkpoints=checkpoints, precision=precision, evaluate_every=epochs,
    )  # fmt: skip


def _complexity(
    when: str,
    n: int,
    domain: list[float],
    *,
    name: str = "lc",
    radius: float = FINE,
    dims: int | None = None,
    by_layer: bool = False,
    parts: list[str] | None = None,
) -> list[MeasureSpec]:
    options = {
        "points": parts or ["train", "test", "random"], "n": n, "radius": radius, "dims": dims, "domain": domain,
        "by_layer": by_layer,
    }  # fmt: skip
    return [MeasureSpec(instrument="local_complexity", name=name, when=when, options=options)]


def _errors(when: str, n: int | None = None) -> MeasureSpec:
    options: dict[str, Any] = {"points": ["train", "test"], **({} if n is None else {"n": n})}
    return MeasureSpec(instrument="error_rate", name="error", when=when, options=options)
