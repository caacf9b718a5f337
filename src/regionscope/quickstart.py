"""The first job: train a small network on two moons with a monitor, and count its regions before and after.

``two_moons`` and ``train`` need nothing of this file: copy them as the start of an experiment of your own.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.checks import read_seed
from regionscope.errors import RegionscopeError
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.file_io import plain, replace_file
from regionscope.geometry import Box
from regionscope.monitor import Monitor
from regionscope.monitor.frames import ModelAtStep, TrainingFrames, frames_of_models
from regionscope.provenance import provenance
from regionscope.types import Progress

_MOMENTS = 7  # frames of the explorer between the first and the last


def two_moons(n: int, *, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """Two interleaving half circles with Gaussian noise, each axis scaled so that the points span [-1, 1] exactly."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    angles = rng.uniform(0.0, np.pi, n)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    points = np.where(labels[:, None] == 0, circle, [1.0, 0.5] - circle) + rng.normal(0.0, noise, (n, 2))
    low, high = points.min(0), points.max(0)
    points = np.clip(2 * (points - low) / (high - low) - 1, -1.0, 1.0)
    return torch.from_numpy(points.astype(np.float32)), torch.from_numpy(labels)


def train(
    model: nn.Module, inputs: Tensor, labels: Tensor, monitor: Monitor, *, epochs: int, lr: float, batch_size: int,
    seed: int, progress: Progress,
) -> None:  # fmt: skip
    """A plain training loop, which calls the monitor after each step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    step, steps = 0, epochs * math.ceil(len(inputs) / batch_size)
    monitor(step, model)
    for epoch in range(epochs):
        for rows in torch.randperm(len(inputs), generator=generator, device="cpu").split(batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            step += 1
            monitor(step, model, last=step == steps)
        progress((epoch + 1) / epochs)


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
    """The whole result: the data, the trained model, its regions before and after, and what the monitor measured.

    moments: copies of the network at the steps of the monitor, the first and the last among them.
    """

    config: QuickstartConfig
    inputs: Tensor
    labels: Tensor
    model: nn.Module
    before: Snapshot
    after: Snapshot
    monitor: Monitor
    moments: tuple[ModelAtStep, ...]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        """All numbers, with what is needed to get them again."""
        return {
            "before": self.before.numbers(),
            "after": self.after.numbers(),
            "config": asdict(self.config),
            "training_seconds": round(self.seconds, 3),
            "provenance": provenance(),
        }


def quickstart(config: QuickstartConfig | None = None, *, progress: Progress = lambda share: None) -> Quickstart:
    """Train 2-[hidden]-2 on two moons and count activation, linear and decision regions exactly on [-1, 1]^2.

    progress: called with the finished share of the training. Cost: about 3,200 steps of Adam for the default, and well
    under a second for the regions.
    """
    config = QuickstartConfig() if config is None else config
    read_seed(config.seed)
    square = Box.between(-1.0, 1.0, (2,))
    inputs, labels = two_moons(config.n_points, noise=config.noise, seed=config.seed)
    model = _network((2, *config.hidden, 2), config.seed)
    copies: list[nn.Module] = []

    def loss(model: nn.Module) -> Tensor:
        copies.append(copy.deepcopy(model))
        return functional.cross_entropy(model(inputs), labels)

    def snapshot() -> Snapshot:
        with torch.no_grad():
            outputs = model(inputs)
        accuracy = float((outputs.argmax(1) == labels).double().mean())
        value = float(functional.cross_entropy(outputs.double(), labels))
        return Snapshot(linear_regions(model, square), decision_regions(model, square), value, accuracy)

    steps = math.ceil(config.n_points / config.batch_size)  # of an epoch
    monitor = Monitor({"train_loss": loss}, f"start and log {steps} {steps * config.epochs} {_MOMENTS}")
    before, start = snapshot(), time.perf_counter()
    with _one_thread():
        train(
            model, inputs, labels, monitor, epochs=config.epochs, lr=config.lr, batch_size=config.batch_size,
            seed=config.seed, progress=progress,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    measured, values = monitor.values("train_loss")
    if not all(map(math.isfinite, values)):
        raise RegionscopeError(f"Training diverged: the loss is not finite. Lower lr (now {config.lr}).")
    moments = tuple(ModelAtStep(step, copy, step / steps) for step, copy in zip(measured, copies, strict=True))
    return Quickstart(config, inputs, labels, model, before, snapshot(), monitor, moments, seconds)


def frames(result: Quickstart) -> TrainingFrames:
    """The regions at the moments of the training, for the explorer."""
    return frames_of_models(
        result.moments, Box.between(-1.0, 1.0, (2,)), inputs=result.inputs, labels=result.labels,
        rows=[asdict(row) for row in result.monitor.rows], title=f"Two moons, seed {result.config.seed}",
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


def _network(sizes: tuple[int, ...], seed: int) -> nn.Sequential:
    """Linear layers of these sizes with ReLU between them, and initial weights from the seed alone."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for i, (n_in, n_out) in enumerate(pairwise(sizes), start=1):
            layers[f"linear{i}"] = nn.Linear(n_in, n_out)
            layers[f"relu{i}"] = nn.ReLU()
    del layers[f"relu{len(sizes) - 1}"]
    return nn.Sequential(layers)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Context with one torch thread: for a network this small, more threads are slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
