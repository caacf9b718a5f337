"""Local complexity: over a training, and layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from regionscope.checks import check_instance, one_of
from regionscope.complexity.history import ComplexityHistory
from regionscope.complexity.local_complexity import LocalComplexity
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope.plot.ticks import whole_ticks
from regionscope.types import Array, Estimate

_MARKER = {"train": "s", "test": "D"}  # of an accuracy that is known at a single step
BAND = 0.25  # of the standard deviation, as in the figures of Humayun et al. 2023
_APART, _MOST_TICKS = 0.09, 7  # on a logarithmic axis of steps: room between two ticks as a share of it; ticks
StepScale = Literal["auto", "linear", "log"]


@dataclass(frozen=True)
class ComplexityAxes:
    """The artists of ``complexity_history``: accuracy on the left axis, LC on the right one."""

    accuracy: Axes
    complexity: Axes
    lines: dict[str, Line2D]


def complexity_history(
    history: ComplexityHistory,
    *,
    ax: Axes | None = None,
    band: float = BAND,
    scale: StepScale = "auto",
    x_label: str = "step",
) -> ComplexityAxes:
    """Accuracy (left axis) and mean LC at each set of points (right axis) over steps.

    The band around each LC curve is ± ``band`` standard deviations over the points. A curve connects the steps at which
    its value is known; a single one is a marker, with an error bar in place of the band. scale: of the steps, "linear"
    or "log". "auto" is "log" if the steps span a factor of ten and are spaced geometrically, which means that the
    ratios of neighbouring steps vary less than their differences. On a logarithmic scale, step 0 is at the left end:
    the scale is linear up to the first step after it. x_label: what is counted, such as "epoch".
    """
    one_of("scale", scale, get_args(StepScale))
    advice = "Measure with a ComplexityWatch and pass watch.history"
    check_instance("plot.complexity_history()", history, ComplexityHistory, advice=advice)
    if not history.rows:
        raise InputError("Expected a history with at least one step, got an empty one. Measure a step first.")
    ax = style.axes_or_current(ax)
    steps = np.array(history.steps)
    right = ax.twinx()
    lines = _accuracies(history, steps, ax)
    for name in history.names:
        mean, std = np.array(history.means(name)), np.array(history.stds(name))
        lines[name] = _level(name, steps, mean, band * std, right)
    _step_axis(ax, steps, scale)
    ax.set(xlabel=x_label, ylabel="accuracy", ylim=(0.0, 1.02))
    right.set_ylabel("local complexity")
    if len(lines) == len(history.names):  # no accuracy is known: LC alone, on the left
        ax.yaxis.set_visible(False)
        right.yaxis.tick_left()
        right.yaxis.set_label_position("left")
    right.set_ylim(bottom=0.0)
    # Below the axes: two scales leave no corner that is free in every training.
    patch = Patch(color=style.GREY, alpha=2 * style.BAND_ALPHA, label=f"LC ± {band:g} standard deviations over points")
    ax.legend(
        handles=[*lines.values(), *([patch] if band else [])],
        fontsize="x-small",
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=4 if len(lines) < 4 else 3,
    )
    return ComplexityAxes(ax, right, lines)


def _accuracies(history: ComplexityHistory, steps: Array, ax: Axes) -> dict[str, Line2D]:
    """A curve for each accuracy that is known at some step; a marker if it is known at one."""
    lines: dict[str, Line2D] = {}
    for name, (colour, dashes) in style.ACCURACY.items():
        values = [getattr(row, f"{name}_accuracy") for row in history.rows]
        known = np.array([value is not None for value in values])
        if known.any():
            label, marker = f"{name} accuracy", _MARKER[name] if known.sum() == 1 else ""
            heights = [value for value in values if value is not None]
            (lines[label],) = ax.plot(
                steps[known], heights, color=colour, linestyle=dashes, linewidth=style.line(1.0), marker=marker,
                markersize=5, clip_on=not marker, label=label,
            )  # fmt: skip
    return lines


def complexity_figure(
    history: ComplexityHistory,
    *,
    title: str = "",
    band: float = BAND,
    scale: StepScale = "auto",
    x_label: str = "step",
) -> Figure:
    """A figure with one panel of ``complexity_history``, which says what the arguments are."""
    figure, (ax,) = style.figure(1, 1, width=1.7 * style.PANEL_INCHES, height=style.PANEL_INCHES)
    complexity_history(history, ax=ax, band=band, scale=scale, x_label=x_label)
    ax.set_title(title)
    return figure


def complexity_layers(complexities: Mapping[str, LocalComplexity], *, ax: Axes | None = None) -> None:
    """Mean LC of each layer as bars, one colour for each set of points, with standard errors."""
    if not isinstance(complexities, Mapping) or not complexities:
        got = "an empty one" if isinstance(complexities, Mapping) else type(complexities).__name__
        raise InputError(
            f"Expected a mapping from names to results of local_complexity, got {got}. "
            'Write {"train": local_complexity(model, inputs)}.'
        )
    ax = style.axes_or_current(ax)
    layers = list(next(iter(complexities.values())).by_layer)
    places = np.arange(len(layers))
    width = 0.8 / len(complexities)
    for i, (name, complexity) in enumerate(complexities.items()):
        means = [Estimate.of(complexity.by_layer[layer]) for layer in layers]
        ax.bar(
            places + (i + 0.5) * width - 0.4,
            [mean.value for mean in means],
            width,
            yerr=[mean.stderr for mean in means],
            color=style.POINT_SETS.get(name, style.SKY),
            alpha=0.6,
            error_kw={"linewidth": 1.0, "capsize": 3, "ecolor": style.BLACK},
            label=name,
        )
    ax.set_xticks(places, layers, rotation=45 if len(layers) > 6 else 0, fontsize="small")
    ax.set(xlabel="layer", ylabel="local complexity ± standard error")
    if len(complexities) > 1:
        ax.legend(fontsize="small", loc="best")


def layers_figure(complexities: Mapping[str, LocalComplexity]) -> Figure:
    """A figure with one panel of ``complexity_layers``."""
    figure, (ax,) = style.figure(1, 1, width=1.7 * style.PANEL_INCHES, height=style.PANEL_INCHES)
    complexity_layers(complexities, ax=ax)
    return figure


def _level(name: str, steps: Array, mean: Array, half: Array, ax: Axes) -> Line2D:
    """The curve of one set of points with its band, or a marker with an error bar at a single step."""
    colour, alone = style.POINT_SETS.get(name, style.BLACK), len(steps) == 1
    if not alone:
        ax.fill_between(steps, mean - half, mean + half, color=colour, alpha=style.BAND_ALPHA, linewidth=0)
    elif half.any():
        ax.errorbar(steps, mean, half, fmt="none", ecolor=colour, alpha=0.5, capsize=3)
    marker = "o" if alone else ""
    (line,) = ax.plot(
        steps,
        mean,
        color=colour,
        linewidth=style.line(style.LINE_WIDTH),
        marker=marker,
        markersize=5,
        label=f"LC {name}",
    )
    return line


def _step_axis(ax: Axes, steps: Array, scale: StepScale) -> None:
    """The scale of the steps and its ticks; a logarithmic one ends with a tick at the last step."""
    later = steps[steps > 0]
    if len(steps) == 1:
        ax.set_xticks(steps)
    elif scale == "linear" or not len(later) or (scale == "auto" and not _geometric(steps)):
        whole_ticks(ax.xaxis, steps.tolist())
    else:
        first, last = float(later[0]), float(later[-1])
        if len(later) == len(steps):
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=first, linscale=0.3)
            ax.set_xlim(left=0)
        powers = 10.0 ** np.arange(np.floor(np.log10(first)), np.log10(last) + 1)
        marks = np.outer(powers, (1, 2, 5) if last < 100 * first else (1,)).reshape(-1)
        marks = marks[(marks >= first) & (marks * (last / first) ** _APART < last)]
        marks = marks[:: -(-len(marks) // _MOST_TICKS) or 1]
        ax.set_xticks([*steps[steps == 0], *marks, last])
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))


def _geometric(steps: Array) -> bool:
    """Whether the steps span a factor of ten, and the ratios of neighbours vary less than their differences."""
    later = steps[steps > 0]
    ratios, gaps = np.diff(np.log(later)), np.diff(steps)
    if later[-1] < 10 * later[0]:
        return False
    return bool(ratios.std() / ratios.mean() < gaps.std() / gaps.mean())
