"""Measuring in the middle of a training leaves no trace, whatever the measure does."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope import measures
from regionscope.monitor import Monitor, every, no_trace, same_randomness
from regionscope_lab.data import DataSplit
from regionscope_lab.train import train
from small_training import TRAINING, halves, noisy, weight


def nasty(model: nn.Module) -> float:
    """A measure that does everything it should not."""
    assert not model.training
    assert not torch.is_grad_enabled()
    torch.rand(3)
    np.random.rand()  # noqa: NPY002
    random.random()
    with torch.enable_grad():
        model(torch.randn(5, 2)).sum().backward()
    model.train()
    model(torch.randn(5, 2))
    for value in model.parameters():
        value.data.add_(1.0)
        value.grad = torch.ones_like(value)
        value.requires_grad_(False)
    for buffer in model.buffers():
        buffer.data.zero_()
    model.double()
    return 1.0


def fingerprint(model: nn.Module) -> list[object]:
    return [
        {name: value.clone() for name, value in model.state_dict().items()},
        [None if value.grad is None else value.grad.clone() for value in model.parameters()],
        [value.requires_grad for value in model.parameters()],
        [module.training for module in model.modules()],
        torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate(),  # noqa: NPY002
    ]  # fmt: skip


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, Tensor | np.ndarray):
        assert np.array_equal(np.asarray(one), np.asarray(other))
        assert one.dtype == other.dtype
    elif isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        assert_equal(list(one.values()), list(other.values()))
    elif isinstance(one, list):
        assert isinstance(other, list)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


@pytest.mark.parametrize("with_gradients", [False, True])
def test_whatever_a_measure_does_is_undone(with_gradients: bool) -> None:
    model = noisy()
    model[3].eval()
    if with_gradients:
        model(torch.randn(9, 2)).sum().backward()
    pointers = [value.data_ptr() for value in model.parameters()]
    before = fingerprint(model)
    Monitor({"nasty": nasty}, every(1))(0, model)
    assert_equal(before, fingerprint(model))
    with pytest.raises(ZeroDivisionError), same_randomness(), no_trace(model) as private:
        _ = nasty(private) / 0
    assert_equal(before, fingerprint(model))
    assert pointers == [value.data_ptr() for value in model.parameters()]


@pytest.mark.parametrize("mean", [0.0, math.nan])
def test_looking_between_forward_and_backward_leaves_the_graph_usable(mean: float) -> None:
    norm = nn.BatchNorm1d(4).eval()
    norm.running_mean.fill_(mean)
    model = nn.Sequential(nn.Linear(2, 4), norm, nn.Linear(4, 2))
    loss = model(torch.randn(3, 2)).sum()
    Monitor({"w": weight}, every(1))(0, model)
    loss.backward()


def test_measuring_beside_a_training_loop_in_another_thread() -> None:
    """The training is as if alone: never in eval mode, and the same bits at the end. The main thread measures."""
    x, y = halves().inputs, halves().labels
    seen: list[bool] = []

    def trained(until: Callable[[int], bool]) -> tuple[nn.Module, int]:
        model, step = noisy(), 0
        shared.append(model)
        torch.manual_seed(5)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        while until(step):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            seen.append(all(part.training for part in model.modules()))
            step += 1
        return model, step

    shared: list[nn.Module] = []
    looks = {"regions": lambda m: rs.region_count(m, x, slices=3), "mode": lambda m: float(m.training), "w": weight}
    monitor, stop = Monitor(looks, every(1)), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(trained, lambda step: not (step > 50 and stop.is_set()))
        while not shared:
            time.sleep(0.001)
        try:
            for step in range(20):
                while len(seen) <= step:  # the training goes on between two looks
                    time.sleep(0.001)
                monitor(step, shared[0])
        finally:
            stop.set()
        model, steps = job.result()
    alone, _ = trained(lambda step: step < steps)
    assert all(seen)
    assert monitor.values("mode")[1] == [0.0] * 20
    assert len(set(monitor.values("w")[1])) > 1, "the measures saw the training"
    assert_equal(dict(model.state_dict()), dict(alone.state_dict()))


def test_training_with_and_without_monitors_gives_the_same_bits() -> None:
    data = DataSplit(halves(), halves())
    watched, alone = noisy(), noisy()
    x = data.train.inputs
    looks = {"nasty": nasty, "lc": lambda m: rs.local_complexity(m, x, dims=2), "sharp": lambda m: measures.sharpness(
        m, x, data.train.labels)}  # fmt: skip
    monitor = Monitor(looks, every(1), listeners=[lambda row: torch.rand(3)])
    found = train(watched, data, TRAINING, monitors=[monitor])
    other = train(alone, data, TRAINING)
    assert len(monitor.values("nasty")[0]) == 21
    assert_equal(dict(watched.state_dict()), dict(alone.state_dict()))
    assert [row.loss for row in found.history] == [row.loss for row in other.history]
