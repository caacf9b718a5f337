"""Labelled data in memory, its two parts, and seeded choices among its points."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_labels, read_device, read_integer
from regionscope.errors import InputError
from regionscope.inputs import read_array


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled points: ``inputs`` (n, *shape) float32 and ``labels`` (n,) int64 in 0, ..., n_classes - 1.

    Tensors are taken as they are; NumPy arrays and lists are copied into tensors of these types.

    >>> Dataset("corners", [[0.0, 0.0], [1.0, 1.0]], [0, 1], 2)
    Dataset(corners, 2 inputs of shape (2,), 2 classes)
    """

    name: str
    inputs: Tensor
    labels: Tensor
    n_classes: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(
                f"Expected the name of a dataset first, got {type(self.name).__name__}. "
                "Write Dataset(name, inputs, labels, n_classes)."
            )
        object.__setattr__(self, "inputs", _tensor(self.inputs, f"{self.name}: inputs", torch.float32))
        object.__setattr__(self, "labels", _tensor(self.labels, f"{self.name}: labels", torch.int64))
        if self.inputs.ndim == 0 or len(self.inputs) == 0:
            raise InputError(f"{self.name}: Expected at least one point, got none. Check the selection of the data.")
        if self.labels.shape != self.inputs.shape[:1]:
            raise InputError(
                f"{self.name}: Expected one label for each of {len(self.inputs)} inputs, got shape "
                f"{tuple(self.labels.shape)}. "
                "Pass labels of shape (n,)."
            )
        check_labels(self.labels, read_integer("n_classes", self.n_classes), where=f"{self.name}: ")

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        return f"Dataset({self.name}, {len(self):,} inputs of shape {self.input_shape}, {self.n_classes} classes)"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.inputs.shape[1:])

    def to(self, device: torch.device | str) -> Dataset:
        """The same data on another device."""
        device = read_device(device)
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))

    def subset(self, n: int, seed: int = 0) -> Dataset:
        """n of the points, drawn without replacement, as evenly over the classes as they allow, in their old order."""
        chosen = balanced_choice(self.labels, n, seed=seed, what=self.name)
        return replace(self, inputs=self.inputs[chosen], labels=self.labels[chosen])


def _tensor(values: object, what: str, dtype: torch.dtype) -> Tensor:
    """A tensor as it is; an array or a list as a tensor of ``dtype``. Labels must be whole numbers in either case."""
    tensor = values if isinstance(values, Tensor) else read_array(values, f"{what} to be an array of numbers").clone()
    if dtype == torch.int64 and (tensor.is_floating_point() or tensor.is_complex()):
        raise InputError(f"Expected {what} of whole numbers, got {tensor.dtype}. Use labels.astype(int).")
    return tensor if isinstance(values, Tensor) else tensor.to(dtype)


@dataclass(frozen=True)
class DataSplit:
    """The training part and the test part of a data set."""

    train: Dataset
    test: Dataset

    def __post_init__(self) -> None:
        advice = "Write Dataset(name, inputs, labels, n_classes)"
        mine, other = (check_instance("DataSplit", part, Dataset, advice=advice) for part in (self.train, self.test))
        if mine.input_shape != other.input_shape or mine.n_classes != other.n_classes:
            raise InputError(
                f"Expected training and test parts of one kind, got inputs {mine.input_shape} and "
                f"{other.input_shape}, {mine.n_classes} and {other.n_classes} classes. "
                "Pass two parts of the same data set."
            )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.train.input_shape

    @property
    def n_classes(self) -> int:
        """Number of classes, including classes that do not occur."""
        return self.train.n_classes

    def to(self, device: torch.device | str) -> DataSplit:
        """Both parts on another device."""
        return DataSplit(self.train.to(device), self.test.to(device))


def derived_seed(seed: int, purpose: str) -> int:
    """A seed in [0, 2^31) for one purpose, so that no two purposes share their random numbers.

    >>> derived_seed(0, "test") == derived_seed(0, "test") != derived_seed(0, "label noise")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{purpose}:{seed}".encode()).digest()[:4], "big") >> 1


def balanced_choice(labels: Tensor, n: int, *, seed: int, what: str = "The data") -> Tensor:
    """Ascending indices (n,) of n labels, where no class has two more than another unless that other is used up.

    Points are shuffled, numbered within their class, and taken in the order of that number; so the choice of n is
    part of the choice of n + 1. Cost: three sorts.
    """
    if not 1 <= n <= len(labels):
        raise InputError(f"Expected at most {len(labels):,} points of {what}, got {n:,}. Ask for fewer points.")
    shuffled, number, _ = _numbered(labels, seed)
    return shuffled[number.argsort(stable=True)[:n]].sort().values.to(labels.device)


def stratified_choice(labels: Tensor, share: float, *, seed: int) -> Tensor:
    """Ascending indices of about ``share`` of the points of each class, round(share * n) in all.

    Every class of two or more points has at least one point in the choice and one outside, which takes precedence over
    the total; the only point of a class is never chosen. For classes of one size, the choice is that of
    ``balanced_choice``. Cost: three sorts.

    >>> labels = torch.tensor([0] * 10 + [1] * 5 + [2])
    >>> labels[stratified_choice(labels, 0.2, seed=0)].tolist()
    [0, 0, 1]
    """
    shuffled, number, size = _numbered(labels, seed)
    rank = (number + 0.5) / size
    rank[number == 0] = -1
    rank[number == size - 1] = torch.inf
    required, possible = int(((number == 0) & (size > 1)).sum()), int((number < size - 1).sum())
    n = min(max(round(share * len(labels)), required), possible)
    return shuffled[rank.argsort(stable=True)[:n]].sort().values.to(labels.device)


def _numbered(labels: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Shuffled indices (n,), the number of each of these points within its class, and the size of its class."""
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed), device="cpu")
    mixed = labels.cpu()[shuffled]
    by_class = mixed.argsort(stable=True)
    counts = mixed.bincount()
    first = counts.cumsum(0) - counts
    number = torch.empty_like(by_class)
    number[by_class] = torch.arange(len(labels), device="cpu") - first[mixed[by_class]]
    return shuffled, number, counts[mixed]


def add_label_noise(data: Dataset, share: float, *, seed: int = 0) -> Dataset:
    """``data`` with round(share * n) labels replaced by uniformly random classes, which may be the old ones.

    share = 1 gives random labels (Zhang et al. 2017). For a fixed seed, a larger share changes a superset of the
    labels.
    """
    if not 0 <= share <= 1:
        raise InputError(
            f"Expected label_noise, a share of the labels, from 0 to 1, got {share}. Write 0.1 for a tenth of them."
        )
    generator = torch.Generator().manual_seed(seed)
    n = len(data)
    replaced = torch.randperm(n, generator=generator, device="cpu")[: round(share * n)]
    random = torch.randint(data.n_classes, (n,), generator=generator, device="cpu")
    labels = data.labels.cpu().clone()
    labels[replaced] = random[replaced]
    return replace(data, labels=labels.to(data.labels.device))
