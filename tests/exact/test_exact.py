"""The exact engine against its slow twin, the corpus of known answers, and fine grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from scipy import ndimage
from torch import Tensor, nn

from cases import CASES, Case, marked, program_of, reference_of
from regionscope.errors import CheckFailed, InputError, SliceError
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.geometry import Box, Segment, Slice
from regionscope.network import Program, trace
from strategies import Problem, problems
from twins.known_answers import KnownAnswer, known_answers
from twins.reference import ReferenceDecision, ReferencePartition, reference_regions

CORPUS = list(known_answers())


def labels_of(outputs: Tensor) -> Tensor:
    """Predicted labels (v,) of outputs (v, c): a single logit by its sign, ties to the lowest index."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0).long()
    return (outputs == outputs.amax(1, keepdim=True)).to(torch.int8).argmax(1)


def assert_same_sizes(fast: Tensor, slow: np.ndarray) -> None:
    """The same multiset of sizes, up to rounding."""
    np.testing.assert_allclose(np.sort(fast.numpy()), np.sort(slow), rtol=1e-7, atol=1e-11 * float(slow.sum()))


def assert_sound(part: Partition) -> None:
    """The partition passes all its checks, or all but the last: lines that meet in a point may miss it by one rounding
    as they are stored. Integers tell that, and the check says so.
    """
    if not part.n_undecided:
        part.check()
        return
    with pytest.raises(CheckFailed, match=r"got \d+ walls or regions that it leaves open \(refuted"):
        part.check()


def is_finer_than_floats(part: Partition) -> bool:
    """Whether integers tell corners apart that rounding makes one to the reference: lines that meet in a point, but
    miss it as they are stored.
    """
    return part.dim < 3 and len(part.vertices.round(decimals=12).unique(dim=0)) < len(part.vertices)


def assert_equal_to_reference(
    program: Program, slice: Slice, slow: ReferencePartition, expected: ReferenceDecision
) -> tuple[Partition, DecisionRegions]:
    """Counts, sizes and labels of the fast engine are those of the slow one; the results prove themselves."""
    fast = linear_regions(program, slice)
    assert_sound(fast)
    if is_finer_than_floats(fast):
        decided = decision_regions(program, slice)
        assert fast.certify()
        assert decided.certify()
        return fast, decided
    assert dict(fast.by_layer) == slow.by_layer
    assert list(fast.by_layer) == list(slow.by_layer)
    assert fast.n_activation_regions == slow.n_activation_regions
    assert_same_sizes(fast.sizes, slow.sizes)
    if not bool(fast._compared[1].any()):
        assert fast.n_linear_regions == slow.n_linear_regions
    if program.folds:
        assert len(torch.unique(fast.patterns(), dim=0)) == fast.n_activation_regions
    assert len(fast.neighbours) == len(slow.neighbours)
    decided = decision_regions(program, slice)
    assert decided.count == expected.count
    assert_same_sizes(decided.sizes, np.bincount(expected.components, expected.sizes))
    first_cell = [int(np.flatnonzero(expected.components == i)[0]) for i in range(expected.count)]
    assert sorted(decided.labels.tolist()) == sorted(expected.labels[first_cell].tolist())
    assert_labels_are_those_of_the_network(program, decided)
    return fast, decided


def assert_labels_are_those_of_the_network(program: Program, decided: DecisionRegions) -> None:
    """The label of each cell is what the network says inside it, wherever the network is sure of it."""
    outputs = program(decided.partition.slice.embed(decided.partition.interior))
    top = outputs.sort(dim=1, descending=True).values
    margin = top[:, 0] - top[:, 1] if outputs.shape[1] > 1 else outputs[:, 0].abs()
    sure = margin > 1e-9 * float(outputs.abs().max())
    assert torch.equal(labels_of(outputs)[sure], decided.piece_labels[sure])


@pytest.mark.filterwarnings("ignore:Rounding leaves")  # of lines that meet in a point up to rounding
@pytest.mark.parametrize("case", [marked(case) for case in CASES], ids=str)
def test_nasty_cases(case: Case) -> None:
    fast, decided = assert_equal_to_reference(program_of(case), case.slice, *reference_of(case))
    if is_finer_than_floats(fast):  # of other networks than the cases are meant to be
        return
    found = (fast.n_activation_regions, fast.n_linear_regions, decided.count)
    known = (case.activation, case.linear, case.decision)
    assert found == tuple(f if k is None else k for f, k in zip(found, known, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nasty_cases_in_float32(case: Case) -> None:
    """A network with float32 weights has the same regions, whether it is read in float32 or in float64."""
    model = case.build().float()
    single = linear_regions(trace(model, case.slice.input_shape, dtype=torch.float32), case.slice)
    double = linear_regions(model, case.slice)
    assert single.by_layer == double.by_layer
    assert single.n_linear_regions == double.n_linear_regions


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems())
def test_random_networks(problem: Problem) -> None:
    try:
        slice = problem.slice()
    except SliceError:
        assume(False)
    program = trace(problem.build(), slice.input_shape)
    assert_equal_to_reference(program, slice, *reference_regions(program, slice))


def by_seed(answer: KnownAnswer) -> Any:
    """A case that is slow, or repeats another one with a further seed, is left out of the quick tests."""
    again = answer.name.endswith(("seed 2", "seed 3", "seed 5"))
    slow = again or answer.name in ("padded max pool first, triangle, seed 1", "CNN with max pool, triangle, seed 1")
    return pytest.param(answer, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("answer", [by_seed(answer) for answer in CORPUS], ids=lambda answer: answer.name)
def test_known_answers(answer: KnownAnswer) -> None:
    model, slice = answer.build(), answer.slice
    part = linear_regions(model, slice)
    part.check()
    assert dict(part.by_layer) == dict(answer.by_layer)
    assert part.n_activation_regions == answer.n_activation_regions
    assert part.n_linear_regions == answer.n_linear_regions
    assert decision_regions(model, slice).count == answer.n_decision_regions


class Ridges(nn.Module):
    """Rings and stripes with boundaries known to be wide apart: grids of moderate size resolve every region."""

    def __init__(self, seed: int, n_classes: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(
                nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, n_classes)
            )
            for layer in self.body:
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=1.6 / layer.in_features**0.5)
                    nn.init.normal_(layer.bias, std=0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return y - y.mean(dim=1, keepdim=True) if y.shape[1] > 1 else y


def grid_components(labels: np.ndarray) -> list[int]:
    """Cells of each connected component (by faces) of equal label on a grid, in descending order."""
    found: list[int] = []
    for label in np.unique(labels):
        numbered, _ = ndimage.label(labels == label)
        found += np.bincount(numbered.ravel())[1:].tolist()
    return sorted(found, reverse=True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_decision_regions_are_the_components_of_a_fine_grid(seed: int, n_classes: int) -> None:
    model, side = Ridges(seed, n_classes), 800
    slice = Box([0.0, 0.0], torch.eye(2), 3.0)
    decided = decision_regions(model, slice)
    ticks = (torch.arange(side, dtype=torch.float64) + 0.5) / side * 6 - 3
    coords = torch.cartesian_prod(ticks, ticks)
    labels = labels_of(trace(model, (2,))(slice.embed(coords))).reshape(side, side).numpy()
    shares = np.array(grid_components(labels)) * (6 / side) ** 2
    assume_resolved = 40 * (6 / side) ** 2
    large = np.sort(decided.sizes.numpy())[::-1]
    assert int((large > 2 * assume_resolved).sum()) <= int((shares > assume_resolved).sum())
    assert int((shares > 2 * assume_resolved).sum()) <= int((large > assume_resolved).sum())
    if large.min() > 100 * assume_resolved and shares.min() > assume_resolved:
        np.testing.assert_allclose(shares, large, rtol=0.05)


def test_outputs_that_are_not_one_number_for_each_class_have_no_decision() -> None:
    x, y = torch.rand(2, 1, 8, 8)
    with pytest.raises(InputError, match=r"outputs of shape \(3, 6, 6\) for an input"):
        decision_regions(nn.Conv2d(1, 3, 3), Segment(x, y))
