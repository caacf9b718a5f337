"""``TrainState``: everything a training needs to go on bit for bit, as tensors and plain values (no pickle)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.extras import data_frame
from regionscope.file_io import check_parent, parse_json, replace_file

FORMAT = "regionscope train state 1"


@dataclass(frozen=True, eq=False)
class TrainState:
    """A training after ``step`` optimiser steps.

    tensors: on the CPU: weights and buffers ("model.*"), optimiser ("optimizer.<parameter>.<key>"), random states
        ("random.*"), the order of the running epoch ("order"), its loss so far ("loss_sum").
    meta: plain values: the settings, the seed, the history so far, the seconds spent.
    """

    step: int
    tensors: Mapping[str, Tensor]
    meta: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"TrainState(step={self.step}, tensors={len(self.tensors)})"

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors called ``name.*``, without that prefix."""
        start = f"{name}."
        return {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}

    def save(self, path: str | Path) -> Path:
        """Write as safetensors through a temporary file, so that the file is never incomplete."""
        path = Path(path)
        check_parent(path)
        metadata = {"format": FORMAT, "state": json.dumps({"step": self.step, "meta": dict(self.meta)})}
        raw = safetensors.torch.save(dict(self.tensors), metadata)
        replace_file(path, lambda temporary: temporary.write_bytes(raw))
        return path

    @staticmethod
    def load(path: str | Path) -> TrainState:
        """Read a file that ``save`` wrote. Raises ``InputError`` for other files."""
        path = Path(path)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            if metadata.get("format") != FORMAT:
                raise ValueError(f"its format is {metadata.get('format')!r}")
            plain = parse_json(metadata["state"])
            return TrainState(int(plain["step"]), tensors, plain["meta"])
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise InputError(
                f"Expected the state of a training in {path}, got something else ({error}). Start without it."
            ) from error


def on_cpu(tensor: Tensor) -> Tensor:
    """A contiguous copy that shares memory with nothing."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, by parameter index and key."""
    return {
        f"{index}.{key}": on_cpu(value)
        for index, entry in optimizer.state_dict()["state"].items()
        for key, value in entry.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what ``optimizer_tensors`` took, each tensor in the memory layout of its parameter.

    Fused optimisers walk through parameter and state in the order of memory, so the layouts must be the same.
    """
    entries: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        entries.setdefault(int(index), {})[key] = value.clone()
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, entry in optimizer.state.items():
        for key, value in entry.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                entry[key] = torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)


RunStatus = Literal["finished", "diverged"]


@dataclass(frozen=True)
class EpochRow:
    """The state after epoch ``epoch`` (from 1) at step ``step``.

    loss: mean training loss over the epoch, each example with the weights at its step.
    train_error, test_error: share of wrong labels in eval mode with the weights at the end of the epoch, without
        augmentation; None if not evaluated (no test data, or between evaluations). seconds: duration of the epoch and
        its evaluation.
    """

    epoch: int
    step: int
    loss: float
    train_error: float | None
    test_error: float | None
    seconds: float


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training: ``step`` of ``total_steps`` in ``epoch`` (from 1), and the loss of the last batch."""

    step: int
    total_steps: int
    epoch: int
    loss: float


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    status: "finished", or "diverged" if the loss became NaN or infinite; the last row of the history shows when, and
        the weights are those at that step. steps: number of optimiser steps. seconds: wall-clock time, including
        sessions before a resume.
    """

    status: RunStatus
    history: tuple[EpochRow, ...]
    steps: int
    seconds: float

    def __repr__(self) -> str:
        last = self.history[-1] if self.history else None
        loss = "" if last is None else f", epochs={last.epoch}, loss={last.loss:.4g}"
        test = "" if last is None or last.test_error is None else f", test_error={last.test_error:.4g}"
        return f"Trained({self.status}{loss}{test}, steps={self.steps}, seconds={self.seconds:.3g})"

    def _repr_html_(self) -> str:
        """The last epochs and the curves, for a notebook."""
        from regionscope.plot import style
        from regionscope.plot.notebook import MOST_ROWS, Shown, shown_as_html, small_panel

        columns = ("epoch", "loss", "train_error", "test_error", "seconds")

        def draw(ax: Any) -> None:
            epochs = [row.epoch for row in self.history]
            for i, name in enumerate(columns[1:4]):
                values = [getattr(row, name) for row in self.history]
                if any(value is not None for value in values):
                    known = [math.nan if value is None else value for value in values]
                    ax.plot(epochs, known, ".-", color=style.hue(i), label=name.replace("_", " "))
            ax.set_xlabel("epoch")
            ax.legend(frameon=False, fontsize="small", loc="best")

        rows = [[getattr(row, name) for name in columns] for row in self.history[-MOST_ROWS:]]
        return shown_as_html(Shown(columns, rows, (lambda: small_panel(draw)) if self.history else None), self)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each epoch."""
        return data_frame(
            {field.name: [getattr(row, field.name) for row in self.history] for field in fields(EpochRow)}
        )

    @property
    def last(self) -> EpochRow:
        """The last row of the history."""
        return self.history[-1]
