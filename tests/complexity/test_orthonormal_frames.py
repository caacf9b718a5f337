"""Frames of directions: orthonormal, Haar distributed, and the same in every batch."""

from __future__ import annotations

import pytest
import torch

from regionscope.complexity import neighbourhoods, orthonormal_frames


def test_frames_are_orthonormal_and_do_not_depend_on_the_batch() -> None:
    frames = orthonormal_frames((3, 7), dims=21, points=4, seed=2, dtype=torch.float64)
    flat = frames.flatten(2)
    assert torch.allclose(flat @ flat.transpose(1, 2), torch.eye(21, dtype=torch.float64).expand(4, 21, 21), atol=1e-12)
    generator = torch.Generator().manual_seed(2)
    parts = [orthonormal_frames((3, 7), dims=21, points=n, generator=generator, dtype=torch.float64) for n in (1, 3)]
    assert torch.equal(torch.cat(parts), frames)
    assert torch.allclose(orthonormal_frames((3, 7), dims=21, points=4, seed=2), frames.float(), atol=1e-4)
    assert not torch.allclose(flat[0], flat[1], atol=0.1)


def test_frames_made_from_one_are_orthonormal_and_haar_distributed() -> None:
    generator = torch.Generator().manual_seed(0)
    first = orthonormal_frames((300,), dims=3, points=4, generator=generator, dtype=torch.float64)
    assert torch.allclose(first @ first.transpose(1, 2), torch.eye(3, dtype=torch.float64).expand(4, 3, 3), atol=1e-12)
    frames = torch.cat([first, *(orthonormal_frames((300,), dims=3, points=400, seed=i).double() for i in range(5))])
    assert float(frames.mean((0, 1)).abs().max()) < 5 * (300 * 3 * len(frames)) ** -0.5
    assert torch.allclose((300 * frames**2).mean((0, 1)), torch.ones(300, dtype=torch.float64), atol=0.15)
    between = (frames[:-1] * frames[1:]).sum(2)  # of neighbours: mean 0 and variance 1 / 300
    assert abs(float(between.mean())) < 5 * between.numel() ** -0.5 / 300**0.5
    assert float(between.var()) * 300 == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("d", "dims"), [(5, 2), (3, 3), (2, 1), (16, 2)])
@pytest.mark.parametrize("shared", [True, False])
def test_directions_take_both_signs_equally_often(d: int, dims: int, shared: bool) -> None:
    if shared:
        frames = torch.stack([orthonormal_frames((d,), dims=dims, seed=i) for i in range(400)])
    else:
        frames = orthonormal_frames((d,), dims=dims, points=400)
    assert float(((frames > 0).double().mean(0) - 0.5).abs().max()) < 5 * 0.5 / 400**0.5


def test_frames_made_from_one_do_not_depend_on_the_batch() -> None:
    source = neighbourhoods.PerPointFrames(3, 300, torch.Generator().manual_seed(2), torch.float32)
    parts = torch.cat([source.draw(n) for n in (1, 70, 5)])
    assert torch.equal(parts, orthonormal_frames((300,), dims=3, points=76, seed=2))
