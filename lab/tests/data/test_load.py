"""``load``: subsets, label noise, normalisation, options, and the sentences for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec
from regionscope_lab.data import Dataset, DataSplit, add_label_noise, data_root, digits, load, names
from regionscope_lab.data.dataset import balanced_choice, stratified_choice


def test_digits_are_split_without_overlap_or_loss() -> None:
    split = load(DataSpec(name="digits", normalise=False, seed=4))
    assert len(split.train) + len(split.test) == 1797
    assert split.input_shape == (1, 8, 8)
    assert split.n_classes == 10
    rows = torch.cat([split.train.inputs, split.test.inputs]).flatten(1)
    everything = digits().inputs.flatten(1)
    assert torch.equal(rows.unique(dim=0), everything.unique(dim=0))
    counts = split.test.labels.bincount()
    assert counts.max() - counts.min() <= 1
    other = load(DataSpec(name="digits", normalise=False, seed=5))
    assert not torch.equal(split.test.inputs, other.test.inputs)


def test_digits_are_normalised_by_their_training_part() -> None:
    plain = load(DataSpec(name="digits", normalise=False))
    split = load(DataSpec(name="digits"))
    assert plain.train.inputs.min() == 0
    assert plain.train.inputs.max() == 1
    assert float(split.train.inputs.mean()) == pytest.approx(0, abs=1e-5)
    assert float(split.train.inputs.std(correction=0)) == pytest.approx(1, abs=1e-5)
    mean, std = plain.train.inputs.mean(), plain.train.inputs.std(correction=0)
    torch.testing.assert_close(split.test.inputs, (plain.test.inputs - mean) / std)


def test_symmetric_pixels_lie_between_minus_one_and_one() -> None:
    plain = load(DataSpec(name="digits", normalise=False))
    split = load(DataSpec(name="digits", normalise=False, options={"symmetric": True}))
    for part, other in ((split.train, plain.train), (split.test, plain.test)):
        torch.testing.assert_close(part.inputs, 2 * other.inputs - 1)
    assert (float(split.train.inputs.min()), float(split.train.inputs.max())) == (-1.0, 1.0)
    with pytest.raises(InputError, match=r"Expected data\.normalise = False"):
        load(DataSpec(name="digits", options={"symmetric": True}))


def test_flat_digits_and_their_share() -> None:
    split = load(DataSpec(name="digits", options={"flatten": True, "test_share": 0.5}))
    assert split.input_shape == (64,)
    assert abs(len(split.train) - len(split.test)) <= 1


@pytest.mark.parametrize("n", [1, 2, 9, 25, 40])
def test_a_choice_is_as_even_as_the_classes_allow(n: int) -> None:
    labels = torch.tensor([0] * 3 + [1] * 30 + [2] * 7)
    chosen = balanced_choice(labels, n, seed=0)
    assert len(chosen.unique()) == n
    assert torch.equal(chosen, chosen.sort().values)
    counts = labels[chosen].bincount(minlength=3).tolist()
    for mine, there in zip(counts, (3, 30, 7), strict=True):  # a class lags behind only when it is used up
        assert mine == there or mine >= max(counts) - 1
    smaller = balanced_choice(labels, max(n - 1, 1), seed=0)
    assert set(smaller.tolist()) <= set(chosen.tolist())


@pytest.mark.parametrize(
    ("sizes", "share", "expected"),
    [
        ((950, 50), 0.2, [190, 10]),
        ((998, 2), 0.2, [199, 1]),
        ((998, 2), 0.9, [899, 1]),
        ((50, 1), 0.2, [10, 0]),
        ((4, 4, 4), 0.01, [1, 1, 1]),
        ((4, 4, 4), 0.99, [3, 3, 3]),
        ((2, 0, 3), 0.2, [1, 0, 1]),
        ((1, 1), 0.5, [0, 0]),
    ],
)
def test_a_share_is_taken_within_each_class(sizes: tuple[int, ...], share: float, expected: list[int]) -> None:
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    chosen = stratified_choice(labels, share, seed=3)
    assert labels[chosen].bincount(minlength=len(sizes)).tolist() == expected
    assert torch.equal(chosen, stratified_choice(labels, share, seed=3))
    assert torch.equal(chosen, chosen.unique())


@pytest.mark.parametrize(("classes", "size"), [(1, 9), (2, 500), (3, 7), (10, 33)])
def test_equal_classes_have_the_same_share_as_a_balanced_choice(classes: int, size: int) -> None:
    labels = torch.arange(classes).repeat(size)
    for seed in range(5):
        chosen = stratified_choice(labels, 0.2, seed=seed)
        assert torch.equal(chosen, balanced_choice(labels, round(0.2 * len(labels)), seed=seed))


def test_subsets_follow_the_seed() -> None:
    data = digits()
    a, b, c = data.subset(100, 1), data.subset(100, 1), data.subset(100, 2)
    assert a.labels.bincount().tolist() == [10] * 10
    assert torch.equal(a.inputs, b.inputs)
    assert not torch.equal(a.inputs, c.inputs)
    with pytest.raises(InputError, match=r"at most 1,797 points .*, got 2,000"):
        data.subset(2000)


@pytest.mark.parametrize(
    ("name", "nested"),
    [
        ("digits", True),
        ("modular_addition", True),
        ("two_moons", False),
        ("gaussian_quantiles", False),
        ("random_labels", False),
        ("univariate", False),
    ],
)
def test_which_small_choices_are_part_of_larger_ones(name: str, nested: bool) -> None:
    """As docs/data.md says."""
    small, large = (load(DataSpec(name=name, n_train=n, n_test=n, normalise=False)) for n in (50, 100))
    for few, many in ((small.train, large.train), (small.test, large.test)):
        first, second = (
            {(*x.flatten().tolist(), int(y)) for x, y in zip(part.inputs, part.labels, strict=True)}
            for part in (few, many)
        )
        assert (first <= second) == nested


def test_label_noise_replaces_its_share_in_the_training_part_only() -> None:
    clean = load(DataSpec(name="digits"))
    some, most, random = (load(DataSpec(name="digits", label_noise=share)) for share in (0.2, 0.6, 1.0))
    for noisy in (some, most, random):
        assert torch.equal(noisy.test.labels, clean.test.labels)
        assert torch.equal(noisy.train.inputs, clean.train.inputs)
    changed = [(noisy.train.labels != clean.train.labels) for noisy in (some, most, random)]
    for share, mask in zip((0.2, 0.6, 1.0), changed, strict=True):  # a tenth of the random labels are the old ones
        assert float(mask.float().mean()) == pytest.approx(0.9 * share, abs=0.04)
    assert not bool((changed[0] & ~changed[1]).any())
    assert (random.train.labels.bincount() - len(random.train) / 10).abs().max() < 40


def test_label_noise_follows_its_seed() -> None:
    data = digits()
    assert torch.equal(add_label_noise(data, 0.5, seed=1).labels, add_label_noise(data, 0.5, seed=1).labels)
    assert not torch.equal(add_label_noise(data, 0.5, seed=1).labels, add_label_noise(data, 0.5, seed=2).labels)
    assert torch.equal(add_label_noise(data, 0.0).labels, data.labels)
    with pytest.raises(InputError, match="from 0 to 1"):
        add_label_noise(data, 1.5)


def test_everything_has_a_name() -> None:
    assert set(names()) == {
        "two_moons", "gaussian_quantiles", "random_labels", "univariate", "modular_addition", "text", "digits",
        "mnist", "fashion_mnist", "cifar10", "cifar100", "imagenet",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            DataSpec(name="two_mons"),
            "Expected a data set, got 'two_mons'. Did you mean 'two_moons'\\? Choose from two_moons, ",
        ),
        (DataSpec(name="two_moons", options={"sigma": 1.0}), "an option of two_moons, got 'sigma'"),
        (DataSpec(name="two_moons", options={"noise": "much"}), r"of type float, got 'much'\. Write it like 0\.2"),
        (DataSpec(name="digits", options={"flatten": 1}), "of type bool, got 1. Write it like False"),
        (DataSpec(name="digits", options={"test_share": 1.0}), "between 0 and 1, got 1"),
        (DataSpec(name="digits", n_train=1700), "at most 1,438 points of digits, got 1,700"),
        (DataSpec(name="univariate", options={"switches": "x"}), "a number or a list of places"),
        (DataSpec(name="cifar100", options={"labels": "all"}), "Choose from coarse, fine"),
    ],
)
def test_mistakes_are_one_sentence(spec: DataSpec, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(spec)


def test_missing_data_names_the_folders_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    with pytest.raises(InputError) as caught:
        load(DataSpec(name="cifar10"))
    for part in ("data/cifar-10-batches-bin'", "data/cifar-10-batches-py'", "Run: regionscope-lab data get cifar10,"):
        assert part in str(caught.value)
    with pytest.raises(InputError) as caught:
        load(DataSpec(name="mnist"), root=tmp_path / "there")
    assert f"Run: regionscope-lab data get mnist --data-root {tmp_path / 'there'}" in str(caught.value)
    assert repr(str(tmp_path / "there" / "MNIST" / "raw")) in str(caught.value)


def test_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    assert data_root() == Path("data")
    monkeypatch.setenv("REGIONSCOPE_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root(tmp_path / "mine") == tmp_path / "mine"


def test_parts_that_do_not_fit_are_refused() -> None:
    first = Dataset("a", torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), 2)
    with pytest.raises(InputError, match=r"training and test parts of .*got inputs \(3,\) and \(4,\), 2 and 2 classes"):
        DataSplit(first, Dataset("a", torch.zeros(2, 4), torch.zeros(2, dtype=torch.long), 2))
    moved = DataSplit(first, first).to(torch.device("cpu"))
    assert torch.equal(moved.train.inputs, first.inputs)
