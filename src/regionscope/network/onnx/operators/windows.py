"""Windows that slide over an image: kernel, strides, dilations and padding of Conv and the pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F

from regionscope.network.onnx.table import MOST_ENTRIES, Node, must_fit


@dataclass(frozen=True)
class Window:
    """One number per dimension; ``pads`` are all begins, then all ends; ``automatic`` is ``SAME_*`` or empty."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    automatic: str = ""


def read_window(node: Node, kernel: Sequence[int] | None = None) -> Window:
    """The window that the attributes describe; ``kernel`` is the shape of the weight, if there is one."""
    sizes = tuple(int(n) for n in node.get("kernel_shape", kernel or ()))
    n = len(sizes)
    if not 1 <= n <= 3 or (kernel is not None and sizes != tuple(kernel)):
        node.error(f"its kernel has shape {sizes}; 1, 2 or 3 spatial dimensions are supported")
    strides = tuple(int(step) for step in node.get("strides", [1] * n))
    gaps = tuple(int(gap) for gap in node.get("dilations", [1] * n))
    pads = tuple(int(pad) for pad in node.get("pads", [0] * 2 * n))
    if len(strides) != n or len(gaps) != n or len(pads) != 2 * n or min((*sizes, *strides, *gaps)) < 1 or min(pads) < 0:
        node.error(f"kernel {sizes}, strides {strides}, dilations {gaps} and pads {pads} do not fit together")
    if max((*pads, *strides, *gaps)) > 2**20 or math.prod(1 + pad for pad in pads) > MOST_ENTRIES:
        node.error(f"its pads {pads} would fill the memory")
    automatic = str(node.get("auto_pad", "NOTSET"))
    if automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        node.error(f"auto_pad is {automatic!r}")
    same = automatic if automatic.startswith("SAME") else ""
    return Window(sizes, strides, gaps, (0,) * 2 * n if automatic == "VALID" else pads, same)


def on_images(x: Any, run: Callable[[Any, int], Any], *, lift: int, spatial: int) -> Any:
    """``run(images, count)`` on (v, channels, *image), or on (v, count, channels, *image) of a lifted graph.

    There the count of images in the file joins the channels: ``images`` is (v, count * channels, *image).
    """
    if x.ndim - lift != spatial + 2:
        raise ValueError(f"expected {spatial + 2} dimensions, got {x.ndim - lift}")
    if not lift:
        return run(x, 1)
    rows, count = x.shape[:2]
    images = run(x.reshape(rows, count * x.shape[2], *x.shape[3:]), count)
    return images.reshape(rows, count, images.shape[1] // count, *images.shape[2:])


def repeated(value: Any, count: int) -> Any:
    """A weight for each of ``count`` images, one after the other along dimension 0."""
    if value is None or count == 1:
        return value
    must_fit((count, *value.shape))
    return value.repeat(count, *[1] * (value.ndim - 1))


def pads_of(window: Window, image: Sequence[int]) -> tuple[int, ...]:
    """The padding for an image of this size: as given, or so that the result has ceil(size / stride) entries."""
    if not window.automatic:
        return window.pads
    begins, ends = [], []
    for size, k, step, gap in zip(image, window.kernel, window.strides, window.dilations, strict=True):
        total = max(0, (math.ceil(size / step) - 1) * step + gap * (k - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        begins.append(small if window.automatic == "SAME_UPPER" else large)
        ends.append(total - begins[-1])
    return (*begins, *ends)


def padded_size(x: Any, window: Window) -> list[int]:
    """Sizes of an image with its padding; refused if they would fill the memory."""
    n = len(window.kernel)
    pads = pads_of(window, x.shape[2:])
    sizes = [size + begin + end for size, begin, end in zip(x.shape[2:], pads[:n], pads[n:], strict=True)]
    must_fit((*x.shape[:2], *sizes))
    return sizes


def padded(x: Any, window: Window) -> tuple[Any, list[int]]:
    """``x``, and the padding that is left for torch: unequal sides are padded here with zeros."""
    n = len(window.kernel)
    pads = pads_of(window, x.shape[2:])
    begins, ends = list(pads[:n]), list(pads[n:])
    if begins == ends:
        return x, begins
    widths = [width for pair in reversed(list(zip(begins, ends, strict=True))) for width in pair]
    return F.pad(x, widths), [0] * n
