"""The commands of ``regionscope`` on a stored run: its network, on the data and the slice that its measures look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from regionscope.cli import ask as questions
from regionscope.cli import complexity as local
from regionscope.cli import count as counts
from regionscope.cli import level_set as levels
from regionscope.cli import regions as exact
from regionscope.cli.command_line import note_file
from regionscope.cli.job import NetworkJob, SliceJob, with_job
from regionscope.geometry import Slice
from regionscope_lab import instruments
from regionscope_lab.cli.options import RowsOption, RunArgument, StepOption, find_run, slice_of_run
from regionscope_lab.data import registry
from regionscope_lab.instruments.measurement_context import MeasurementContext, measure_seed
from regionscope_lab.store import RunFolder


@dataclass(frozen=True, kw_only=True)
class RunJob(NetworkJob):
    """The network of a run, on the data that it was trained on."""

    run: RunArgument
    step: StepOption = None

    @cached_property
    def folder(self) -> RunFolder:
        """The run."""
        return RunFolder.open(find_run(self.run))

    @cached_property
    def context(self) -> MeasurementContext:
        """The data that the run was trained on, and the seed of its measures."""
        return MeasurementContext(self.folder.split(), measure_seed(self.folder.experiment))

    @property
    def n_classes(self) -> int | None:
        return self.context.split.n_classes

    @property
    def stored_seed(self) -> int | None:
        return self.context.seed

    @property
    def domain(self) -> tuple[float, float]:
        return self.context.range()

    @property
    def input_names(self) -> Sequence[str]:
        return registry.column_names(self.folder.experiment.data.name)

    def built(self, chosen: str | int | None) -> nn.Module:
        stored = self.folder.checkpoint(self.step)
        network = self.folder.model_at(stored)
        note_file(stored.path)
        return network

    def source(self) -> tuple[dict[str, Any], str]:
        step, path = self.folder.checkpoint(self.step).step, self.folder.path
        return {"run": {"folder": str(path), "step": step}}, f"The weights are those of step {step} of the run {path}."

    def names_or_known(self, names: Sequence[str] | None, classes: int) -> Sequence[str] | None:
        known = registry.class_names(self.folder.experiment.data.name)
        return super().names_or_known(known if names is None and len(known) == classes else names, classes)

    def shape_of(self, network: nn.Module) -> tuple[int, ...]:
        return self.shape or tuple(self.context.split.input_shape)

    def inputs(self, data: Path | None, *, least: int = 1) -> Tensor:
        return self.context.split.train.inputs

    def stored_points(self, seed: int) -> dict[str, Tensor]:
        most = instruments.names()["local_complexity"]["n"]
        return {part: self.context.points(part, most, {"seed": seed}) for part in ("train", "test")}


@dataclass(frozen=True, kw_only=True)
class RunSliceJob(RunJob, SliceJob):
    """The network of a run on one slice, by default that of its measures."""

    rows: RowsOption = None
    line: ClassVar[str] = "--rows with two training points"
    triangle: ClassVar[str] = "--rows with three training points"
    smaller: ClassVar[str] = "--rows for the plane of three training points"

    def slice(self, network: nn.Module) -> Slice:
        named = slice_of_run(self.context.split, self.rows, self.slice_file)
        return self.context.slice({"where": "auto", "box": None, "margin": None}) if named is None else named


@dataclass(frozen=True, kw_only=True)
class RunCountJob(RunSliceJob, exact.CountJob):
    """The network of a run on one slice, with counts that can be certified."""


@dataclass(frozen=True, kw_only=True)
class RunLevelSetJob(RunSliceJob, levels.LevelSetJob):
    """The network of a run on one slice, with meshes and pages to write."""


_KNOWN = ("model", "weights", "head", "input_shape", "class_names", "data", "test", "domain")  # to a run
_RARE: tuple[str, ...] = ("count_only", "lowest")
_RARE += ("until", "through", "dask")  # of count
_OTHER_SLICES = ("points", "plane", "at", "box")  # a file of --slice holds each of them


def _of_run(command: Any, job: type[NetworkJob]) -> Callable[..., None]:
    """The command of regionscope with the folder of a run in place of a network and of data, and fewer options."""
    stored = with_job(command.__wrapped__, job=job, without=(*_KNOWN, *_RARE, *_OTHER_SLICES))
    about = (command.__doc__ or "").partition("Example:")[0].rstrip()
    name, question = command.__name__.replace("_", "-"), " extremes" if command is questions.ask else ""
    stored.__doc__ = f"{about}\n\n    Example: regionscope-lab {name} runs/0123456789abcdef{question}\n    "
    return stored


regions = _of_run(exact.regions, RunCountJob)
decisions = _of_run(exact.decisions, RunCountJob)
level_set = _of_run(levels.level_set, RunLevelSetJob)
count = _of_run(counts.count, RunJob)
complexity = _of_run(local.complexity, RunJob)
ask = _of_run(questions.ask, RunSliceJob)
