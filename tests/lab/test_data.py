from __future__ import annotations

import sys

import pytest
import torch

from regionscope.errors import InputError
from regionscope.lab.data import two_moons


def test_two_moons_span_the_square() -> None:
    data = two_moons(1000, noise=0.2, seed=0)
    assert data.inputs.shape == (1000, 2)
    assert data.inputs.dtype == torch.float32
    assert data.inputs.amin(0).tolist() == [-1.0, -1.0]
    assert data.inputs.amax(0).tolist() == [1.0, 1.0]
    assert data.labels.bincount().tolist() == [500, 500]
    assert data.n_classes == 2


def test_the_seed_decides() -> None:
    assert torch.equal(two_moons(seed=3).inputs, two_moons(seed=3).inputs)
    assert not torch.equal(two_moons(seed=3).inputs, two_moons(seed=4).inputs)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"pip install 'regionscope\[lab\]'"):
        two_moons()


def test_too_few_points() -> None:
    with pytest.raises(InputError, match="at least 2"):
        two_moons(1)
