"""Image data sets in files: MNIST and Fashion-MNIST (IDX), CIFAR, and how images become inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope_lab.data.dataset import Dataset, balanced_choice, derived_seed

if TYPE_CHECKING:
    from regionscope_lab.config import DataSpec
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regionscope.errors import WrongFile
from regionscope_lab.data.files import read_exactly, read_head
from regionscope_lab.data.pickles import read_pickle


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of each channel, of pixels between 0 and 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def of(inputs: Tensor) -> Normalisation:
        """Those of ``inputs`` (n, c, h, w) themselves."""
        channels = inputs.double().movedim(1, 0).flatten(1)
        std = channels.std(dim=1, correction=0)
        return Normalisation(tuple(channels.mean(dim=1).tolist()), tuple(std.clamp_min(1e-12).tolist()))

    def apply_(self, inputs: Tensor) -> Tensor:
        """(x - mean) / std for each channel of ``inputs`` (n, c, h, w), in place."""
        mean, std = (inputs.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return inputs.sub_(mean).div_(std)


# MNIST, Fashion-MNIST and both CIFAR: of the training images, as everybody states them. ImageNet: torchvision's.
PUBLISHED = {
    "mnist": Normalisation((0.1307,), (0.3081,)),
    "fashion_mnist": Normalisation((0.2860,), (0.3530,)),
    "cifar10": Normalisation((0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159)),
    "cifar100": Normalisation((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "imagenet": Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images as they lie on disk: ``images`` (n, c, h, w) uint8 and ``labels`` (n,) int64."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise InputError(
                f"Expected one label for each image, got {len(self.images):,} images and {len(self.labels):,} labels. "
                "Use image and label files of one data set."
            )

    def subset(self, n: int | None, *, seed: int, what: str) -> Pixels:
        """n of them, evenly over the classes; all for None."""
        if n is None or n == len(self.labels):
            return self
        chosen = balanced_choice(self.labels, n, seed=seed, what=what)
        return Pixels(self.images[chosen], self.labels[chosen])

    def dataset(self, name: str, n_classes: int) -> Dataset:
        """The same images with float32 pixels between 0 and 1."""
        return Dataset(name, self.images.to(torch.float32).div_(255), self.labels, n_classes)


def chosen_parts(train: Pixels, test: Pixels, spec: DataSpec) -> list[Pixels]:
    """The number of inputs of both parts that ``spec`` asks for."""
    return [
        pixels.subset(n, seed=derived_seed(spec.seed, f"{part} subset"), what=f"The {part} part of {spec.name}")
        for pixels, part, n in ((train, "train", spec.n_train), (test, "test", spec.n_test))
    ]


FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_BYTES = 0x08  # the type code of unsigned bytes, the only one these sets use


def read_idx_folder(folder: Path) -> tuple[Pixels, Pixels]:
    """The training and the test images of such a folder, (n, 1, 28, 28), and their labels from 0 to 9."""
    train, test = (_part(folder, *FILES[part]) for part in ("train", "test"))
    return train, test


def read_idx(path: Path, *, ndim: int) -> Tensor:
    """The array of unsigned bytes in an idx file: two zero bytes, type, ndim, the sizes (big endian), the values."""
    start = 4 + 4 * ndim
    head = read_head(path, start)
    if len(head) < start:
        raise WrongFile(f"Expected a header of {start} bytes in {str(path)!r}, got {len(head)}; the file is damaged")
    if head[:4] != bytes((0, 0, _BYTES, ndim)):
        raise WrongFile(
            f"Expected an idx file of {ndim}-dimensional bytes, which starts with 0000{_BYTES:02x}{ndim:02x}, at "
            f"{str(path)!r}, got {head[:4].hex()}"
        )
    sizes = tuple(int(n) for n in np.frombuffer(head, dtype=">u4", offset=4))
    raw = read_exactly(path, start + math.prod(sizes))
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(sizes).copy())


def _part(folder: Path, images_name: str, labels_name: str) -> Pixels:
    images_path, labels_path = _either(folder / images_name), _either(folder / labels_name)
    images, labels = read_idx(images_path, ndim=3), read_idx(labels_path, ndim=1)
    if images.shape[1:] != (28, 28):
        raise WrongFile(f"Expected images of (28, 28) pixels in {str(images_path)!r}, got {tuple(images.shape[1:])}")
    if len(images) != len(labels):
        raise WrongFile(
            f"Expected as many labels as images, got {len(images):,} images in {str(images_path)!r} and "
            f"{len(labels):,} labels in {str(labels_path)!r}"
        )
    if len(labels) and int(labels.max()) > 9:
        raise WrongFile(
            f"Expected labels from 0 to 9 in {str(labels_path)!r}, got {int(labels.max())}; the file is damaged"
        )
    return Pixels(images[:, None], labels.long())


def _either(path: Path) -> Path:
    """The plain file where there is one, else the compressed one."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.exists() and not path.exists() else path


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
