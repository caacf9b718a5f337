"""The first five minutes: train a small network on two moons and count its regions before and after."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from regionscope.errors import RegionscopeError
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.file_io import plain, replace_file
from regionscope.geometry import Box
from regionscope.provenance import provenance
from regionscope_lab.data import Dataset, two_moons
from regionscope_lab.train import EpochRow, Trained, Training, evaluate, train
from regionscope_lab.training_frames import ModelAtStep, TrainingFrames, frames_of_models
from regionscope_lab.zoo import mlp

_MOMENTS = 7  # frames of the explorer between the first and the last


@dataclass(frozen=True, kw_only=True)
class QuickstartConfig:
    """Everything that decides the numbers; ``seed`` sets data, initial weights and the order of the batches."""

    n_points: int = 1000
    noise: float = 0.2
    hidden: tuple[int, ...] = (32, 32, 32)
    epochs: int = 100
    lr: float = 1e-3
    batch_size: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Snapshot:
    """One moment of training: the exact regions on [-1, 1]^2, and loss and accuracy on all points."""

    partition: Partition
    decision: DecisionRegions
    loss: float
    accuracy: float

    def numbers(self) -> dict[str, Any]:
        """The counts as plain values."""
        return {
            "activation_regions": self.partition.n_activation_regions,
            "linear_regions": self.partition.n_linear_regions,
            "decision_regions": self.decision.count,
            "activation_regions_after_layer": dict(self.partition.by_layer),
            "loss": self.loss,
            "accuracy": self.accuracy,
        }


@dataclass(frozen=True)
class Quickstart:
    """The whole result: the data, the trained model, its regions before and after, and the training history.

    moments: copies of the network at a few steps of the training, the first and the last among them.
    """

    config: QuickstartConfig
    data: Dataset
    model: nn.Module
    before: Snapshot
    after: Snapshot
    trained: Trained
    moments: tuple[ModelAtStep, ...]

    def numbers(self) -> dict[str, Any]:
        """All numbers, with what is needed to get them again."""
        return {
            "before": self.before.numbers(),
            "after": self.after.numbers(),
            "config": asdict(self.config),
            "training_seconds": round(self.trained.seconds, 3),
            "provenance": provenance(),
        }


def quickstart(
    config: QuickstartConfig | None = None, *, on_epoch: Callable[[EpochRow], object] | None = None
) -> Quickstart:
    """Train 2-[hidden]-2 on two moons and count activation, linear and decision regions exactly on [-1, 1]^2.

    Cost: about 3,200 steps of Adam for the default, and well under a second for the regions.
    """
    config = QuickstartConfig() if config is None else config
    data = two_moons(config.n_points, noise=config.noise, seed=config.seed)
    model = mlp([2, *config.hidden, data.n_classes], seed=config.seed).eval()
    steps = math.ceil(config.n_points / config.batch_size)  # of an epoch
    training = Training(
        epochs=config.epochs, optimizer="adam", lr=config.lr, batch_size=config.batch_size, schedule="constant",
        evaluate_every=config.epochs, checkpoints=f"start and log {steps} {steps * config.epochs} {_MOMENTS} and end",
    )  # fmt: skip
    before = _snapshot(model, data)
    moments: list[ModelAtStep] = []

    def keep(step: int, epoch: int, model: nn.Module) -> None:
        moments.append(ModelAtStep(step, copy.deepcopy(model).eval(), step / steps))

    with _one_thread():
        trained = train(model, data, training, seed=config.seed, on_epoch=on_epoch, on_checkpoint=keep)
    if trained.status == "diverged":
        last = trained.last
        raise RegionscopeError(
            f"Training diverged in epoch {last.epoch}: the loss is {last.loss}. Lower lr (now {config.lr})."
        )
    return Quickstart(config, data, model, before, _snapshot(model, data), trained, tuple(moments))


def frames(result: Quickstart) -> TrainingFrames:
    """The regions at the moments of the training, for the explorer."""
    rows = [
        {"step": row.step, "epoch": row.epoch, "name": "train_loss", "value": row.loss}
        for row in result.trained.history
    ]
    return frames_of_models(
        result.moments, Box.between(-1.0, 1.0, (2,)), inputs=result.data.inputs, labels=result.data.labels, rows=rows,
        title=f"Two moons, seed {result.config.seed}",
    )  # fmt: skip


def save(result: Quickstart, folder: Path) -> list[Path]:
    """Write ``numbers.json`` and ``model.safetensors`` into ``folder`` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers, weights = folder / "numbers.json", folder / "model.safetensors"
    text = json.dumps(plain(result.numbers()), indent=2, allow_nan=False)
    replace_file(numbers, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))
    raw = safetensors.torch.save(result.model.state_dict())
    replace_file(weights, lambda temporary: temporary.write_bytes(raw))
    return [numbers, weights]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Context with one torch thread: for a network this small, more threads are slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _snapshot(model: nn.Module, data: Dataset) -> Snapshot:
    square = Box.between(-1.0, 1.0, (2,))
    loss, accuracy = evaluate(model, data.inputs, data.labels)
    return Snapshot(linear_regions(model, square), decision_regions(model, square), loss, accuracy)
