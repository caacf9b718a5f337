"""The program computes what the module computes, for every architecture, in one go and fold by fold."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from network.architectures import ARCHITECTURES, Architecture, ResNet, freshly_built, traced
from regionscope.exact import linear_regions
from regionscope.geometry import Segment
from regionscope.network import Program, patterns, trace, with_decision
from regionscope.network.program import Values

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)


def inputs(architecture: Architecture, rows: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, *architecture.shape), dtype=torch.float64, generator=generator)


def in_double(module: nn.Module, x: Tensor) -> Tensor:
    """The module's own forward pass, in float64 and eval mode; it is given a copy of ``x`` to write in."""
    with torch.no_grad():
        return module.double().eval()(x.clone()).flatten(1)


def assert_close(got: Tensor, expected: Tensor) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 1e-12 * expected.abs().max().clamp(min=1e-3)


def step_by_step(program: Program, x: Tensor, *, consume: bool) -> Tensor:
    values = program.begin(x)
    for fold in program.folds:
        fold.compared(values)
        values = fold.advance(values, consume=consume)
    return program.outputs(values)


@every_architecture
def test_equals_the_module(architecture: Architecture) -> None:
    program, x = traced(architecture), inputs(architecture, 6)
    expected = in_double(freshly_built(architecture), x)
    before = x.clone()
    assert_close(program(x), expected)
    assert_close(step_by_step(program, x, consume=False), expected)
    assert_close(step_by_step(program, x, consume=True), expected)
    assert torch.equal(x, before)
    assert program.n_outputs == expected.shape[1]
    for rows in (0, 1, 4):
        assert_rows_close(program(x[:rows]), expected[:rows])
    module = freshly_built(architecture)
    single = trace(module, architecture.shape, dtype=torch.float32)(x)
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), expected, rtol=1e-3, atol=1e-3)


def assert_rows_close(got: Tensor, expected: Tensor) -> None:
    assert got.shape == expected.shape
    assert torch.allclose(got, expected, rtol=1e-11, atol=1e-13)


@every_architecture
def test_every_live_value_is_needed_and_left_alone(architecture: Architecture) -> None:
    program, x = traced(architecture), inputs(architecture, 3)
    values = program.begin(x)
    assert len({fold.name for fold in program.folds}) == len(program.folds)
    assert program.n_units == sum(fold.n_units for fold in program.folds)
    for i, fold in enumerate(program.folds):
        assert fold.compared(values).n_units == fold.n_units
        assert all(tensor.shape[0] == 3 for tensor in values.values())
        assert sum(tensor[0].numel() * 8 for tensor in values.values()) <= fold.row_bytes
        for name in values:
            assert depends_on(program, i, values, name)
        copies = {name: tensor.clone() for name, tensor in values.items()}
        after = fold.advance(values)
        assert values.keys() == copies.keys()
        assert all(torch.equal(values[name], copies[name]) for name in copies)
        values = after
    assert list(values) == [program.output_name]


def depends_on(program: Program, start: int, values: Values, name: str) -> bool:
    """Whether running on without ``name`` fails: it is read by some later instruction, or is the output."""
    rest = {key: tensor for key, tensor in values.items() if key != name}
    try:
        for fold in program.folds[start:]:
            rest = fold.advance(rest)
        program.outputs(rest)
    except KeyError:
        return True
    return False


@every_architecture
def test_a_program_comes_back_from_pickle(architecture: Architecture) -> None:
    program, x = with_decision(traced(architecture)), inputs(architecture, 3)
    again = pickle.loads(pickle.dumps(program))
    assert torch.equal(again(x), program(x))
    assert torch.equal(patterns(again, x), patterns(program, x))
    assert [fold.name for fold in again.folds] == [fold.name for fold in program.folds]


def counted(program: Program, x: Tensor) -> int:
    return linear_regions(program, Segment(x[0], x[1])).n_linear_regions


@pytest.mark.slow
def test_a_program_counts_alike_in_a_worker_process() -> None:
    jobs = [(traced(architecture), inputs(architecture, 3)) for architecture in ARCHITECTURES[:12]]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        counts = list(pool.map(counted, *zip(*jobs, strict=True)))
    assert counts == [counted(*job) for job in jobs]
    assert max(counts) > 1


def refined(program: Program, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Walk along segments from ``a`` to ``b`` as an engine does: before each fold, cut each of them at every fold.

    Returns the positions (n,) along the segment and the outputs (n, c) at those positions, for one segment.
    """
    positions = torch.tensor([0.0, 1.0], dtype=torch.float64)
    values = program.begin(torch.stack([a, b]))
    for fold in program.folds:
        signs = fold_signs(fold.compared(values))
        cuts: list[tuple[float, int, float]] = []
        for left in range(len(positions) - 1):
            u, w = signs[left], signs[left + 1]
            for share in (u / (u - w))[u * w < 0].unique().tolist():
                width = (positions[left + 1] - positions[left]).item()
                cuts.append((positions[left].item() + share * width, left, share))
        if cuts:
            left = torch.tensor([cut[1] for cut in cuts])
            share = torch.tensor([cut[2] for cut in cuts], dtype=torch.float64)
            positions = torch.cat([positions, torch.tensor([cut[0] for cut in cuts], dtype=torch.float64)])
            order = positions.argsort()
            positions = positions[order]
            values = {name: interpolated(tensor, left, share)[order] for name, tensor in values.items()}
        values = fold.advance(values, consume=True)
    return positions, program.outputs(values)


def interpolated(tensor: Tensor, left: Tensor, share: Tensor) -> Tensor:
    weight = share.reshape(-1, *[1] * (tensor.dim() - 1))
    return torch.cat([tensor, torch.lerp(tensor[left], tensor[left + 1], weight)])


def fold_signs(cuts: Any) -> Tensor:
    """(v, n): values whose zeros contain all folds (for maxima, all differences of two entries)."""
    values = cuts.values
    if hasattr(cuts, "at"):
        return torch.cat([values - t for t in cuts.at], dim=1)
    entries = values[:, cuts.groups]
    i, j = torch.triu_indices(entries.shape[2], entries.shape[2], 1)
    return (entries[:, :, i] - entries[:, :, j]).flatten(1)


@every_architecture
def test_fold_by_fold_on_a_segment_and_patterns_of_inputs(architecture: Architecture) -> None:
    """Vertices that are only ever interpolated carry the same values as a forward pass through those inputs."""
    program = traced(architecture)
    a, b = inputs(architecture, 2, seed=2)
    positions, got = refined(program, a, b)
    points = a + positions.reshape(-1, *[1] * a.dim()) * (b - a)
    expected = in_double(freshly_built(architecture), points)
    assert (got - expected).abs().max() <= 1e-10 * expected.abs().max().clamp(min=1e-3)
    middles = (points[1:] + points[:-1]) / 2
    assert torch.allclose(program(middles), (got[1:] + got[:-1]) / 2, rtol=1e-8, atol=1e-9)
    x = inputs(architecture, 40, seed=3)
    beside = x + 1e-3 * inputs(architecture, 40, seed=4)
    rows = patterns(program, torch.cat([x, beside]))
    assert (rows.dtype, rows.shape) == (torch.int16, (80, program.n_units))
    same = (rows[:40] == rows[40:]).all(dim=1)  # in one linear region: the value at the midpoint is the mean
    middle = program((x[same] + beside[same]) / 2)
    assert torch.allclose(middle, (program(x[same]) + program(beside[same])) / 2, rtol=1e-11, atol=1e-12)


@pytest.mark.slow
def test_resnet18_in_cifar_form() -> None:
    torch.manual_seed(0)
    module = ResNet()
    program = trace(module, (3, 32, 32))
    assert len(program.folds) == 17
    assert program.folds[0].name == "stem.2"
    assert program.folds[2].name == "layers.0.relu#2"
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    assert_close(program(x), in_double(module, x))
