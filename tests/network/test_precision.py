"""Measuring is done in full float32, whatever the user's setting, which is back afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.network import Kink, Values, full_precision


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.fixture
def tensor_float() -> Iterator[None]:
    """The user allows TensorFloat-32."""
    before = flags()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.usefixtures("tensor_float")
def test_the_setting_is_back_afterwards_even_after_an_error() -> None:
    @full_precision()
    def fail() -> None:
        raise KeyError(flags())

    with pytest.raises(KeyError, match="False, False"):
        fail()
    assert flags() == (True, True)


class Witness(nn.Module):
    """A classifier that notes the setting under which it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.relu = nn.ReLU()
        self.seen: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(flags())
        return self.relu(self.linear(x))  # type: ignore[no-any-return]


@pytest.mark.usefixtures("tensor_float")
@pytest.mark.parametrize("method", ["grid", "refined"])
def test_region_counts(method: str) -> None:
    model = Witness()
    rs.region_count(model, torch.rand(6, 3), slices=2, grid=5, method=method)
    assert set(model.seen) == {(False, False)}
    assert flags() == (True, True)


@pytest.mark.usefixtures("tensor_float")
def test_local_complexity() -> None:
    model = Witness()
    rs.local_complexity(model, torch.rand(4, 3), dims=2)
    assert set(model.seen) == {(False, False)}
    assert flags() == (True, True)


@pytest.mark.usefixtures("tensor_float")
def test_exact_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    advance = Kink.advance

    def noting(self: Kink, values: Values, *, consume: bool = False) -> Values:
        seen.append(flags())
        return advance(self, values, consume=consume)

    monkeypatch.setattr(Kink, "advance", noting)
    part = rs.linear_regions(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)), rs.Segment([0, 0], [1, 1]))
    part.check()
    assert set(seen) == {(False, False)}
    assert flags() == (True, True)
