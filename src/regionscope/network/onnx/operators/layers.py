"""Layers with weights: Gemm, MatMul, Conv, ConvTranspose, BatchNormalization, LayerNormalization."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regionscope.network.onnx.operators.arithmetic import lifts, raised
from regionscope.network.onnx.operators.windows import Window, on_images, padded, padded_size, read_window, repeated
from regionscope.network.onnx.table import Node, Step, applied, must_fit, operator

_SPARSE_FROM = 2**16  # entries: a smaller matrix is stored densely
_SPARSE_BELOW = 0.02  # share of nonzero entries


class SparseLinear(nn.Module):
    """x -> x @ weight.T + bias, with a weight (out, in) of which only the nonzero entries are stored."""

    places: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.shape = tuple(weight.shape)
        self.register_buffer("places", weight.nonzero().T.contiguous())
        self.values = nn.Parameter(weight[self.places[0], self.places[1]])
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Any) -> Any:
        weight = torch.sparse_coo_tensor(
            self.places, self.values, self.shape, is_coalesced=True, check_invariants=False
        )
        rows = x if x.ndim == 2 else x.reshape(-1, self.shape[1])
        out = torch.sparse.mm(weight, rows.t()).t()
        out = out if x.ndim == 2 else out.reshape(*x.shape[:-1], self.shape[0])
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        return f"in_features={self.shape[1]}, out_features={self.shape[0]}, nonzero={len(self.values)}"


def linear(weight: Tensor, bias: Tensor | None) -> nn.Module:
    """A linear layer with these weights (out, in); a large one that is almost all zeros is stored sparsely."""
    few = weight.numel() >= _SPARSE_FROM and int(weight.count_nonzero()) <= _SPARSE_BELOW * weight.numel()
    if few and weight.is_floating_point():
        return SparseLinear(weight, bias)
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.contiguous())
    if bias is not None:
        layer.bias = nn.Parameter(bias.contiguous())
    return layer


@operator("MatMul")
def _matmul(node: Node) -> Step:
    left, right = node.constants[0], node.constants[1]
    if left is None and right is not None and right.ndim == 2:
        return Step(linear(right.T, None), (0,))
    if left is not None and right is None and left.ndim == 2 and node.lift:
        return applied(node, _times, takes=(1, 0))
    return applied(node, _lifted_product if node.lift else _product, **({"lifts": lifts(node)} if node.lift else {}))


def _lifted_product(a: Any, b: Any, *, lifts: list[int]) -> Any:
    """The product of a lifted graph: a vector of the file becomes a matrix with one row on the left, one column on the
    right.
    """
    row, column = (x.ndim - lift == 1 for x, lift in zip((a, b), lifts, strict=True))
    a, b = raised((a.unsqueeze(-2) if row else a, b.unsqueeze(-1) if column else b), lifts)
    product = _product(a, b)
    product = product.squeeze(-1) if column else product
    return product.squeeze(-1 if column else -2) if row else product


def _product(a: Any, b: Any) -> Any:
    if a.ndim > 1 and b.ndim > 1:
        must_fit((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
    return torch.matmul(a, b)


def _times(x: Any, weight: Any) -> Any:
    """weight @ x, for rows of vectors (v, n) or of matrices (v, n, m)."""
    return F.linear(x, weight) if x.ndim == 2 else torch.matmul(weight, x)


@operator("Gemm")
def _gemm(node: Node) -> Step:
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    weight = node.constants[1]
    plain = node.constants[0] is None and weight is not None and weight.ndim == 2
    if plain and not node.get("transA", 0) and (not node.has(2) or node.is_constant(2)):
        assert weight is not None
        matrix = (weight if node.get("transB", 0) else weight.T) * alpha
        bias = node.constant(2, "bias") * beta if node.has(2) else None
        if bias is None or _is_row(bias, matrix.shape[0]):
            vector = None if bias is None else bias.reshape(-1).expand(matrix.shape[0])
            return Step(linear(matrix, vector), (0,))
    flipped = (bool(node.get("transA", 0)), bool(node.get("transB", 0)))
    return applied(node, _general_gemm, alpha=alpha, beta=beta, flipped=flipped, lifts=lifts(node))


def _is_row(bias: Tensor, n: int) -> bool:
    """Whether a bias adds the same n numbers to each row: one of shape (m, 1) adds one number to each."""
    return bias.numel() == 1 or tuple(bias.shape) in ((n,), (1, n))


def _general_gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float, beta: float, flipped: tuple[bool, bool], lifts: list[int]
) -> Any:
    a = a.transpose(-1, -2) if flipped[0] else a
    b = b.transpose(-1, -2) if flipped[1] else b
    product = _product(a, b) * alpha
    if c is None:
        return product
    product, c = raised((product, c), (max(lifts[:2]), lifts[2]))
    must_fit(np.broadcast_shapes(product.shape, c.shape))
    return product + c * beta


@operator("Conv")
def _conv(node: Node) -> Step:
    window = read_window(node, kernel=node.constant(1, "weight").shape[2:])
    return applied(node, _convolved, lift=node.lift, window=window, groups=int(node.get("group", 1)))


def _convolved(x: Any, weight: Any, bias: Any = None, *, lift: int, window: Window, groups: int) -> Any:
    run = partial(_convolved_images, weight=weight, bias=bias, window=window, groups=groups)
    return on_images(x, run, lift=lift, spatial=len(window.kernel))


def _convolved_images(x: Any, count: int, *, weight: Any, bias: Any, window: Window, groups: int) -> Any:
    weight, bias, groups = repeated(weight, count), repeated(bias, count), groups * count
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(window.kernel) - 1]
    must_fit((weight.shape[0], *padded_size(x, window)))
    x, padding = padded(x, window)
    return convolve(x, weight, bias, list(window.strides), padding, list(window.dilations), groups)


@operator("ConvTranspose")
def _conv_transpose(node: Node) -> Step:
    window = read_window(node, kernel=node.constant(1, "weight").shape[2:])
    if window.automatic or node.get("output_shape") is not None:
        node.error("auto_pad and output_shape are not supported; give pads")
    extra = tuple(int(n) for n in node.get("output_padding", [0] * len(window.kernel)))
    options: dict[str, Any] = {"window": window, "groups": int(node.get("group", 1)), "extra": extra}
    return applied(node, _transposed, lift=node.lift, **options)


def _transposed(x: Any, weight: Any, bias: Any = None, *, lift: int, window: Window, **options: Any) -> Any:
    run = partial(_transposed_images, weight=weight, bias=bias, window=window, **options)
    return on_images(x, run, lift=lift, spatial=len(window.kernel))


def _transposed_images(
    x: Any, count: int, *, weight: Any, bias: Any, window: Window, groups: int, extra: tuple[int, ...]
) -> Any:
    weight, bias, groups = repeated(weight, count), repeated(bias, count), groups * count
    spatial = len(window.kernel)
    transpose = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
    begins, ends = window.pads[:spatial], window.pads[spatial:]
    added = [begin - end + add for begin, end, add in zip(begins, ends, extra, strict=True)]
    strides, gaps = list(window.strides), list(window.dilations)
    sizes = zip(x.shape[2:], strides, gaps, window.kernel, extra, strict=True)
    must_fit((weight.shape[1] * groups, *(n * step + gap * k + add for n, step, gap, k, add in sizes)))
    if all(0 <= add < max(step, gap) for add, step, gap in zip(added, strides, gaps, strict=True)):
        return transpose(x, weight, bias, strides, list(begins), added, groups, gaps)
    whole = transpose(x, weight, None, strides, 0, 0, groups, gaps)
    cut = [
        width
        for begin, end, add in reversed(list(zip(begins, ends, extra, strict=True)))
        for width in (-begin, add - end)
    ]
    out = F.pad(whole, cut)
    return out if bias is None else out + bias.reshape(-1, *[1] * spatial)  # the padding of an output has it too


@operator("BatchNormalization")
def _batch_norm(node: Node) -> Step:
    if node.get("training_mode", 0) or (node.opset < 14 and node.n_outputs > 1):
        node.error("it normalises by the batch; export the network in eval mode")
    for i, name in enumerate(("scale", "bias", "mean", "variance"), 1):
        node.constant(i, name)
    return applied(node, _normalised, takes=range(5), lift=node.lift, epsilon=float(node.get("epsilon", 1e-5)))


def _normalised(x: Any, *weights: Any, lift: int, epsilon: float) -> Any:
    """Dimension 1 of the file has the channels; a value with one dimension has a single channel."""
    if x.ndim - lift == 1:
        return _normalised(x[..., None], *weights, lift=lift, epsilon=epsilon)[..., 0]
    run = partial(_normalised_images, weights=weights, epsilon=epsilon)
    return on_images(x, run, lift=lift, spatial=x.ndim - lift - 2)


def _normalised_images(x: Any, count: int, *, weights: tuple[Any, ...], epsilon: float) -> Any:
    scale, bias, mean, variance = (repeated(weight, count) for weight in weights)
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)


@operator("LayerNormalization")
def _layer_norm(node: Node) -> Step:
    (axis,) = node.lifted([int(node.get("axis", -1))])
    if node.n_read > 1:
        node.error("only its first output is supported")
    for i, name in ((1, "scale"), (2, "bias")):
        if node.has(i):
            node.constant(i, name)
    return applied(node, _over_last, axis=axis, epsilon=float(node.get("epsilon", 1e-5)))


def _over_last(x: Any, scale: Any, bias: Any = None, *, axis: int, epsilon: float) -> Any:
    shape = list(x.shape[axis:])
    if all(part is None or list(part.shape) == shape for part in (scale, bias)):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    normal = F.layer_norm(x, shape, None, None, epsilon) * scale
    return normal if bias is None else normal + bias
