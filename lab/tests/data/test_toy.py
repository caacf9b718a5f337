"""Toy data: where the points lie, what labels they have, and what the seed decides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
import torch

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec
from regionscope_lab.data import Dataset, gaussian_quantiles, load, random_labels, two_moons
from regionscope_lab.data.toy import gaussian_quantiles_split, two_moons_split

TOYS = ["two_moons", "gaussian_quantiles", "random_labels"]


def test_two_moons_has_kept_its_numbers() -> None:
    data = two_moons(77, noise=0.1, seed=5)
    digest = hashlib.sha256(data.inputs.numpy().tobytes() + data.labels.numpy().tobytes()).hexdigest()
    assert digest == "283c49bcf66dc8d5b9efd8b54ab84baa2a29552348736ef50580578ecb14f8b5"


def test_the_test_part_of_moons_has_the_map_of_the_training_part() -> None:
    # without noise the moons are curves: both parts must lie on the same two
    split = two_moons_split(2001, 50, noise=0.0, seed=1)
    distance = torch.cdist(split.test.inputs, split.train.inputs)
    nearest = distance.argmin(dim=1)
    assert distance.amin(dim=1).max() < 0.01
    assert torch.equal(split.train.labels[nearest], split.test.labels)


def test_the_rings_of_the_test_part_are_those_of_the_training_part() -> None:
    split = gaussian_quantiles_split(4000, 1000, classes=3, seed=0)
    # one affine map for both, so the rings are ellipses around one centre with the axes' ratio of the training box
    from sklearn.datasets import make_gaussian_quantiles

    points, _ = make_gaussian_quantiles(n_samples=4000, n_features=2, n_classes=3, random_state=0)
    low, high = points.min(0), points.max(0)
    back = (split.test.inputs.double().numpy() + 1) / 2 * (high - low) + low
    squared = torch.from_numpy((back**2).sum(1))
    # P[|X|^2 <= s] = 1 - exp(-s / 2): thirds at -2 log(2/3) and -2 log(1/3)
    edges = -2 * torch.log(torch.tensor([2 / 3, 1 / 3], dtype=torch.float64))
    expected = torch.bucketize(squared, edges)
    assert (expected == split.test.labels).double().mean() > 0.97
    for k in range(2):
        assert squared[split.test.labels == k].max() < squared[split.test.labels == k + 1].min()


@pytest.mark.parametrize("name", TOYS)
def test_parts_are_apart_and_follow_the_seed_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (load(DataSpec(name=name, n_train=64, n_test=32, seed=s)) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert (len(first.train), len(first.test)) == (64, 32)
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert torch.equal(first.test.inputs, again.test.inputs)
    assert not torch.equal(first.train.inputs, other.train.inputs)
    assert torch.cdist(first.train.inputs, first.test.inputs).min() > 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Dataset(torch.zeros(1, 2), torch.zeros(1), "mine", 2), r"got Tensor. Write Dataset\(name, inputs,"),
        (lambda: Dataset("mine", [[0.0], [0.0, 1.0]], [0, 1], 2), "inputs to be an array of numbers"),
        (lambda: Dataset("mine", torch.eye(2), torch.zeros(2), 2), "labels of whole numbers, got torch.float32"),
        (lambda: Dataset("mine", 3.0, [0], 2), "at least one point, got none"),
        (lambda: Dataset("mine", np.eye(2), np.array([0.0, 1.0]), 2), "labels of whole numbers, got torch.float64"),
        (lambda: Dataset("mine", torch.zeros(3, 2), [0, 0], 2), "one label for each of 3 inputs"),
        (lambda: Dataset("mine", torch.zeros(3, 2), torch.arange(3), 2), "labels 0 to 1 for 2 classes, got 0 to 2"),
        (lambda: two_moons(1), "at least 2"),
        (lambda: two_moons(10, noise=-0.1), r"got -0\.1\. Choose 0\.2"),
        (lambda: gaussian_quantiles(3, classes=4), "a point for each"),
        (lambda: random_labels(3, classes=1), "a whole number of at least 2"),
    ],
)
def test_what_is_no_dataset_is_a_sentence(make: Callable[[], Dataset], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
