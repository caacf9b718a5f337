"""Data that need no file: two moons, Gaussian quantiles, random labels, and scikit-learn's digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from regionscope.checks import read_integer, read_number, read_seed
from regionscope.errors import InputError
from regionscope.types import Array
from regionscope_lab.data.dataset import Dataset, DataSplit, balanced_choice, derived_seed


def two_moons(n: int = 1000, *, noise: float = 0.2, seed: int = 0) -> Dataset:
    """Two interleaving half circles with Gaussian noise, each axis scaled so that the points span [-1, 1] exactly.

    The points come from scikit-learn's ``make_moons``.
    """
    points, labels = _moons(n, noise, seed)
    return _dataset("two_moons", points, labels, points, 2)


def two_moons_split(n_train: int, n_test: int, *, noise: float = 0.2, seed: int = 0) -> DataSplit:
    """``two_moons`` to train on, and as a test part another draw, moved and scaled as the training points were.

    So a test point may lie a little outside the square.
    """
    points, labels = _moons(n_train, noise, seed)
    others, answers = _moons(n_test, noise, derived_seed(seed, "test"))
    return _split("two_moons", points, labels, others, answers, 2)


def gaussian_quantiles(n: int = 1000, *, classes: int = 5, seed: int = 0) -> Dataset:
    """Points of a 2-D standard normal distribution; the classes are rings around zero with equally many points.

    The points come from scikit-learn's ``make_gaussian_quantiles``; each axis is scaled to span [-1, 1] exactly.
    """
    points, labels = _quantiles(n, classes, seed)
    return _dataset("gaussian_quantiles", points, labels, points, classes)


def gaussian_quantiles_split(n_train: int, n_test: int, *, classes: int = 5, seed: int = 0) -> DataSplit:
    """``gaussian_quantiles`` to train on, and as a test part another draw with the same rings and the same scale.

    The edge between two rings is half-way between the training points next to it.
    """
    points, labels = _quantiles(n_train, classes, seed)
    others, _ = _quantiles(max(n_test, classes), classes, derived_seed(seed, "test"))
    others = others[:n_test]
    radii = np.linalg.norm(points, axis=1)
    outer = [radii[labels == k].max() for k in range(classes - 1)]
    inner = [radii[labels == k].min() for k in range(1, classes)]
    answers = np.searchsorted((np.array(outer) + np.array(inner)) / 2, np.linalg.norm(others, axis=1))
    return _split("gaussian_quantiles", points, labels, others, answers, classes)


def random_labels(n: int = 1000, *, classes: int = 2, dim: int = 2, seed: int = 0) -> Dataset:
    """Uniform points of [-1, 1]^dim, each with a uniformly random label, which a network can only memorise."""
    for name, value, least in (("n", n, 1), ("classes", classes, 2), ("dim", dim, 1)):
        read_integer(f"{name} of random_labels", value, least=least)
    generator = torch.Generator().manual_seed(derived_seed(seed, "inputs"))  # not the numbers of initial weights
    inputs = torch.rand((n, dim), generator=generator, device="cpu") * 2 - 1
    return Dataset("random_labels", inputs, torch.randint(classes, (n,), generator=generator, device="cpu"), classes)


def random_labels_split(n_train: int, n_test: int, *, classes: int = 2, dim: int = 2, seed: int = 0) -> DataSplit:
    """``random_labels``, and an independent draw as a test part, on which every network is right by chance only."""
    test = random_labels(n_test, classes=classes, dim=dim, seed=derived_seed(seed, "test"))
    return DataSplit(random_labels(n_train, classes=classes, dim=dim, seed=seed), test)


def _moons(n: int, noise: float, seed: int) -> tuple[Array, Array]:
    read_integer("n of two_moons", n, least=2)
    if not read_number("noise", noise) >= 0:
        raise InputError(f"Expected noise of two_moons of at least 0, got {noise}. Choose 0.2, for example.")
    from sklearn import datasets

    points, labels = datasets.make_moons(n_samples=n, noise=noise, random_state=_narrow(seed))
    return points, labels


def _quantiles(n: int, classes: int, seed: int) -> tuple[Array, Array]:
    if read_integer("n of gaussian_quantiles", n) < read_integer("classes", classes, least=2):
        raise InputError(f"Expected a point for each class, got {classes} classes and {n} points. Raise n.")
    from sklearn.datasets import make_gaussian_quantiles as make

    points, labels = make(n_samples=n, n_features=2, n_classes=classes, random_state=_narrow(seed))
    return points, labels


def _split(name: str, points: Array, labels: Array, others: Array, answers: Array, classes: int) -> DataSplit:
    return DataSplit(*(_dataset(name, *part, points, classes) for part in ((points, labels), (others, answers))))


def _dataset(name: str, points: Array, labels: Array, by: Array, classes: int) -> Dataset:
    """The points under the affine map that takes the bounding box of ``by`` to [-1, 1]^2."""
    lowest, highest = by.min(axis=0), by.max(axis=0)
    scaled = 2 * (points - lowest) / (highest - lowest) - 1
    return Dataset(name, torch.from_numpy(scaled).float(), torch.from_numpy(labels).long(), classes)


def _narrow(seed: int) -> int:
    """A seed that scikit-learn takes, which is below 2^32; such a one stays as it is."""
    return seed if read_seed(seed) < 2**32 else derived_seed(seed, "points")


def digits() -> Dataset:
    """All 1,797 digits: inputs (1797, 1, 8, 8) between 0 and 1, 10 classes."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = torch.from_numpy(loaded.images).float().div_(16)[:, None]
    return Dataset("digits", images, torch.from_numpy(loaded.target).long(), 10)


def digits_split(
    n_train: int | None = None, n_test: int | None = None, *, test_share: float = 0.2, seed: int = 0
) -> DataSplit:
    """``test_share`` of the digits, evenly over the classes, to test on and the others to train on.

    ``seed`` decides who is where; ``n_train`` and ``n_test`` then take that many out of each part.
    """
    if not 0 < test_share < 1:
        raise InputError(f"Expected test_share of digits between 0 and 1, got {test_share}. Choose 0.2, for example.")
    everything = digits()
    in_test = torch.zeros(len(everything), dtype=torch.bool, device="cpu")
    in_test[balanced_choice(everything.labels, round(test_share * len(everything)) or 1, seed=seed)] = True
    parts = [
        replace(everything, inputs=everything.inputs[chosen], labels=everything.labels[chosen])
        for chosen in (~in_test, in_test)
    ]
    for i, (n, part) in enumerate(((n_train, "train"), (n_test, "test"))):
        if n is not None:
            parts[i] = parts[i].subset(n, derived_seed(seed, f"{part} subset"))
    return DataSplit(*parts)
