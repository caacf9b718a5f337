"""The slow twin: closed forms on the nasty cases, and what must hold of any partition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from torch import Tensor

from cases import CASES, Case, program_of, reference_of
from regionscope.errors import SliceError
from regionscope.geometry import Box, Slice
from regionscope.network import Program, trace
from strategies import Problem, problems
from twins.reference import (
    ReferenceDecision,
    ReferencePartition,
    reference_partition,
    reference_regions,
)
from twins.reference_space import measure, positive_part, root_cell


def patterns(program: Program, slice: Slice, coords: np.ndarray) -> Tensor:
    """Activation patterns (r, units) at the given coordinates."""
    values = program.begin(slice.embed(torch.from_numpy(coords)))
    found = [torch.zeros(len(coords), 0, dtype=torch.int16)]
    for fold in program.folds:
        found.append(fold.pattern(values).to(torch.int16))
        values = fold.advance(values)
    return torch.cat(found, 1)


def count_distinct(rows: Tensor) -> int:
    """Number of different rows; rows without columns are all the same."""
    return len(torch.unique(rows, dim=0)) if rows.shape[1] else 1


def check_invariants(
    program: Program, slice: Slice, partition: ReferencePartition, decision: ReferenceDecision
) -> None:
    """Sizes add up, regions have distinct patterns, labels are those of the network, layers only refine."""
    assert partition.sizes.sum() == pytest.approx(slice.size, rel=1e-9)
    assert decision.sizes.sum() == pytest.approx(slice.size, rel=1e-9)
    assert partition.sizes.min() > 0
    assert count_distinct(patterns(program, slice, partition.interior)) == partition.n_activation_regions
    counts = [1, *partition.by_layer.values()]
    assert counts == sorted(counts)
    assert counts[-1] == partition.n_activation_regions >= partition.n_linear_regions
    assert list(partition.by_layer) == [fold.name for fold in program.folds]
    outputs = program(slice.embed(torch.from_numpy(decision.interior)))
    zero = 1e-12 * float(outputs.abs().max())
    chosen = outputs[torch.arange(len(outputs)), torch.from_numpy(decision.labels) if outputs.shape[1] > 1 else 0]
    if outputs.shape[1] == 1:
        assert bool(((chosen >= -zero) | torch.from_numpy(decision.labels == 0)).all())
        assert bool(((chosen <= zero) | torch.from_numpy(decision.labels == 1)).all())
    else:
        assert bool((chosen >= outputs.amax(1) - zero).all())


KNOWN = [case for case in CASES if case.linear is not None]  # the others are compared with the fast engine


@pytest.mark.slow
@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_nasty_cases(case: Case) -> None:
    program = program_of(case)
    partition, decision = reference_of(case)
    check_invariants(program, case.slice, partition, decision)
    found = (partition.n_activation_regions, partition.n_linear_regions, decision.count)
    known = (case.activation, case.linear, case.decision)
    assert found == tuple(f if k is None else k for f, k in zip(found, known, strict=True))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(problems())
def test_random_networks(problem: Problem) -> None:
    try:
        slice = problem.slice()
    except SliceError:
        assume(False)
    program = trace(problem.build(), slice.input_shape)
    check_invariants(program, slice, *reference_regions(program, slice))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_cutting_a_cube_by_its_diagonal(k: int) -> None:
    """sum x = 0 halves [-1, 1]^k; sum x >= k - 1 cuts off a simplex of volume 1 / k! at the corner (1, ..., 1)."""
    box = Box([0.0] * k, torch.eye(k), 1.0)
    normals, offsets = box.halfspaces
    cube = root_cell(box.corners.numpy(), normals.numpy(), offsets.numpy())
    total = cube.vertices.sum(axis=1)
    half = positive_part(cube, total, 99, 1e-12)
    corner = positive_part(cube, total - (k - 1), 99, 1e-12)
    assert half is not None
    assert measure(half) == pytest.approx(2.0**k / 2)
    assert corner is not None
    assert measure(corner) == pytest.approx(1 / math.factorial(k))
    assert len(corner.vertices) == k + 1
    assert positive_part(cube, total - k, 99, 1e-12) is None
    assert positive_part(cube, total + k, 99, 1e-12) is cube


def test_neighbours_share_more_than_a_point() -> None:
    case = next(case for case in CASES if case.name == "two classes, regions touch in a point")
    partition = reference_partition(trace(case.build(), (2,)), case.slice)
    assert len(partition.neighbours) == 4  # a ring of quadrants; opposite ones meet in the origin only
