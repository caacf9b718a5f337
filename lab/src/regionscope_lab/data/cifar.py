"""CIFAR-10 and CIFAR-100: the official binary files, or the official pickles through a restricted reader.

Binary: for each image the label (CIFAR-100: coarse, then fine label) and 3,072 bytes, red, green and blue planes of
32 x 32. Pickles: a dict with ``data`` (n, 3072) and ``labels`` (CIFAR-100: ``fine_labels``, ``coarse_labels``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regionscope.errors import WrongFile
from regionscope_lab.data.files import read_exactly
from regionscope_lab.data.images import Pixels
from regionscope_lab.data.pickles import read_pickle

_PIXELS = 3 * 32 * 32
Labels = Literal["fine", "coarse"]


@dataclass(frozen=True, kw_only=True)
class Cifar:
    """One of the two sets: its folders and files, and how many images each file holds."""

    binary: str
    pickled: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    n_train: int
    n_test: int
    classes: dict[str, int]

    @property
    def folders(self) -> tuple[str, str]:
        """Where the set may lie, the binary files first."""
        return self.binary, self.pickled


CIFAR10 = Cifar(
    binary="cifar-10-batches-bin",
    pickled="cifar-10-batches-py",
    train=tuple(f"data_batch_{i}" for i in range(1, 6)),
    test=("test_batch",),
    n_train=10_000,
    n_test=10_000,
    classes={"fine": 10},
)
CIFAR100 = Cifar(
    binary="cifar-100-binary",
    pickled="cifar-100-python",
    train=("train",),
    test=("test",),
    n_train=50_000,
    n_test=10_000,
    classes={"coarse": 20, "fine": 100},  # in the order of the label bytes
)


def read_cifar(folder: Path, layout: Cifar, *, labels: Labels = "fine") -> tuple[Pixels, Pixels]:
    """The training and the test images (n, 3, 32, 32) of a folder in the binary or the pickled layout."""
    read = _binary if folder.name == layout.binary else _pickled
    train = [read(folder, name, layout.n_train, layout, labels) for name in layout.train]
    test = [read(folder, name, layout.n_test, layout, labels) for name in layout.test]
    return _joined(train), _joined(test)


def _binary(folder: Path, name: str, n: int, layout: Cifar, labels: Labels) -> Pixels:
    path = folder / f"{name}.bin"
    ahead = len(layout.classes)
    rows = np.frombuffer(read_exactly(path, n * (ahead + _PIXELS)), dtype=np.uint8).reshape(n, ahead + _PIXELS)
    return _pixels(path, rows[:, ahead:], rows[:, list(layout.classes).index(labels)], layout.classes[labels])


def _pickled(folder: Path, name: str, n: int, layout: Cifar, labels: Labels) -> Pixels:
    path = folder / name
    content = read_pickle(path)
    key = "labels" if len(layout.classes) == 1 else f"{labels}_labels"
    for wanted in ("data", key):
        if wanted not in content:
            raise WrongFile(f"Expected {wanted!r} in {str(path)!r}, got {', '.join(map(repr, sorted(content)))}")
    data, answers = content["data"], content[key]
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (n, _PIXELS):
        got = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise WrongFile(f"Expected data of type uint8 and shape {(n, _PIXELS)} in {str(path)!r}, got {got}")
    if not isinstance(answers, list) or len(answers) != n or not all(type(label) is int for label in answers):
        raise WrongFile(f"Expected {key} in {str(path)!r} to be a list of {n:,} integers, got other values")
    most = layout.classes[labels]
    return _pixels(path, data, np.array([min(max(label, -1), most) for label in answers]), most)


def _pixels(path: Path, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], classes: int) -> Pixels:
    if int(labels.max()) >= classes or int(labels.min()) < 0:
        raise WrongFile(f"Expected labels from 0 to {classes - 1} in {str(path)!r}, got others")
    return Pixels(
        torch.from_numpy(np.ascontiguousarray(images).copy()).reshape(-1, 3, 32, 32),
        torch.from_numpy(labels.astype(np.int64)),
    )


def _joined(parts: list[Pixels]) -> Pixels:
    return Pixels(torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts]))
