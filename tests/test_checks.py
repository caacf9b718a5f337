"""Whole numbers and optional libraries: what is accepted, and the sentence for the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from regionscope.checks import check_instance, read_device, read_integer, read_number, read_seed
from regionscope.errors import InputError
from regionscope.explorer.figures import bokeh
from regionscope.extras import import_extra
from regionscope.monitor.listeners import TensorBoard


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


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (lambda: read_integer("n", 2**70), 2**70),
        (lambda: read_integer("seed", 0, least=0), 0),
        (lambda: check_instance("f()", 3, int, advice="Write 3"), 3),
        (lambda: read_seed(2**64 - 1), 2**64 - 1),
        *((partial(read_number, "radius", value), 0.5) for value in (0.5, np.float32(0.5), torch.tensor(0.5))),
        (lambda: read_number("radius", np.array(1.0)), 1.0),
        (lambda: read_number("radius", np.int64(2)), 2.0),
    ],
)
def test_numbers_of_any_kind_are_accepted(accepted: Callable[[], object], expected: float) -> None:
    assert accepted() == expected


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *(
            (partial(read_integer, "n", value), "n to be a whole number of at least 1, got ")
            for value in (0, -1, True, 1.0, math.nan, "3", None, [1])
        ),
        (lambda: read_integer("grid", 1, least=2), "grid to be a whole number of at least 2, got 1"),
        *(
            (partial(read_number, "radius", value), "a finite number for radius, got ")
            for value in ("1", None, True, 1j, math.nan, math.inf, 10**400, torch.tensor(1j), torch.ones(2), [1])
        ),
        *(
            (partial(read_seed, value), r"seed to be a whole number from 0 to 2\^64 - 1, got ")
            for value in (-1, 2**64, 1.0, True, "1", None)
        ),
        *(
            (partial(read_device, name), f"device .* got '{name}'. Pass cpu")
            for name in ("tpu", "cuda:99", "meta", None)
        ),
        (lambda: check_instance("f()", "3", int, advice="Write 3"), r"an int for f\(\), got str\. Write 3\.$"),
    ],
)
def test_everything_else_is_refused_by_name(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=f"^Expected {words}"):
        wrong()
