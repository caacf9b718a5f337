"""Winograd convolutions: a slow twin against ``F.conv2d``, the Triton kernels against the twin, and their rounding."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import regionscope as rs
from devices import needs_cuda
from regionscope.network.program import Instruction
from regionscope.network.rules import winograd

KERNELS = """
import torch
from regionscope.network.rules import winograd, winograd_kernels as fast
torch.manual_seed(0)
x, weight, bias = (torch.randn(*s, dtype=torch.float64) for s in [(2, 2, 5, 6), (2, 2, 3, 3), (2,)])
for m in (2, 4):
    own = winograd.tiled(x, weight, bias, (1, 0), m, winograd.tiles_of, winograd.join_tiles)
    found = winograd.tiled(x.mT.contiguous().mT, weight, bias, (1, 0), m, fast.tiles_of, fast.join_tiles)
    torch.testing.assert_close(found, own, rtol=0, atol=1e-12)
"""


def _twin(x: Tensor, weight: Tensor, bias: Tensor, *, m: int = 4, padding: tuple[int, int] = (1, 1)) -> Tensor:
    return winograd.tiled(x, weight, bias, padding, m, winograd.tiles_of, winograd.join_tiles, 10_000)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("shape", [(3, 5, 8, 8), (2, 4, 7, 9), (1, 2, 3, 3)])
@pytest.mark.parametrize("padding", [(1, 1), (0, 2)])
def test_the_twin_is_a_convolution(m: int, shape: tuple[int, ...], padding: tuple[int, int]) -> None:
    draw = torch.Generator().manual_seed(m)
    x, weight, bias = (torch.randn(s, generator=draw, dtype=torch.float64) for s in [shape, (6, shape[1], 3, 3), (6,)])
    found = _twin(x, weight, bias, m=m, padding=padding)
    torch.testing.assert_close(found, functional.conv2d(x, weight, bias, padding=padding), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("m", "most"), [(2, 0.0), (4, 16.0)])
def test_the_error_is_a_few_units_of_what_is_added_up(m: int, most: float) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 9, (2, 64, 8, 8), generator=draw).double()
    x[:, :, :, :3] = 0  # some outputs read only zeros, beside tiles that do not
    weight, bias = torch.randint(-4, 5, (8, 64, 3, 3), generator=draw).double(), torch.zeros(8, dtype=torch.float64)
    exact = functional.conv2d(x, weight, padding=1)  # of integers: nothing is rounded
    error = (_twin(x, weight, bias, m=m) - exact).abs() / torch.finfo(torch.float64).eps
    size = winograd.rounding(x, weight, bias, padding=(1, 1), m=m)
    assert bool((error <= most * size).all())


def test_the_zero_tolerance_covers_the_rounding_of_tiles() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 144, 5),
    ).double()  # fmt: skip
    for layer in (model[2], model[4]):
        nn.init.zeros_(layer.bias)  # units that read nothing but black pixels are exactly zero
    ends = torch.zeros(2, 1, 12, 12, dtype=torch.float64)
    ends[:, :, :3, :2] = torch.randn(2, 1, 3, 2, dtype=torch.float64)
    program = rs.trace(model, (1, 12, 12))

    def tiled(instruction: Instruction, cover: bool) -> Instruction:
        if not (instruction.constants and instruction.constants[0].shape[1:] == (8, 3, 3)):
            return instruction
        rounding = partial(winograd.rounding, padding=(1, 1)) if cover else None
        return replace(instruction, function=_twin, rounding=rounding)

    direct, covered, bare = (
        rs.linear_regions(each, rs.Segment(*ends)).n_activation_regions
        for each in (program, *(program.map_instructions(partial(tiled, cover=cover)) for cover in (True, False)))
    )
    assert covered == direct < bare  # noise is not mistaken for folds, and would be without the cover


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_agree_with_the_twin_in_the_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KERNELS], env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@needs_cuda
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_kernels_are_a_convolution_on_cuda(m: int, layout: torch.memory_format) -> None:
    draw = torch.Generator().manual_seed(0)
    sizes = [(40, 32, 9, 16), (48, 32, 3, 3), (48,)]
    x, weight, bias = (torch.randn(s, generator=draw, dtype=torch.float64).cuda() for s in sizes)
    x = x.to(memory_format=layout)
    found = winograd.conv2d_winograd(
        x, weight, bias, padding=(1, 0), function=functional.conv2d, m=m, workspace=1 << 22
    )
    torch.testing.assert_close(found, functional.conv2d(x, weight, bias, padding=(1, 0)), rtol=0, atol=1e-11)
