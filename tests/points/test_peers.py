"""Half-spaces, facets and maps of data points against relucent, where it is installed (dependency group ``peers``).

Two other tools know the region of a point and are not compared: Aletheia is not on the package index, and parx needs
Julia.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regionscope.points import regions_at

relucent = pytest.importorskip("relucent", reason="needs the dependency group peers")


@pytest.mark.parametrize(("widths", "seed"), [([2, 10, 5, 1], 0), ([3, 12, 12, 2], 1), ([6, 10, 10, 3], 2)])
def test_relucent_has_the_same_half_spaces_facets_radii_and_maps(widths: list[int], seed: int) -> None:
    relucent.set_seeds(seed)
    net: nn.Sequential = relucent.torch_mlp(widths=widths).double()
    points = torch.randn(5, widths[0], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    at, cells = regions_at(net, points), relucent.Complex(net)
    for i, point in enumerate(points.numpy()):
        cell, peer = at.halfspaces(i), cells.point2poly(point[None])
        table = np.asarray(peer.halfspaces_np)  # rows (a, c) of a . x + c <= 0
        rows = table / np.linalg.norm(table[:, :-1], axis=1, keepdims=True)
        ours = np.column_stack([cell.normals, -cell.offsets]) / cell.sizes[:, None]
        assert len(rows) == len(ours)
        assert np.abs(rows[:, None] - ours).max(2).min(1).max() < 1e-9
        assert len(at.facets(i)) == len(peer.shis)
        radius = at.inradius(i)
        assert radius == np.inf if peer.inradius is None else radius == pytest.approx(peer.inradius, rel=1e-6)
        affine = at.map(i)
        np.testing.assert_allclose(affine.matrix.T, peer.W, rtol=0, atol=1e-12)
        np.testing.assert_allclose(affine.offset, np.asarray(peer.b).reshape(-1), rtol=0, atol=1e-12)
