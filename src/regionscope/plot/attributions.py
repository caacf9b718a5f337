"""Attributions of one input: a signed heat map for an image, bars for a vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from regionscope.checks import check_class_names, check_instance, is_integer
from regionscope.errors import InputError
from regionscope.exact import Attributions
from regionscope.plot import style
from regionscope.plot.marks import as_pictures, pixels

_MOST = 20  # bars; those of all other entries are one more
_ROW = 0.24  # inches of a bar
_SIGNED = "RdBu_r"  # white at zero
_ADVICE = "Compute it with regionscope.integrated_gradients(model, inputs)"


def attributions(
    result: Attributions,
    index: int = 0,
    *,
    ax: Axes | None = None,
    image_shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> AxesImage | BarContainer:
    """Draw the attributions of the input with this index: images as a heat map that is white at zero, vectors as bars.

    image_shape: (height, width), (channels, height, width) or (height, width, channels), which makes a flat input an
    image. The attributions of the channels of a pixel are added. names: name of each entry of a vector; "input 3" by
    default. Bars are sorted by size, and those after the 20 largest are added up, so that all bars have the same sum as
    the attributions. class_names: name of each output, in order, for the title; "output 3" by default.
    """
    values = _row(result, index, "attributions")
    ax = style.axes_or_current(ax)
    if values.ndim == 1 and image_shape is None:
        return _bars(result, index, values, names, class_names, ax)
    if names is not None:
        raise InputError("Expected names for a vector only, got them with an image. Leave out names.")
    picture = pixels(values[None], image_shape)[0]
    heat = picture.sum(2) if picture.ndim == 3 else picture
    largest = max(float(np.abs(heat).max()), 1e-300)
    drawn = ax.imshow(heat, cmap=_SIGNED, vmin=-largest, vmax=largest, interpolation="nearest")
    ax.set_title(_target(result, index, class_names))
    style.map_axes([ax], ticks=False)
    return drawn


def attribution_figure(
    result: Attributions,
    index: int = 0,
    *,
    image_shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> Figure:
    """A figure of the attributions of one input, with the input beside them if it is an image.

    index, image_shape, names, class_names: as in ``attributions``. Attributions that were pickled no longer know their
    inputs, and are drawn alone.
    """
    values = _row(result, index, "attribution_figure")
    if values.ndim == 1 and image_shape is None:
        height = 1.1 + _ROW * min(len(values), _MOST + 1)
        figure, (ax,) = style.figure(1, 1, width=1.3 * style.PANEL_INCHES, height=height)
        attributions(result, index, ax=ax, names=names, class_names=class_names)
        return figure
    n_panels = 1 if result.paths is None else 2
    figure, panels = style.figure(1, n_panels, width=3.6 * n_panels, height=3.4)
    if result.paths is not None:
        panels[0].imshow(as_pictures(result.paths.inputs[index][None], image_shape)[0], cmap="gray")
        panels[0].set_title("input")
        style.map_axes(panels[:1], ticks=False)
    drawn = attributions(result, index, ax=panels[-1], image_shape=image_shape, names=names, class_names=class_names)
    assert isinstance(drawn, AxesImage)
    figure.colorbar(drawn, ax=panels[-1], label=_sum(values), shrink=0.8)
    return figure


def _row(result: Attributions, index: int, who: str) -> Tensor:
    n = len(check_instance(f"plot.{who}()", result, Attributions, advice=_ADVICE).attributions)
    if not is_integer(index, least=0) or index >= n:
        raise InputError(f"Expected an index from 0 to {n - 1}, got {index!r}. Pass the index of an input.")
    return result.attributions[index].detach().cpu()


def _bars(
    result: Attributions,
    index: int,
    values: Tensor,
    names: Sequence[str] | None,
    class_names: Sequence[str] | None,
    ax: Axes,
) -> BarContainer:
    """One bar for each entry, the largest on top, with its name and the value of the input."""
    d = len(values)
    if names is not None and len(names) != d:
        raise InputError(f"Expected {d} names, got {len(names)}. Pass one name for each entry of an input.")
    order = values.abs().argsort(descending=True, stable=True)
    heights = values[order[:_MOST]].tolist()
    labels = [f"input {i}" if names is None else str(names[i]) for i in order[:_MOST].tolist()]
    if result.paths is not None:
        entries = result.paths.inputs[index].cpu()[order[:_MOST]].tolist()
        labels = [f"{name} = {value:.3g}" for name, value in zip(labels, entries, strict=True)]
    if d > _MOST:
        heights.append(float(values[order[_MOST:]].sum()))
        labels.append(f"{d - _MOST:,} others")
    drawn = ax.barh(
        range(len(heights)), heights, height=0.75, color=[style.VERMILLION if v > 0 else style.BLUE for v in heights]
    )
    ax.axvline(0.0, color=style.BLACK, linewidth=0.8)
    ax.set_yticks(range(len(labels)), labels)
    ax.set(xlabel=_sum(values), ylim=(len(labels) - 0.4, -0.6))
    ax.set_title(_target(result, index, class_names))
    style.plain_axes([ax])
    return drawn


def _sum(values: Tensor) -> str:
    return f"attribution, sum {float(values.sum()):+.3g}".replace("-", "\N{MINUS SIGN}")


def _target(result: Attributions, index: int, class_names: Sequence[str] | None) -> str:
    """What is attributed, in words."""
    if result.paths is None:
        return "attributions"
    weights = result.paths.weights[index].tolist()
    plain = [f"output {i}" for i in range(len(weights))]
    outputs = plain if class_names is None else check_class_names(class_names, len(weights))
    plus, minus = ([i for i, weight in enumerate(weights) if weight == sign] for sign in (1.0, -1.0))
    if len(plus) != 1 or len(minus) > 1 or any(weight not in (0.0, 1.0, -1.0) for weight in weights):
        return "weighted outputs"
    return outputs[plus[0]] + "".join(f" minus {outputs[i]}" for i in minus)
