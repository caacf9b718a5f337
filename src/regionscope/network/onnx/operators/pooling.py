"""MaxPool, AveragePool, the global pools and Resize."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from regionscope.network.onnx.operators.windows import Window, on_images, padded_size, pads_of, read_window
from regionscope.network.onnx.table import MOST_ENTRIES, Node, Step, applied, operator


@operator("MaxPool")
def _max_pool(node: Node) -> Step:
    if node.n_read > 1:
        node.error("the indices of a maximum are not supported")
    window = read_window(node)
    return _pool(node, _largest, window, ceil=bool(node.get("ceil_mode", 0)))


def _pool(node: Node, function: Callable[..., Any], window: Window, **options: Any) -> Step:
    run = partial(function, window=window, **options)
    return applied(node, on_images, run=run, lift=node.lift, spatial=len(window.kernel))


def _largest(x: Any, count: int, *, window: Window, ceil: bool) -> Any:
    n = len(window.kernel)
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    padded_size(x, window)
    pads = pads_of(window, x.shape[2:])
    begins, ends = pads[:n], pads[n:]
    fits = all(2 * pad <= size for pad, size in zip(begins, window.kernel, strict=True))
    if begins != ends or not fits:
        # A window over the border holds the entry at the border, so repeating that entry changes no maximum.
        if max(window.dilations) > 1 or max(pads) >= min(window.kernel):
            raise ValueError(f"padding {pads} with kernel {window.kernel} is not supported")
        widths = [width for pair in reversed(list(zip(begins, ends, strict=True))) for width in pair]
        starts = [
            -(-(size + begin) // step) for size, begin, step in zip(x.shape[2:], begins, window.strides, strict=True)
        ]
        largest = pool(F.pad(x, widths, "replicate"), window.kernel, window.strides, 0, 1, ceil)
        inside: Any = (..., *(slice(count) for count in starts))  # a window that starts behind the image does not count
        return largest[inside]
    return pool(x, window.kernel, window.strides, begins, window.dilations, ceil)


@operator("AveragePool")
def _average_pool(node: Node) -> Step:
    window = read_window(node)
    if any(gap != 1 for gap in window.dilations):
        node.error("dilations are not supported")
    inside = bool(node.get("count_include_pad", 0))
    return _pool(node, _average, window, ceil=bool(node.get("ceil_mode", 0)), inside=inside)


def _average(x: Any, count: int, *, window: Window, ceil: bool, inside: bool) -> Any:
    n = len(window.kernel)
    pool: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    padded_size(x, window)
    pads = pads_of(window, x.shape[2:])
    begins, ends = pads[:n], pads[n:]
    if begins == ends and all(2 * pad <= size for pad, size in zip(begins, window.kernel, strict=True)):
        return pool(x, window.kernel, window.strides, begins, ceil, inside)
    if ceil:
        raise ValueError("ceil_mode with unequal padding is not supported")
    widths = [width for pair in reversed(list(zip(begins, ends, strict=True))) for width in pair]
    mean = pool(F.pad(x, widths), window.kernel, window.strides)
    if inside:
        return mean
    ones = F.pad(x.new_ones((1, 1, *x.shape[2:])), widths)
    return mean / pool(ones, window.kernel, window.strides)


def _global_pool(kind: str, function: Callable[..., Any]) -> None:
    @operator(kind)
    def _read(node: Node) -> Step:
        return applied(node, _over_image, reduce=function, lift=node.lift)


def _over_image(x: Any, *, reduce: Callable[..., Any], lift: int) -> Any:
    image = tuple(range(2 + lift, x.ndim))
    return reduce(x, image, keepdim=True) if image else x  # torch takes no dimensions for all of them


_global_pool("GlobalAveragePool", torch.mean)
_global_pool("GlobalMaxPool", torch.amax)


@operator("Resize", "Upsample")
def _resize(node: Node) -> Step:
    """Nearest neighbour, by whole factors: the forms that exporters write for upsampling."""
    if str(node.get("mode", "nearest")) != "nearest":
        node.error(f"its mode is {node.get('mode')!r}; nearest is supported")
    scales_at = 1 if node.kind == "Upsample" or node.opset < 11 else 2
    factors: list[float] | None = node.get("scales")
    if factors is None and node.has(scales_at):
        factors = [float(scale) for scale in node.constant(scales_at, "scales").tolist()] or None
    sizes = node.numbers(3, "sizes") if node.has(3) else None
    if node.get("axes") is not None or node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        node.error("axes and keep_aspect_ratio_policy are not supported")
    if factors is not None and any(scale < 1 or scale != int(scale) for scale in factors):
        node.error(f"its scales {factors} are not whole numbers")
    if factors is None and sizes is None:
        node.error("it has neither scales nor sizes")
    if math.prod(sizes or factors or ()) > MOST_ENTRIES:
        node.error("it would fill the memory")
    _check_sampling(node)
    return applied(node, _repeated, takes=(0,), factors=factors, sizes=sizes, lift=node.lift, literal=node.literal)


def _check_sampling(node: Node) -> None:
    """For whole factors these choices all repeat each entry; the others do not."""
    default = "asymmetric" if node.opset < 11 else "half_pixel"
    transform = str(node.get("coordinate_transformation_mode", default))
    rounding = str(node.get("nearest_mode", "floor" if node.opset < 11 else "round_prefer_floor"))
    repeats = {
        "asymmetric": {"floor"},
        "half_pixel": {"round_prefer_floor", "round_prefer_ceil"},
        "pytorch_half_pixel": {"round_prefer_floor", "round_prefer_ceil"},
    }
    if rounding not in repeats.get(transform, set()):
        node.error(f"coordinate_transformation_mode {transform!r} with nearest_mode {rounding!r} is not supported")


def _repeated(x: Any, *, factors: list[float] | None, sizes: list[int] | None, lift: int, literal: bool) -> Any:
    whole = [int(scale) for scale in factors or ()]
    if sizes is not None:
        now = list(x.shape[lift:])
        if not lift and not literal and sizes[:1] == [1]:
            now[0] = 1  # a batch of 1 in the file is any number of rows
        if len(sizes) != len(now) or any(new % old for new, old in zip(sizes, now, strict=True)):
            raise ValueError(f"sizes {sizes} are not whole multiples of {now}")
        whole = [new // old for new, old in zip(sizes, now, strict=True)]
    if len(whole) != x.ndim - lift or whole[:2] != [1, 1]:
        raise ValueError(f"scales {whole} must be 1 for the batch and the channels")
    if math.prod(whole) * math.prod(x.shape[1:]) > MOST_ENTRIES:
        raise ValueError("the result would fill the memory")
    run = partial(_enlarged, factors=[float(scale) for scale in whole[2:]])
    return on_images(x, run, lift=lift, spatial=len(whole) - 2)


def _enlarged(x: Any, count: int, *, factors: list[float]) -> Any:
    return F.interpolate(x, scale_factor=factors, mode="nearest")
