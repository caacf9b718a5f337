"""Convex combinations of rows, against the two stages written out."""

from __future__ import annotations

import pytest
import torch

from devices import DEVICES
from regionscope.geometry.interpolation import Interpolation


def _interpolation() -> Interpolation:
    a, b = torch.tensor([0, 2]), torch.tensor([1, 3])
    c, d = torch.tensor([4, 0, 1]), torch.tensor([5, 5, 2])
    t = torch.tensor([0.25, 0.5], dtype=torch.float64)
    s = torch.tensor([0.5, 0.1, 0.9], dtype=torch.float64)
    weights = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    return Interpolation(4, a, b, t, c, d, s, torch.tensor([[0, 1, 3]]), weights)


def _plain(interpolation: Interpolation, rows: torch.Tensor) -> torch.Tensor:
    out = list(rows)
    for a, b, t in zip(interpolation.a, interpolation.b, interpolation.t, strict=True):
        out.append((1 - t) * out[a] + t * out[b])
    for c, d, s in zip(interpolation.c, interpolation.d, interpolation.s, strict=True):
        out.append((1 - s) * out[c] + s * out[d])
    for corners, weight in zip(interpolation.triple_points, interpolation.weights, strict=True):
        out.append(sum(w * rows[h] for h, w in zip(corners, weight, strict=True)))
    return torch.stack(out)


@pytest.mark.parametrize("mkl", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_all_and_chosen_rows(monkeypatch: pytest.MonkeyPatch, mkl: bool, shape: tuple[int, ...]) -> None:
    if not mkl:  # the way taken on machines whose torch comes without MKL
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    elif not torch.backends.mkl.is_available():
        pytest.skip("this torch has no MKL")
    interpolation = _interpolation()
    rows = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = _plain(interpolation, rows)
    assert torch.allclose(interpolation.apply(rows), expected, rtol=1e-14, atol=1e-14)
    chosen = torch.tensor([9, 0, 5, 7, 6, 3, 4, 8])
    assert torch.allclose(interpolation.apply(rows, chosen), expected[chosen], rtol=1e-14, atol=1e-14)
    assert interpolation.apply(rows, chosen[:0]).shape == (0, *shape)


def test_labels_follow_the_first_ancestor() -> None:
    labels = torch.tensor([7, 8, 9, 10])
    assert _interpolation().copy_first(labels).tolist() == [7, 8, 9, 10, 7, 9, 7, 7, 8, 7]


@pytest.mark.parametrize("device", DEVICES)
def test_more_terms_than_old_rows_have_places(device: str) -> None:
    """Crossings of chords of a triangle: four terms each, of three old rows."""
    a, b = torch.tensor([0, 1, 2], device=device), torch.tensor([1, 2, 0], device=device)
    t = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64, device=device)
    c, d = torch.tensor([3, 4, 5, 3, 4], device=device), torch.tensor([4, 5, 3, 5, 3], device=device)
    s = torch.linspace(0.1, 0.9, 5, dtype=torch.float64, device=device)
    interpolation = Interpolation(3, a, b, t, c, d, s, a.new_empty((0, 3)), t.new_empty((0, 3)))
    crossings = torch.arange(6, 11, device=device)
    matrix = interpolation.matrix().of(crossings)
    assert len(matrix.columns) > len(crossings) * interpolation.n_old
    rows = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    assert torch.allclose(matrix.apply(rows), _plain(interpolation, rows)[6:], rtol=1e-14, atol=1e-14)
