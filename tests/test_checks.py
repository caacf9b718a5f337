"""Whole numbers and optional libraries: what is accepted, and the sentence for the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from regionscope.checks import check_instance, is_integer, read_device, read_integer, read_number, read_seed
from regionscope.errors import InputError
from regionscope.explorer.figures import bokeh
from regionscope.extras import import_extra
from regionscope.monitor.listeners import TensorBoard
from regionscope_lab.data.toy import two_moons


@pytest.mark.parametrize("value", [1, 7, 2**70])
def test_whole_numbers_are_accepted(value: int) -> None:
    assert is_integer(value)
    assert read_integer("n", value) == value


@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, math.nan, "3", None, [1]])
def test_everything_else_is_refused_by_name(value: object) -> None:
    assert not is_integer(value)
    with pytest.raises(InputError, match=r"^Expected n to be a whole number of at least 1, got .*\.$"):
        read_integer("n", value)


def test_the_least_number_can_be_another() -> None:
    assert read_integer("seed", 0, least=0) == 0
    with pytest.raises(InputError, match="at least 2"):
        read_integer("grid", 1, least=2)


def test_a_library_that_is_there_is_given() -> None:
    assert import_extra("math", who="This needs", library="mathematics", extra="onnx") is math


MISSING: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "bokeh": ("bokeh", lambda _: bokeh(), "The explorer needs Bokeh, which is not installed. Run: pip install "
              "'regionscope[explorer]'"),
    "TensorBoard": ("torch.utils.tensorboard.writer", TensorBoard, "The TensorBoard listener needs tensorboard, which "
                    "is not installed. Run: pip install 'regionscope[track]'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_a_library_that_is_missing_is_a_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, use, sentence = MISSING[name]
    for loaded in [one for one in sys.modules if one == module or one.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as caught:
        use(tmp_path)
    assert str(caught.value) == sentence


def test_an_object_of_another_kind_is_named() -> None:
    assert check_instance("f()", 3, int, advice="Write 3") == 3
    with pytest.raises(InputError, match=r"^Expected an int for f\(\), got str\. Write 3\.$"):
        check_instance("f()", "3", int, advice="Write 3")


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "meta", 3.5, None])
def test_a_device_that_cannot_be_used_is_named(name: object) -> None:
    with pytest.raises(InputError, match=f"^Expected device .* got '{name}'. Pass cpu"):
        read_device(name)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(2), torch.tensor(0.5), np.array(1.0)])
def test_real_numbers_of_any_kind(value: object) -> None:
    assert read_number("radius", value) in (0.5, 1.0, 2.0)


@pytest.mark.parametrize(
    "value", ["1", None, True, 1j, math.nan, math.inf, 10**400, torch.tensor(1j), torch.ones(2), np.ones(2), [1]]
)
def test_what_is_no_real_number_is_named(value: object) -> None:
    with pytest.raises(InputError, match=r"^Expected a finite number for radius, got "):
        read_number("radius", value)


def test_seeds_fit_every_generator() -> None:
    for seed in (0, 2**32, 2**64 - 1):
        torch.Generator().manual_seed(read_seed(seed))
    for wrong in (-1, 2**64, 2**70, 1.0, True, "1", None):
        with pytest.raises(InputError, match=r"^Expected seed to be a whole number from 0 to 2\^64 - 1, got "):
            read_seed(wrong)


def test_large_seeds_reach_scikit_learn() -> None:
    assert len({float(two_moons(10, seed=seed).inputs.sum()) for seed in (0, 2**32, 2**40)}) == 3
