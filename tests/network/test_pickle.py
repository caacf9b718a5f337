"""A program goes through pickle to another process and computes the same there."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from torch import Tensor

from network.architectures import ARCHITECTURES, Architecture, traced
from regionscope.exact import linear_regions
from regionscope.geometry import Segment
from regionscope.network import Program, patterns, with_decision


def rows(architecture: Architecture) -> Tensor:
    return torch.randn(3, *architecture.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)
def test_the_same_program(architecture: Architecture) -> None:
    program, x = with_decision(traced(architecture)), rows(architecture)
    again = pickle.loads(pickle.dumps(program))
    assert torch.equal(again(x), program(x))
    assert torch.equal(patterns(again, x), patterns(program, x))
    assert [kink.name for kink in again.kinks] == [kink.name for kink in program.kinks]


def counted(program: Program, x: Tensor) -> int:
    return linear_regions(program, Segment(x[0], x[1])).n_linear_regions


@pytest.mark.slow
def test_in_a_worker_process() -> None:
    jobs = [(traced(architecture), rows(architecture)) for architecture in ARCHITECTURES[:12]]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(counted, *zip(*jobs, strict=True)))
    assert found == [counted(*job) for job in jobs]
    assert max(found) > 1
