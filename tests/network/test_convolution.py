"""Convolutions in blocks of rows and as matrix products, against ``F.conv2d``."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import regionscope as rs
from devices import needs_cuda
from regionscope.network.rules.convolution import (
    THREAD_BYTES,
    conv2d_by_product,
    conv2d_of_channels,
    in_row_blocks,
    in_strips,
)


@pytest.mark.parametrize("kernel", [1, 3, 4])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (3, 3)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_a_product_of_patches_is_a_convolution(kernel: int, stride: tuple[int, int], padding: tuple[int, int]) -> None:
    draw = torch.Generator().manual_seed(kernel)
    x, weight, bias = (
        torch.randn(shape, generator=draw, dtype=torch.float64)
        for shape in [(5, 3, 7, 9), (4, 3, kernel, kernel), (4,)]
    )
    for shift in (bias, None):
        wanted = functional.conv2d(x, weight, shift, stride, padding)
        found = conv2d_by_product(x, weight, shift, stride=stride, padding=padding)
        assert found.shape == wanted.shape
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [(1, 2), (3, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
def test_a_sum_of_shifted_images_is_a_depthwise_convolution(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int]
) -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=draw, dtype=torch.float64) for shape in [(5, 4, 7, 9), (4, 1, *kernel), (4,)]
    )
    x.requires_grad_(True)
    for shift in (bias, None):
        wanted = functional.conv2d(x, weight, shift, stride, padding, dilation, groups=4)
        outputs = conv2d_of_channels(x, weight, shift, stride=stride, padding=padding, dilation=dilation)
        torch.testing.assert_close(outputs, wanted, rtol=1e-14, atol=1e-14)
        slopes = [torch.autograd.grad(y.square().sum(), x)[0] for y in (outputs, wanted)]
        torch.testing.assert_close(*slopes, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kernel", [(1, 2), (3, 3), (4, 1)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
@pytest.mark.parametrize("lines", [1, 2, 5, 100])
def test_strips_of_an_image_do_not_change_a_bit(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], lines: int
) -> None:
    draw = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=draw, dtype=torch.float64) for shape in [(2, 3, 11, 9), (4, 3, *kernel), (4,)]
    )
    line_bytes = 2 * THREAD_BYTES // lines
    convolve = in_strips(line_bytes, kernel=kernel[0], stride=stride, padding=padding)
    assert torch.equal(convolve(x, weight, bias), functional.conv2d(x, weight, bias, stride, padding))


def test_large_images_are_convolved_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope.network.rules.layers.KEPT_BYTES", 10_000)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3, 2), nn.Flatten()).double()
    x = torch.randn(3, 2, 16, 12, dtype=torch.float64)
    program = rs.trace(model, (2, 16, 12))
    assert "_strips" in str(program.instructions[0].function)
    assert torch.equal(program(x), model(x).detach())
    part = rs.linear_regions(program, rs.Segment(x[0], x[1]))
    part.check()
    assert part.certify()


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("padding", [1, "same"])
def test_every_kind_of_depthwise_convolution_is_read(multiplier: int, padding: int | str) -> None:
    torch.manual_seed(0)
    convolution = nn.Conv2d(4, 4 * multiplier, 3, padding=padding, groups=4)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), convolution, nn.ReLU(), nn.Flatten()).double()
    x = torch.randn(6, 3, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(rs.trace(model, (3, 5, 5))(x), model(x).detach(), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("block_bytes", [1, 100, 10**9])
def test_blocks_of_rows_do_not_change_the_answer(block_bytes: int) -> None:
    x = torch.arange(14.0).reshape(7, 2)
    assert torch.equal(in_row_blocks(torch.neg, 50, block_bytes=block_bytes)(x), -x)


def test_the_backward_pass_of_blocks_copies_no_row_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # a block is as many times larger as there are threads
    x = torch.arange(14.0).reshape(7, 2).requires_grad_(True)
    out = in_row_blocks(torch.square, 50, block_bytes=100)(x)
    assert type(out.grad_fn).__name__ == "CatBackward0"  # writes into a tensor would be CopySlices, each as long as all
    (slope,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(slope, 2 * x)


@needs_cuda
def test_a_segment_of_a_cnn_has_the_same_regions_on_both_devices() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(24 * 16, 5),
    ).double()  # fmt: skip
    ends = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    counts = [rs.linear_regions(model.to(device), rs.Segment(*ends)).n_activation_regions for device in ("cpu", "cuda")]
    assert counts[0] == counts[1] > 100
