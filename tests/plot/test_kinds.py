"""A picture that is given another kind of result answers with one sentence that says where to get the right one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NET = mlp([2, 8, 2], seed=0)
PART = rs.linear_regions(NET, SQUARE)
DECISION = rs.decision_regions(NET, SQUARE)
AX = Figure().add_subplot()

NEED_PARTITION = [
    plot.linear_regions, plot.zero_lines, plot.function_graph, plot.surface,
    lambda p, ax: plot.layer_panels(p, axes=[ax]), lambda p, ax: plot.region_values(p, torch.zeros(3), ax=ax),
    lambda p, ax: plot.regions_figure(p), lambda p, ax: plot.neurons_figure(p),
    lambda p, ax: plot.layer_panels_figure(p),
]  # fmt: skip
NEED_DECISION = [
    plot.decision_regions, plot.decision_boundary, plot.decision_mosaic, lambda p, ax: plot.decision_figure(p),
]  # fmt: skip
NEED_COUNT = [plot.count_histogram, lambda p, ax: plot.count_figure(p)]


@pytest.mark.parametrize("draw", NEED_PARTITION)
def test_a_partition_is_needed(draw: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"Expected a Partition .*, got DecisionRegions\. .* \.partition of"):
        draw(DECISION, ax=AX)


@pytest.mark.parametrize("draw", NEED_DECISION)
def test_decision_regions_are_needed(draw: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"Expected a DecisionRegions .*, got Partition\. .*decision_regions\(model"):
        draw(PART, ax=AX)


@pytest.mark.parametrize("draw", NEED_COUNT)
def test_a_count_is_needed(draw: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"Expected a RegionCount .*, got int\. .*region_count\(model"):
        draw(3, ax=AX)


def test_a_label_map_is_needed() -> None:
    with pytest.raises(InputError, match=r"a LabelMap for plot\.label_map\(\), got int"):
        plot.label_map(3, ax=AX)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, 2], f"values to hold one number for each of {len(PART)} regions, got shape (2,)."),
        ("ab", "got values that cannot be read"),
        (3, "got shape ()"),
    ],
)
def test_values_that_do_not_fit(values: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        plot.region_values(PART, values, ax=AX)


def test_values_may_be_a_list() -> None:
    drawn = plot.region_values(PART, list(range(len(PART))), ax=AX)
    assert drawn.get_array().tolist() == list(range(len(PART)))


def test_several_axes_are_refused_with_advice() -> None:
    axes = Figure().subplots(1, 2)
    with pytest.raises(InputError, match=r"for ax=, got ndarray\. Pass one of its axes, such as ax=axes\.flat\[0\]\."):
        plot.linear_regions(PART, ax=axes)
    with pytest.raises(InputError, match=r"got Figure\. Pass one axes of plt\.subplots\(\)\."):
        plot.linear_regions(PART, ax=axes[0].figure)
    plot.linear_regions(PART, ax=axes[0])
