"""The runs of this paper's studies: one grid for each data set, so that studies share them.

The values that the paper states are in ``paper.py``; ``decay.py`` and ``theorem1.py`` have grids of their own.

Section 4: Adam, batches of 32, cross-entropy, points in [-1, 1]^2; the rate 0.001 is named for random labels. With
PyTorch's default weights from seed 5 the exact counts before training are those of the paper, so that seed comes first
and is the one that is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.study import Size

SEED = 5
DEPTH = 3
LAYERED_WIDTH = 8  # of Figure 2
_BATCH = 32
_TEN_SEEDS = (SEED, 0, 1, 2, 3, 4, 6, 7, 8, 9)
_SQUARE = {"box": [-1.0, 1.0]}

DISCLOSED = (
    "The paper's text names neither the noise of its two moons nor any seed, of data or weights. Here the noise is "
    f"0.2 and the data, two moons and Gaussian quantiles, have seed {SEED} in every run; the rate of Adam, 0.001, is "
    f"named for random labels only. The seeds are those of the weights and of the order of batches; weights of seed "
    f"{SEED} were chosen because their exact counts before training are the paper's."
)


@dataclass(frozen=True)
class Toy:
    """Two moons or Gaussian quantiles: widths of the networks, epochs at which regions are counted, seeds, points."""

    widths: tuple[int, ...]
    epochs: tuple[int, ...]
    seeds: tuple[int, ...]
    points: int
    lines: int  # from the origin, for Figure 3
    lines_every: int  # epochs


@dataclass(frozen=True)
class Random:
    """Random labels: numbers of points, epochs at which regions are counted, seeds."""

    sizes: tuple[int, ...]
    epochs: tuple[int, ...]
    seeds: tuple[int, ...]


_TOY = Toy(widths=paper.WIDTHS, epochs=paper.EPOCHS, seeds=_TEN_SEEDS, points=1000, lines=100, lines_every=5)
_TOYS: dict[Size, Toy] = {
    "smoke": Toy(widths=(16, 32), epochs=(0, 2, 5), seeds=(SEED, 0), points=96, lines=8, lines_every=2),
    "desk": _TOY,
    "full": _TOY,
}
_RANDOM: dict[Size, Random] = {
    "smoke": Random(sizes=(200, 500), epochs=(0, 10), seeds=(SEED, 6)),
    "desk": Random(sizes=paper.RANDOM_SIZES, epochs=(0, 10, 30, 50, 80, 100, 300), seeds=(SEED, 6, 7)),
    "full": Random(sizes=paper.RANDOM_SIZES, epochs=paper.RANDOM_EPOCHS, seeds=(SEED, 6, 7)),
}


def toy_grid(size: Size) -> Toy:
    """What is trained on two moons and on Gaussian quantiles."""
    return _TOYS[size]


def random_grid(size: Size) -> Random:
    """What is trained on random labels."""
    return _RANDOM[size]


def moons(size: Size) -> tuple[Experiment, ...]:
    """Tables 2, Figures 1, 3, 7 and 9: width by width, seed by seed; they also count along lines from the origin."""
    grid = _TOYS[size]
    lines = MeasureSpec(
        instrument="linear_region_count",
        name="lines",
        when=f"every {grid.lines_every} epochs",
        options={"through": "origin", "slices": grid.lines},
    )
    return tuple(_toy("two_moons", grid, width, seed, (lines,)) for width in grid.widths for seed in grid.seeds)


def quantiles(size: Size) -> tuple[Experiment, ...]:
    """Table 3, Figures 6, 8 and 10: width by width, seed by seed."""
    grid = _TOYS[size]
    return tuple(_toy("gaussian_quantiles", grid, width, seed) for width in grid.widths for seed in grid.seeds)


def layered(size: Size) -> tuple[Experiment, ...]:
    """Figure 2: three hidden layers of 8 neurons on two moons, seed by seed."""
    grid = _TOYS[size]
    return tuple(_toy("two_moons", grid, LAYERED_WIDTH, seed) for seed in grid.seeds)


def random(size: Size) -> tuple[Experiment, ...]:
    """Table 1, Figures 4 and 5: by number of points, seed by seed; a seed is that of the data, too."""
    grid = _RANDOM[size]
    return tuple(
        _experiment(DataSpec(name="random_labels", n_train=n, n_test=200, seed=seed), n, 32, grid.epochs, seed)
        for n in grid.sizes
        for seed in grid.seeds
    )


def _toy(name: str, grid: Toy, width: int, seed: int, more: tuple[MeasureSpec, ...] = ()) -> Experiment:
    data = DataSpec(name=name, n_train=grid.points, n_test=grid.points, seed=SEED)
    return _experiment(data, grid.points, width, grid.epochs, seed, more)


def _experiment(
    data: DataSpec, points: int, width: int, epochs: tuple[int, ...], seed: int, more: tuple[MeasureSpec, ...] = ()
) -> Experiment:
    per_epoch = -(-points // _BATCH)
    when = "start and steps " + " ".join(str(epoch * per_epoch) for epoch in epochs[1:])
    return Experiment(
        data=data,
        network=NetworkSpec(name="mlp", options={"depth": DEPTH, "width": width}),
        training=Training(
            epochs=epochs[-1],
            optimizer="adam",
            lr=1e-3,
            batch_size=_BATCH,
            schedule="constant",
            checkpoints=when if seed == SEED else "end",
        ),
        measures=(
            MeasureSpec(instrument="linear_regions", when=when, options={**_SQUARE, "by_layer": True}),
            MeasureSpec(instrument="decision_regions", when=when, options=_SQUARE),
            MeasureSpec(instrument="error_rate", when=when, options={"points": "train"}),
            *more,
        ),
        seed=seed,
    )
