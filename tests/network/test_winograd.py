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
from regionscope.certificate.matrices import whole_layer
from regionscope.errors import InputError
from regionscope.exact.linear import exact_regions
from regionscope.network.program import Instruction
from regionscope.network.rules import winograd
from regionscope.network.rules.convolution import conv2d_by_product, in_row_blocks

KERNELS = """
import torch
from regionscope.network.rules import winograd, winograd_kernels as fast
torch.manual_seed(0)
x, weight, bias = (torch.randn(*s, dtype=torch.float64) for s in [(2, 2, 5, 6), (2, 2, 3, 3), (4,)])
kernels, bias = winograd.spread(weight), bias[::2]
own = winograd.tiled(x, kernels, bias, (1, 0), winograd.tiles_of, winograd.join_tiles)
found = winograd.tiled(x.mT.contiguous().mT, kernels, bias, (1, 0), fast.tiles_of, fast.join_tiles)
torch.testing.assert_close(found, own, rtol=0, atol=1e-12)
"""


def _twin(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: tuple[int, int] = (1, 1)) -> Tensor:
    kernels = winograd.spread(weight)
    return winograd.tiled(x, kernels, bias, padding, winograd.tiles_of, winograd.join_tiles, 10_000)


@pytest.mark.parametrize("shape", [(3, 5, 8, 8), (2, 4, 7, 9), (1, 2, 3, 3), (0, 2, 4, 4)])
@pytest.mark.parametrize("padding", [(1, 1), (0, 2)])
def test_the_twin_is_a_convolution(shape: tuple[int, ...], padding: tuple[int, int]) -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(s, generator=draw, dtype=torch.float64) for s in [shape, (6, shape[1], 3, 3), (6,)])
    for shift in (bias, None):
        wanted = functional.conv2d(x, weight, shift, padding=padding)
        torch.testing.assert_close(_twin(x, weight, shift, padding=padding), wanted, rtol=0, atol=1e-12)


def test_a_window_of_zeros_has_the_value_of_its_bias() -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(s, generator=draw).double() for s in [(2, 40, 9, 9), (8, 40, 3, 3), (8,)])
    for column in range(5):
        x[:, :, :, : column + 1] = 0
        for shift in (bias, torch.zeros_like(bias)):
            found = _twin(1e9 * x, weight, shift)[:, :, :, :column]
            assert torch.equal(found, shift[:, None, None].expand_as(found))


@pytest.mark.parametrize("least", [-(2**27), 0])
def test_the_error_is_bounded(least: int) -> None:
    """Against integers, which are not rounded. They are so large that most operations of the twin round."""
    draw = torch.Generator().manual_seed(0)
    x, weight = (torch.randint(least, 2**27, s, generator=draw) for s in [(2, 64, 6, 6), (16, 64, 3, 3)])
    exact = conv2d_by_product(x, weight, stride=(1, 1), padding=(1, 1))
    error = (_twin(x.double(), weight.double()).long() - exact).abs().double()
    unit, sizes = torch.finfo(torch.float64).eps, {}
    for power in (1, 2):  # all products that an output adds up: their sum, and the root of the sum of their squares
        a, b, g = (torch.tensor(matrix).abs().double() for matrix in (winograd._A, winograd._B, winograd._G))
        tiles = functional.pad(x.double().abs(), (1, 1, 1, 1)).unfold(2, 4, 2).unfold(3, 4, 2)
        products = torch.einsum(
            "ocij,nchwij->nohwij", (g @ weight.double().abs() @ g.T) ** power, (b @ tiles @ b.T) ** power
        )
        sizes[power] = torch.einsum("ki,lj,nohwij->nohkwl", a, a, products).reshape(exact.shape) ** (1 / power)
    usual = winograd.rounding(x.double(), weight.double(), padding=(1, 1))
    torch.testing.assert_close(usual, sizes[2])
    assert bool((error <= (64 + 15) * unit / 2 * sizes[1]).all())
    tolerance = unit * torch.maximum(64 * usual, 2048 * exact.abs().double())  # what counts as zero, see zero_tolerance
    assert bool((error <= tolerance / 16).all())
    assert float(error.max()) > 0


def _network(zero_columns: int) -> nn.Sequential:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 1, bias=False), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 5),
    ).double()  # fmt: skip
    for layer in (model[2], model[4]):
        nn.init.zeros_(layer.bias)  # units that read nothing but black pixels are exactly zero
        layer.weight.data[..., 3 - zero_columns :] = 0
    return model


def _tiled(instruction: Instruction, cover: bool) -> Instruction:
    if not (instruction.constants and instruction.constants[0].shape[1:] == (8, 3, 3)):
        return instruction
    return replace(instruction, function=_twin, rounding=partial(winograd.rounding, padding=(1, 1)) if cover else None)


def _counts(model: nn.Module) -> list[tuple[dict[str, int], int]]:
    """Regions by layer and signs that rounding hides, before integers decide them: with direct sums, with tiles, and
    without their ``rounding``.
    """
    ends = torch.zeros(2, 1, 8, 8, dtype=torch.float64)
    ends[:, :, 2:5, 3:5] = torch.randn(2, 1, 3, 2, dtype=torch.float64)
    program = rs.trace(model, (1, 8, 8))
    versions = [program, *(program.map_instructions(partial(_tiled, cover=cover)) for cover in (True, False))]
    cut = partial(exact_regions, max_regions=None, on_limit="raise", memory=None, tolerance=None, progress=None)
    parts = [cut(version, [rs.Segment(*ends)]).partitions()[0] for version in versions]
    return [(part.by_layer, part.n_snapped) for part in parts]


def test_black_pixels_are_as_with_direct_sums() -> None:
    direct, tiled, bare = _counts(_network(0))
    assert direct == tiled == bare


def test_the_zero_tolerance_covers_the_rounding_of_tiles() -> None:
    """Weights of zero, for which products cancel that a direct sum does not have."""
    (direct, _), (tiled, _), (bare, _) = _counts(_network(2))
    assert tiled == direct != bare


def test_a_certificate_reads_the_weights_and_sums_directly() -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(s, generator=draw, dtype=torch.float64) for s in [(2, 3, 5, 5), (4, 3, 3, 3)])
    direct = in_row_blocks(partial(conv2d_by_product, stride=(1, 1), padding=(1, 1)), 1)
    matrix = whole_layer(partial(winograd.conv2d_winograd, padding=(1, 1), function=direct), (weight,), (x[:1],))
    assert matrix is not None
    assert torch.equal(torch.from_numpy(matrix.numbers), weight)
    assert torch.equal(torch.from_numpy(matrix @ x.flatten(1).T.numpy()).T, direct(x, weight).flatten(1))


def test_what_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "find_spec", lambda name: name)
    monkeypatch.setattr(winograd, "_runs_on", lambda device: True)
    gpu, weight = torch.device("cuda"), torch.ones(32, 64, 3, 3)
    assert winograd.suits(gpu, weight, (1, 1))
    assert not winograd.suits(torch.device("cpu"), weight, (1, 1))
    assert not winograd.suits(gpu, weight, (1, 2))
    assert not winograd.suits(gpu, weight[:, :31], (1, 1))
    assert not winograd.suits(gpu, weight[..., :1], (1, 1))
    weight[3] = 0
    assert winograd.suits(gpu, weight, (1, 1))
    weight[4, 5, 1, 1] = 0
    assert not winograd.suits(gpu, weight, (1, 1))


def test_a_program_does_not_take_over_kernels_that_its_tiles_do_not_suit() -> None:
    def tiled(instruction: Instruction) -> Instruction:
        convolves = instruction.constants and instruction.constants[0].shape[1:] == (8, 3, 3)
        return replace(instruction, suits=winograd.without_single_zeros) if convolves else instruction

    program = rs.trace(_network(0), (1, 8, 8)).map_instructions(tiled)
    assert program.can_rebind(_network(0))
    assert program.can_rebind(_network(3))  # zeros alone
    assert not program.can_rebind(_network(1))
    with pytest.raises(InputError, match="single zeros"):
        program.rebind(_network(1))


def test_kernels_that_do_not_compile_are_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Tensor, **options: object) -> Tensor:
        raise RuntimeError("Failed to find C compiler")

    check = winograd._runs_on.__wrapped__
    assert check(torch.device("cpu"))
    monkeypatch.setattr(winograd, "conv2d_winograd", broken)
    with pytest.warns(UserWarning, match="RuntimeError: Failed to find C compiler"):
        assert not check(torch.device("cpu"))


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
@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_kernels_are_a_convolution_on_cuda(rows: int, layout: torch.memory_format) -> None:
    draw = torch.Generator().manual_seed(0)
    sizes = [(rows, 32, 9, 16), (48, 32, 3, 3), (48,)]
    x, weight, bias = (torch.randn(s, generator=draw, dtype=torch.float64).cuda() for s in sizes)
    x = x.to(memory_format=layout)
    for shift in (bias, None):
        wanted = functional.conv2d(x, weight, shift, padding=(1, 0))
        found = winograd.conv2d_winograd(x, weight, shift, padding=(1, 0), function=functional.conv2d)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)


@needs_cuda
def test_a_segment_of_a_wide_cnn_is_the_same_on_both_devices() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.ReLU(),
        nn.Conv2d(32, 40, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(40 * 64, 5),
    ).double()  # fmt: skip
    ends = torch.zeros(2, 3, 8, 8, dtype=torch.float64)
    ends[:, :, 2:5, 3:5] = torch.randn(2, 3, 3, 2, dtype=torch.float64)
    parts = [rs.linear_regions(model.to(device), rs.Segment(*ends)) for device in ("cpu", "cuda")]
    assert parts[0].by_layer == parts[1].by_layer
    assert parts[0].n_snapped == parts[1].n_snapped
