"""Local complexity over a training: a thin accumulator around ``local_complexity``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from torch import nn

from regionscope.checks import check_instance, read_step
from regionscope.complexity.complexity_gap import ComplexityGap, complexity_gap
from regionscope.complexity.layers import LayerChoice
from regionscope.complexity.local_complexity import LocalComplexity, local_complexity
from regionscope.complexity.measure_points import MeasurePoints
from regionscope.complexity.neighbourhoods import FrameChoice
from regionscope.extras import data_frame
from regionscope.formatting import counted
from regionscope.network.output import Arguments, Output
from regionscope.types import Reading, repr_of

_STEP_COLUMNS = ("step", "train_accuracy", "test_accuracy")
_LEVEL_COLUMNS = ("mean", "std", "stderr")  # of each set of points
_GAP_COLUMNS = {
    "gap": "value",
    "gap.stderr": "stderr",
    "gap.auc": "auc",
    "gap.auc.stderr": "auc_stderr",
    "gap.n_train": "n_train",
    "gap.n_test": "n_test",
}  # column -> field


@dataclass(frozen=True)
class Level:
    """LC at one set of points: mean, standard deviation and standard error over them, and the mean of each layer."""

    mean: float
    std: float
    stderr: float
    by_layer: dict[str, float]

    @staticmethod
    def of(complexity: LocalComplexity) -> Level:
        layers = {name: float(counts.double().mean()) for name, counts in complexity.by_layer.items()}
        return Level(complexity.mean, complexity.std, complexity.stderr, layers)

    def readings(self) -> tuple[Reading, ...]:
        """The mean, and those of the layers."""
        return ("", self.mean, self.stderr), *((name, mean, None) for name, mean in self.by_layer.items())

    def __repr__(self) -> str:
        return repr_of(self, std=float(f"{self.std:.3g}"))


@dataclass(frozen=True)
class ComplexityRow:
    """Measurements at one step; accuracies are None where they were not given."""

    step: int
    levels: dict[str, Level]
    gap: ComplexityGap | None
    train_accuracy: float | None = None
    test_accuracy: float | None = None

    def readings(self) -> tuple[Reading, ...]:
        """The mean at each set of points, and the gap."""
        readings = tuple((name, level.mean, level.stderr) for name, level in self.levels.items())
        gap = () if self.gap is None else self.gap.readings()
        return (*readings, *((f"gap.{name}".rstrip("."), value, error) for name, value, error in gap))

    def __repr__(self) -> str:
        return repr_of(self, step=self.step)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class ComplexityHistory:
    """Rows in the order of their steps."""

    rows: tuple[ComplexityRow, ...]

    def __repr__(self) -> str:
        return repr_of(self, rows=len(self.rows), last_step=self.steps[-1] if self.rows else None)

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each step.

        Columns: step and accuracies; mean, std and stderr of each set of points ("train.mean"), and its mean in each
        layer ("train.by_layer.relu1"); "gap" and "gap.auc" with their standard errors and numbers of points, missing
        where there is no gap.
        """
        return data_frame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in self.rows] for name in _STEP_COLUMNS}
        for name in self.names:
            levels = [row.levels[name] for row in self.rows]
            columns |= {f"{name}.{what}": [getattr(level, what) for level in levels] for what in _LEVEL_COLUMNS}
            for layer in dict.fromkeys(layer for level in levels for layer in level.by_layer):
                columns[f"{name}.by_layer.{layer}"] = [level.by_layer.get(layer) for level in levels]
        for column, field in _GAP_COLUMNS.items():
            columns[column] = [getattr(row.gap, field, None) for row in self.rows]
        return columns

    def readings(self) -> tuple[Reading, ...]:
        """Those of the last row."""
        return self.rows[-1].readings() if self.rows else ()

    @property
    def steps(self) -> list[int]:
        """The steps, ascending."""
        return [row.step for row in self.rows]

    @property
    def names(self) -> list[str]:
        """The sets of points, such as train, test, random."""
        return list(self.rows[0].levels) if self.rows else []

    def means(self, name: str) -> list[float]:
        """Mean LC of the set ``name`` at each step."""
        return [row.levels[name].mean for row in self.rows]

    def stds(self, name: str) -> list[float]:
        """Standard deviation of LC over the points of the set ``name`` at each step."""
        return [row.levels[name].std for row in self.rows]


class ComplexityWatch:
    """Measure LC at the same points, with the same frame, each time it is called.

    >>> import torch
    >>> from regionscope.complexity.measure_points import draw_points
    >>> watch = ComplexityWatch(draw_points(torch.rand(9, 4), torch.rand(9, 4)), dims=3)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> row = watch(0, model, train_accuracy=0.5)
    >>> watch.history.steps
    [0]
    >>> watch
    ComplexityWatch(train=9, test=9, random=1000; 1 step)
    """

    def __init__(
        self,
        points: MeasurePoints,
        *,
        dims: int | None = None,
        radius: float = 0.005,
        frames: FrameChoice = "shared",
        layers: LayerChoice | None = None,
        linear_outputs: bool = False,
        max_pool: bool = False,
        seed: int = 0,
        memory: int | None = None,
        output: Output | None = None,
        args: Arguments = (),
    ) -> None:
        """Options are those of ``local_complexity``. There is no ``attention_mask``, as the points have no
        padding.
        """
        self._points = check_instance("points", points, MeasurePoints, advice="Draw them with draw_points(train, test)")
        self._measure = partial(
            local_complexity, dims=dims, radius=radius, frames=frames, layers=layers,
            linear_outputs=linear_outputs, max_pool=max_pool, seed=seed,
            memory=memory, output=output, args=args,
        )  # fmt: skip
        self._rows: dict[int, ComplexityRow] = {}

    def __call__(
        self, step: int, model: nn.Module, *, train_accuracy: float | None = None, test_accuracy: float | None = None
    ) -> ComplexityRow:
        """Measure ``model`` now and remember it under ``step``."""
        step = read_step(step)
        complexities = {name: self._measure(model, points) for name, points in self._points.items()}
        enough = min(len(complexities["train"]), len(complexities["test"])) > 1
        row = ComplexityRow(
            step=step,
            levels={name: Level.of(complexity) for name, complexity in complexities.items()},
            gap=complexity_gap(complexities["train"], complexities["test"]) if enough else None,
            train_accuracy=None if train_accuracy is None else float(train_accuracy),
            test_accuracy=None if test_accuracy is None else float(test_accuracy),
        )
        self._rows[step] = row
        return row

    def __repr__(self) -> str:
        points = ", ".join(f"{name}={len(points)}" for name, points in self._points.items())
        return f"ComplexityWatch({points}; {counted(len(self._rows), 'step')})"

    @property
    def history(self) -> ComplexityHistory:
        """All rows so far."""
        return ComplexityHistory(tuple(row for _, row in sorted(self._rows.items())))
