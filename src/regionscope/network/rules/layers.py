"""Rules for layers that are affine in their input. To add a layer, add one rule here.

A rule has the name of the torch function or tensor method, takes its arguments, and records what to run on rows.
Layers need no rule of their own: the forward of ``nn.Conv2d`` is followed to ``F.conv2d``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.formatting import counted
from regionscope.network.operations import Affine, ChannelMap, Fixed
from regionscope.network.record import Call, Data, rule
from regionscope.network.refuse import NO_STATISTICS
from regionscope.network.rules import winograd
from regionscope.network.rules.convolution import (
    KEPT_BYTES,
    conv2d_by_product,
    conv2d_of_channels,
    in_row_blocks,
    in_strips,
)
from regionscope.network.rules.windows import per_dim

_FEW_INPUT_CHANNELS = 8  # below, and for 1 x 1 kernels, cuDNN is as fast as a matrix product of patches
_PATCH_BYTES = 2**30  # bytes of patches on a GPU at a time


# layers with weights


@rule("linear")
def linear(call: Call, x: Data, weight: Tensor, bias: Tensor | None = None) -> Data:
    if weight.dim() != 2 or not x.shape or x.shape[-1] != weight.shape[1]:
        call.refuse_shapes(f"its weight has shape {tuple(weight.shape)}", x)
    shape, channel_dim = (*x.shape[:-1], weight.shape[0]), 0 if x.ndim == 2 else None
    return _weighted(call, x, F.linear, weight, bias, shape=shape, channel_dim=channel_dim)


def _weighted(
    call: Call,
    x: Data,
    function: Callable[..., Tensor],
    weight: Tensor,
    bias: Tensor | None,
    *,
    shape: tuple[int, ...],
    channel_dim: int | None,
    scratch: int = 0,
    rounding: Callable[..., Tensor] | None = None,
    suits: Callable[..., bool] | None = None,
) -> Data:
    """Record ``function(x, weight, bias)``; a BatchNorm that follows scales ``channel_dim`` of the weight."""

    def made(weight: Tensor, bias: Tensor | None) -> Affine:
        constants = (weight,) if bias is None else (weight, bias)
        followed_by = None if channel_dim is None else lambda after: made(*_rescaled(weight, bias, after, channel_dim))
        return Affine(
            function=function, constants=constants, followed_by=followed_by, scratch=scratch, rounding=rounding,
            suits=suits,
        )  # fmt: skip

    operation = made(call.constant(weight), None if bias is None else call.constant(bias))
    return call.record(operation, x, shape=shape)


def _rescaled(weight: Tensor, bias: Tensor | None, after: ChannelMap, dim: int) -> tuple[Tensor, Tensor]:
    """Weight and bias of the layer followed by ``after``; ``dim`` is the weight's dimension of output channels."""
    shape = [1] * weight.dim()
    shape[dim] = -1
    shift = after.shift if bias is None else torch.addcmul(after.shift, bias, after.scale)
    return weight * after.scale.reshape(shape), shift


@rule("conv1d", "conv2d", "conv3d")
def _conv(
    call: Call,
    x: Data,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Data:
    kernel, spatial = weight.shape[2:], weight.dim() - 2
    out = _convolved_sizes(call, x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    run: Callable[..., Tensor] = partial(convolve, stride=stride, padding=padding, dilation=dilation, groups=groups)
    columns = x.shape[0] * math.prod([*kernel, *out]) * call.recorder.dtype.itemsize
    double, on_cpu = call.recorder.dtype == torch.float64, call.recorder.device.type == "cpu"
    pads = None if isinstance(padding, str) or spatial != 2 else per_dim(padding, 2)
    plain = pads is not None and groups == 1 and set(per_dim(dilation, spatial)) == {1}
    function = run
    rounding = suits = None
    if math.prod(kernel) == 1:
        columns = 0
    elif double and on_cpu:
        if pads is not None and groups == x.shape[0] == weight.shape[0] > 1:
            run = partial(conv2d_of_channels, stride=per_dim(stride, 2), padding=pads, dilation=per_dim(dilation, 2))
        elif plain and columns > KEPT_BYTES:
            assert pads is not None
            run = in_strips(columns // out[0], kernel=kernel[0], stride=per_dim(stride, 2), padding=pads)
        function = in_row_blocks(run, columns // groups)
    elif double and plain and x.shape[0] >= _FEW_INPUT_CHANNELS:
        assert pads is not None
        product = partial(conv2d_by_product, stride=per_dim(stride, 2), padding=pads)
        function = in_row_blocks(product, columns, block_bytes=_PATCH_BYTES)
        if winograd.suits(call.recorder.device, weight, per_dim(stride, 2)):
            function = partial(winograd.conv2d_winograd, padding=pads, function=function)
            rounding, suits = partial(winograd.rounding, padding=pads), winograd.without_single_zeros
        columns = 0  # at most ``_PATCH_BYTES`` for any number of rows
    shape, scratch = (weight.shape[0], *out), 0 if on_cpu else columns
    return _weighted(
        call, x, function, weight, bias, shape=shape, channel_dim=0, scratch=scratch, rounding=rounding, suits=suits
    )


def _convolved_sizes(
    call: Call, x: Data, weight: Tensor, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> list[int]:
    """The spatial sizes of the output; shapes that do not fit are refused."""
    kernel, spatial = weight.shape[2:], weight.dim() - 2
    call.check_spatial_dims(x, spatial)
    if x.shape[0] != weight.shape[1] * groups:
        call.refuse_shapes(f"its weight has shape {tuple(weight.shape)} with {groups} groups", x)
    reach = [d * (k - 1) for d, k in zip(per_dim(dilation, spatial), kernel, strict=True)]
    named = {"valid": [0] * spatial, "same": reach}
    pads = named[padding] if isinstance(padding, str) else [2 * p for p in per_dim(padding, spatial)]
    geometry = zip(x.shape[1:], pads, reach, per_dim(stride, spatial), strict=True)
    sizes = [(size + pad - far - 1) // step + 1 for size, pad, far, step in geometry]
    if min(sizes) < 1:
        call.refuse_shapes(f"its kernel of size {tuple(kernel)} is larger than the image", x)
    return sizes


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    call: Call,
    x: Data,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Data:
    spatial = weight.dim() - 2
    call.check_spatial_dims(x, spatial)
    if x.shape[0] != weight.shape[0]:
        call.refuse_shapes(f"its weight has shape {tuple(weight.shape)}", x)
    steps, pads, extras, gaps = (per_dim(o, spatial) for o in (stride, padding, output_padding, dilation))
    geometry = zip(x.shape[1:], steps, pads, extras, gaps, weight.shape[2:], strict=True)
    out = [(size - 1) * step - 2 * pad + gap * (k - 1) + more + 1 for size, step, pad, more, gap, k in geometry]
    transpose = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
    run = partial(transpose, stride=steps, padding=pads, output_padding=extras, groups=groups, dilation=gaps)
    shape, channel_dim = (weight.shape[1] * groups, *out), 1 if groups == 1 else None
    return _weighted(call, x, run, weight, bias, shape=shape, channel_dim=channel_dim)


@rule(F.batch_norm, when="with running statistics")
def _batch_norm(
    call: Call,
    x: Data,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Data:
    if training or running_mean is None or running_var is None:
        call.refuse(NO_STATISTICS)
    if len(running_var) != x.shape[0]:
        call.refuse_shapes(f"its statistics are those of {counted(len(running_var), 'channel')}", x)
    scale = (call.constant(running_var) + eps).rsqrt()
    if weight is not None:
        scale = scale * call.constant(weight)
    shift = -call.constant(running_mean) * scale
    if bias is not None:
        shift = shift + call.constant(bias)
    ones = (-1,) + (1,) * (len(x.shape) - 1)
    return call.affine(
        _scaled,
        x,
        shape=x.shape,
        constants=(scale.reshape(ones), shift.reshape(ones)),
        channel_map=ChannelMap(scale, shift),
        in_place=_scaled_in_place,
    )


def _scaled(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return torch.addcmul(shift, x, scale)


def _scaled_in_place(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return x.mul_(scale).add_(shift)


@rule(torch.batch_norm)
def _torch_batch_norm(
    call: Call, x: Data, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, *rest: Any
) -> Data:
    return _batch_norm(call, x, running_mean, running_var, weight, bias, training, *rest[:2])


# pooling, resizing and padding: torch's own function on each row


def _unchanged_rules(names: str, spatial: int) -> None:
    for name in names.split():
        function = getattr(F, name, None) or getattr(torch, name)

        @rule(name)
        def _run(call: Call, x: Data, *args: Any, _function: Any = function, **kwargs: Any) -> Data:
            call.check_spatial_dims(x, spatial)
            return call.affine(Fixed(_function, args, kwargs), x)


_unchanged_rules("avg_pool1d adaptive_avg_pool1d", 1)
_unchanged_rules("avg_pool2d adaptive_avg_pool2d pixel_shuffle pixel_unshuffle", 2)
_unchanged_rules("avg_pool3d adaptive_avg_pool3d", 3)


@rule("channel_shuffle")
def _channel_shuffle(call: Call, x: Data, groups: int) -> Data:
    return call.affine(Fixed(torch.channel_shuffle, (groups,)), x)


@rule(F.unfold)
def _unfold_windows(call: Call, x: Data, *args: Any, **kwargs: Any) -> Data:
    call.check_spatial_dims(x, 2)
    return call.affine(Fixed(F.unfold, args, kwargs), x)


@rule(F.fold)
def _overlap_windows(call: Call, x: Data, *args: Any, **kwargs: Any) -> Data:
    """``F.fold`` adds up windows where they overlap."""
    call.check_spatial_dims(x, 1)
    return call.affine(Fixed(F.fold, args, kwargs), x)


@rule("grid_sample", when="the grid is a constant")
def _grid_sample(call: Call, x: Data, grid: Tensor, *args: Any, **kwargs: Any) -> Data:
    if grid.shape[0] != 1:
        call.refuse_row_mixing()
    return call.affine(partial(_sampled, args=args, kwargs=kwargs), x, constants=(call.constant(grid),))


def _sampled(x: Tensor, grid: Tensor, *, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    return F.grid_sample(x, grid.expand(x.shape[0], *grid.shape[1:]), *args, **kwargs)


@rule("interpolate")
def _interpolate(call: Call, x: Data, *args: Any, **kwargs: Any) -> Data:
    if not 3 <= x.ndim <= 5:
        call.refuse_shapes("it needs 3, 4 or 5 dimensions with the batch", x)
    return call.affine(Fixed(F.interpolate, args, kwargs), x)


@rule("pad")
def _pad(call: Call, x: Data, pad: Any, mode: str = "constant", value: float | None = None) -> Data:
    widths = [int(width) for width in pad]
    if mode == "constant" and len(widths) == 2 * x.ndim and not any(widths[-2:]):
        widths = widths[:-2]  # no padding of the batch dimension, written out
    if len(widths) // 2 >= x.ndim:
        call.refuse_row_mixing()
    if not any(widths):
        return x
    fill = 0.0 if value is None else call.number(value)
    return call.affine(Fixed(F.pad, (widths, mode, fill if mode == "constant" else None)), x)


@rule(
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", view=True, any_axis=True
)
def _dropout(call: Call, x: Data, p: float = 0.5, training: bool = True, inplace: bool = False) -> Data:
    if training and p > 0:
        call.refuse("it is random here: pass training=self.training, so that it rests in eval mode")
    return x
