"""Whole numbers and optional libraries: what is accepted, and the sentence for the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regionscope.checks import is_whole, of_kind, read_device, whole
from regionscope.errors import InputError
from regionscope.explorer.figures import bokeh
from regionscope.extras import needed
from regionscope.lab.data.digits import digits
from regionscope.lab.data.toy import two_moons
from regionscope.lab.monitor.listeners import TensorBoard


@pytest.mark.parametrize("value", [1, 7, 2**70])
def test_whole_numbers_are_accepted(value: int) -> None:
    assert is_whole(value)
    assert whole("n", value) == value


@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, math.nan, "3", None, [1]])
def test_everything_else_is_refused_by_name(value: object) -> None:
    assert not is_whole(value)
    with pytest.raises(InputError, match=r"^n is .*; a whole number of at least 1 is needed\.$"):
        whole("n", value)


def test_the_least_number_can_be_another() -> None:
    assert whole("seed", 0, least=0) == 0
    with pytest.raises(InputError, match="at least 2"):
        whole("grid", 1, least=2)


def test_a_library_that_is_there_is_given() -> None:
    assert needed("math", who="This needs", library="mathematics", extra="lab") is math


MISSING: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "bokeh": ("bokeh", lambda _: bokeh(), "The explorer needs Bokeh, which is not installed; run: pip install "
              "'regionscope[explorer]'"),
    "digits": ("sklearn", lambda _: digits(), "digits needs scikit-learn, which is not installed; run: pip install "
               "'regionscope[lab]'"),
    "two moons": ("sklearn", lambda _: two_moons(10), "two_moons needs scikit-learn, which is not installed; run: pip "
                  "install 'regionscope[lab]'"),
    "TensorBoard": ("torch.utils.tensorboard.writer", TensorBoard, "The TensorBoard listener needs tensorboard, which "
                    "is not installed; run: pip install 'regionscope[track]'"),
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
    assert of_kind("f()", 3, int) == 3
    with pytest.raises(InputError, match=r"^f\(\) takes a int, and what came is of type str; write 3\.$"):
        of_kind("f()", "3", int, advice="write 3")


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "meta", 3.5, None])
def test_a_device_that_cannot_be_used_is_named(name: object) -> None:
    with pytest.raises(InputError, match=f"^Expected device .* got '{name}'"):
        read_device(name)
