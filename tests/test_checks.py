"""Whole numbers and optional libraries: what is accepted, and the sentence for the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from regionscope.checks import check_instance, read_device, read_integer, read_number, read_seed
from regionscope.errors import InputError
from regionscope.explorer.figures import bokeh
from regionscope.extras import import_extra


def test_a_library_that_is_there_is_given() -> None:
    assert import_extra("math", who="This needs", library="mathematics", extra="onnx") is math


def test_a_library_that_is_missing_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name == "bokeh" or name.startswith("bokeh.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(InputError) as caught:
        bokeh()
    said = "The explorer needs Bokeh, which is not installed. Run: pip install 'regionscope[explorer]'"
    assert str(caught.value) == said


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
