"""NumPy arrays and tensors take the same way through a cut."""

from __future__ import annotations

import pytest
import torch

from regionscope.geometry import arrays, interpolation
from regionscope.geometry.crossing import Units
from regionscope.geometry.planar.cut import PlanarSplit, split
from regionscope.geometry.planar.mesh import Mesh


def _square() -> tuple[Mesh, torch.Tensor]:
    none, corners = torch.full((4,), -1), torch.arange(4)
    mesh = Mesh.of_loops(4, corners, torch.tensor([0, 4]), torch.zeros(1, dtype=torch.int64), none, none)
    return mesh, torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)


def _cut_twice() -> tuple[PlanarSplit, torch.Tensor]:
    """Lines of two layers, some of them through one point."""
    generator = torch.Generator().manual_seed(0)
    mesh, coords = _square()
    for layer in range(2):
        weights = torch.randn(2, 12, generator=generator, dtype=torch.float64)
        values = coords @ weights + 0.3 * torch.randn(12, generator=generator, dtype=torch.float64)
        values[:, :4] = coords @ weights[:, :4]
        result = split(mesh, Units(values, (0.0, 0.5), torch.full((len(coords), 12), 1e-12).double()), layer=layer)
        mesh, coords = result.mesh, result.interpolation.apply(coords)
    return arrays.as_tensors(result), coords


def test_numpy_and_tensors_cut_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    here, coords = _cut_twice()
    monkeypatch.setattr(arrays, "numpy_on_cpu", lambda value: value)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(interpolation, "_LARGE", 10**9)
    there, again = _cut_twice()
    assert torch.allclose(coords, again, rtol=0, atol=1e-12)
    for name in ("edges", "layer", "corners", "sides", "offsets", "slice_id"):
        assert torch.equal(getattr(here.mesh, name), getattr(there.mesh, name)), name
    for name in ("old_cell", "zeros", "unsettled", "snapped"):
        assert torch.equal(getattr(here, name), getattr(there, name)), name


def test_arrays_share_the_memory_of_their_tensors() -> None:
    mesh, _ = _square()
    changed = arrays.as_tensors(arrays.numpy_on_cpu(mesh))
    assert changed.corners.data_ptr() == mesh.corners.data_ptr()
    assert changed.n_vertices == 4


def test_a_layer_that_cuts_nothing_leaves_the_mesh_alone() -> None:
    mesh, coords = _square()
    near = torch.full((4,), 1e-12, dtype=torch.float64)
    result = arrays.as_tensors(split(mesh, Units(2.0 + coords, (0.0,), near), layer=0))
    assert result.interpolation.n_vertices == mesh.n_vertices == result.mesh.n_vertices
    assert result.mesh.corners.data_ptr() == mesh.corners.data_ptr()
    assert len(result.unsettled) == len(result.snapped) == 0


@pytest.mark.parametrize("count", [1, 5, 40])
def test_largest_rows_of_both_kinds(count: int) -> None:
    rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = set(rows.abs().sum(1).argsort()[-count:].tolist())
    assert set(arrays.largest_rows(rows, count).tolist()) == wanted
    assert set(arrays.largest_rows(arrays.numpy_on_cpu(rows), count).tolist()) == wanted
