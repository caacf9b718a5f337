"""What the local complexity examples share: real digits, the paper's network and training, and the steps to look at.

The data is MNIST where ``--data DIR`` (or the variable ``REGIONSCOPE_DATA``) holds ``MNIST/raw/*-ubyte``, and else the
1,797 real digits of 8 x 8 pixels that scikit-learn carries.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Digits:
    """Flat images in [0, 1] and their labels."""

    name: str
    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


def load_digits(folder: Path | None, *, n_train: int = 1000, seed: int = 0) -> Digits:
    """``n_train`` random training images, and the test images."""
    order = torch.Generator().manual_seed(seed)
    if folder is not None and (folder / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        x, y, x_test, y_test = (
            _idx(folder / "MNIST" / "raw" / f"{part}-{what}-ubyte")
            for part in ("train", "t10k")
            for what in ("images-idx3", "labels-idx1")
        )
        chosen = torch.randperm(len(x), generator=order)[:n_train]
        x, x_test = x.flatten(1).float() / 255, x_test.flatten(1).float() / 255
        return Digits("MNIST", x[chosen], y[chosen].long(), x_test, y_test.long())
    from sklearn.datasets import load_digits as small_digits

    bunch = small_digits()
    x, y = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()
    shuffled = torch.randperm(len(x), generator=order)
    chosen, rest = shuffled[:n_train], shuffled[n_train:]
    return Digits("scikit-learn digits", x[chosen], y[chosen], x[rest], y[rest])


def _idx(path: Path) -> Tensor:
    """The array in a file of LeCun's idx format: two zero bytes, type 8 (uint8), number of axes, sizes, data."""
    raw = path.read_bytes()
    sizes = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
    return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes).copy())


def network(d: int, *, depth: int = 4, width: int = 200, scale: float = 1.0, seed: int = 0) -> nn.Sequential:
    """``depth`` linear layers with ReLU between them, PyTorch's default initial weights times ``scale``."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Linear(d if i == 0 else width, 10 if i == depth - 1 else width), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def log_spaced(last: int, n: int) -> list[int]:
    """0, 1, ... and ``last``: about n steps, evenly spaced on a log scale."""
    return sorted({0, *np.geomspace(1, last, n).round().astype(int).tolist()})


def train(
    model: nn.Module,
    data: Digits,
    *,
    last: int,
    at: list[int],
    look: Callable[[int], None],
    batch: int = 200,
    seed: int = 0,
) -> None:
    """MSE on one-hot labels, AdamW 1e-3 with weight decay 0.01; ``look(step)`` is called at each step in ``at``."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, foreach=True)
    targets = functional.one_hot(data.train_labels, 10).float()
    order = torch.Generator().manual_seed(seed)
    wanted, step = set(at), 0
    while step <= last:
        for chosen in torch.randperm(len(targets), generator=order).split(batch):
            if step in wanted:
                look(step)
            if step >= last:
                return
            optimizer.zero_grad(set_to_none=True)
            functional.mse_loss(model(data.train[chosen]), targets[chosen]).backward()
            optimizer.step()
            step += 1


def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Share of the inputs whose largest output is at their label."""
    with torch.no_grad():
        return float((model(inputs).argmax(1) == labels).float().mean())


def arguments(what: str, *, steps: int, points: int = 300) -> argparse.Namespace:
    """The options that the examples share."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("REGIONSCOPE_DATA"), help="folder that holds MNIST/raw"
    )
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="where figure and JSON go")
    parser.add_argument("--steps", type=int, default=steps, help="training steps")
    parser.add_argument("--points", type=int, default=points, help="points of each kind to measure at")
    parser.add_argument("--looks", type=int, default=48, help="how often to measure")
    parser.add_argument(
        "--slices", type=int, default=4, help="exact slices through training points, where there are any"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    return options


def write(path: Path, document: dict[str, object], start: float) -> None:
    """Write the numbers, with the seconds that passed since ``start``."""
    path.write_text(json.dumps({**document, "seconds": round(time.perf_counter() - start, 1)}, indent=1) + "\n")
    print(f"wrote {path}")
