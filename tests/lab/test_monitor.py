from __future__ import annotations

import json
import math
import random
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope.lab.config import Training
from regionscope.lab.data import Dataset, DataSplit
from regionscope.lab.monitor import (
    Monitor,
    Row,
    Schedule,
    every,
    log_spaced,
    no_trace,
    parse_schedule,
    read_rows,
    same_randomness,
)
from regionscope.lab.train import TrainState, train
from regionscope.lab.zoo import mlp

TRAINING = Training(epochs=4, lr=0.05, batch_size=16)  # 5 steps an epoch


def halves(n: int = 80) -> Dataset:
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0))
    return Dataset("halves", x, (x[:, 0] > 0).long(), 2)


def noisy() -> nn.Module:
    """A network with everything that a look could disturb."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def weight(model: nn.Module) -> Tensor:
    return next(model.parameters()).detach().norm()


# Schedules


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("end", (100,)),
        ("start", (0, 100)),
        ("start and end", (0, 100)),
        ("every 5 epochs", (0, 50, 100)),
        ("every epoch", (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)),
        ("every 40 steps", (0, 40, 80, 100)),
        ("log 1 1000 4", (1, 10, 100)),
        ("start and log 1 10 2 and every 60 steps", (0, 1, 10, 60, 100)),
        ("steps 3 7", (3, 7, 100)),
    ],
)
def test_words(words: str, steps: tuple[int, ...]) -> None:
    schedule = parse_schedule(words)
    assert schedule.steps(100, per_epoch=10) == steps
    assert parse_schedule(str(schedule)) == schedule
    inside = [step for step in range(100) if schedule.includes(step, per_epoch=10)]
    assert inside == [step for step in steps if step < 100]


@pytest.mark.parametrize("words", ["", "sometimes", "every", "every 0 steps", "every -1 steps", "log 1 2", "log 5 2 3"])
def test_words_that_are_none(words: str) -> None:
    with pytest.raises(InputError):
        parse_schedule(words)


def test_schedules_in_python() -> None:
    assert log_spaced(1, 1000, 4) == Schedule(points=(1, 10, 100, 1000))
    dense = log_spaced(1, 10, 100).points
    assert dense == tuple(range(1, 11))
    assert every(2, "epochs") == parse_schedule("every 2 epochs")
    for wrong in (lambda: every(0), lambda: every(1.5), lambda: every(True), lambda: every(2, "days")):
        with pytest.raises(InputError, match="every"):
            wrong()
    for a, b, points in ((0, 10, 3), (5, 4, 3), (1, 10, 1), (1, 10, 2.5), (1.5, 10, 3)):
        with pytest.raises(InputError, match=f"whole numbers 1 <= a .*got a = {a}, b = {b} and points = {points}"):
            log_spaced(a, b, points)
    with pytest.raises(InputError, match="steps_per_epoch"):
        every(2, "epochs").includes(4)


# Rows


def test_a_loop_of_your_own(tmp_path: Path) -> None:
    x = halves().inputs
    heard: list[Row] = []
    monitor = Monitor(
        {"regions": lambda m: rs.region_count(m, x, slices=5), "weight": weight},
        when=log_spaced(1, 8, 4),
        path=tmp_path / "deep" / "rows.jsonl",
        listeners=[heard.append],
    )
    model = mlp([2, 8, 2])
    for step in range(10):
        monitor(step, model)
    monitor(10, model, last=True)
    assert monitor.values("weight")[0] == [1, 2, 4, 8, 10]
    assert tuple(heard) == monitor.rows == read_rows(tmp_path / "deep" / "rows.jsonl")
    direct = rs.region_count(model, x, slices=5)
    assert heard[0].name == "regions"
    assert (heard[0].value, heard[0].spread) == (direct.value, direct.stderr)
    assert heard[1].spread is None
    assert monitor(8, model) == ()


def test_what_a_measure_may_return() -> None:
    model, x = mlp([2, 8, 2]), halves(10).inputs
    box = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
    part, lc = rs.linear_regions(model, box), rs.local_complexity(model, x, dims=2, radius=0.5)
    results = {
        "int": 3, "tensor": torch.tensor([2.0]), "array": np.float32(1.5), "estimate": rs.Estimate(1.0, 0.5, 4),
        "lc": lc, "part": part, "dec": rs.decision_regions(model, box), "norms": rs.parameter_norms(model),
        "map": {"": 1.0, "a": rs.Estimate(2.0, 0.1, 3), "b": {"c": 4}},
        "sharp": rs.sharpness(model, x, halves(10).labels),
    }  # fmt: skip
    monitor = Monitor({name: lambda m, r=result: r for name, result in results.items()}, every(1))
    found = {row.name: (row.value, row.spread) for row in monitor(0, model)}
    assert found["int"] == (3.0, None)
    assert found["tensor"] == (2.0, None)
    assert found["estimate"] == (1.0, 0.5)
    assert found["lc"] == (lc.mean, lc.stderr)
    assert found["part"] == (part.n_linear_regions, None)
    assert found["part.activation"] == (part.n_activation_regions, None)
    assert {"dec", "norms.l1", "norms.l2", "map", "map.a", "map.b.c", "sharp", "array"} <= set(found)
    for wrong in ("text", torch.zeros(2), None, [1.0]):
        with pytest.raises(InputError, match="from the measure 'wrong', got"):
            Monitor({"wrong": lambda m, r=wrong: r}, every(1))(0, model)
    with pytest.raises(InputError, match="a mapping from names to functions of the model, got an empty one"):
        Monitor({})
    with pytest.raises(InputError, match="functions of the model, got a list"):
        Monitor([lambda m: 1.0])
    with pytest.raises(InputError, match="a function of the model"):
        Monitor({"a": 3})


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    monitor = Monitor({"nan": lambda m: math.nan, "inf": lambda m: rs.Estimate(1.0, math.inf, 1)}, every(1), path=path)
    monitor(0, mlp([2, 2]))
    lines = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [(line["value"], line["spread"]) for line in lines] == [(None, None), (1.0, None)]
    assert math.isnan(read_rows(path)[0].value)


def test_a_torn_line_is_left_out_and_measured_again(tmp_path: Path) -> None:
    path, model, calls = tmp_path / "rows.jsonl", mlp([2, 2]), list[int]()

    def two(m: nn.Module) -> dict[str, float]:
        calls.append(1)
        return {"a": 1.0, "b": 2.0}

    first = Monitor({"two": two}, every(1), path=path)
    for step in range(3):
        first(step, model)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.warns(UserWarning, match="the last line is incomplete"):
        assert [(row.step, row.name) for row in read_rows(path)][-1] == (2, "two.a")
    again = Monitor({"two": two}, every(1), path=path)
    calls.clear()
    with pytest.warns(UserWarning, match="holds rows up to step 2"):
        again(0, model)
    for step in range(1, 4):
        again(step, model)
    assert len(calls) == 2, "steps 2 (torn) and 3"
    rows = [(row.step, row.name) for row in read_rows(path)]
    assert rows == [(step, f"two.{key}") for step in range(4) for key in "ab"]
    path.write_bytes(b'{}\n{"step": 1, "name": "two.a", "value": "1"}\n' + whole)
    with pytest.warns(UserWarning, match=r"rows\.jsonl: 2 damaged lines were left out"):
        assert len(Monitor({"two": two}, every(1), path=path).rows) == 6


def test_a_resumed_training_has_each_row_once(tmp_path: Path) -> None:
    data = halves()

    def monitor(name: str) -> Monitor:
        return Monitor({"weight": weight, "b": lambda m: 1.0}, "every 3 steps", path=tmp_path / name)

    train(noisy(), data, TRAINING, monitors=[monitor("calm")])
    kept: list[TrainState] = []

    def stop(state: TrainState) -> None:
        kept.append(state)
        if state.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(noisy(), data, TRAINING, monitors=[monitor("torn")], save_state=stop, state_every=-1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it does not start from the beginning
        train(noisy(), data, TRAINING, monitors=[monitor("torn")], state=kept[3])
    calm, torn = ([replace(row, seconds=0.0) for row in read_rows(tmp_path / name)] for name in ("calm", "torn"))
    assert [row.step for row in calm if row.name == "b"] == [0, 3, 6, 9, 12, 15, 18, 20]
    assert torn == calm


def test_a_new_training_beside_the_rows_of_an_old_one_is_warned(tmp_path: Path) -> None:
    def monitor() -> Monitor:
        return Monitor({"weight": weight}, "every 3 steps", path=tmp_path / "rows.jsonl")

    train(noisy(), halves(), TRAINING, monitors=[monitor()])
    with pytest.warns(UserWarning, match="remove the file or give another path") as seen:
        train(noisy(), halves(), TRAINING, monitors=[monitor()])
    assert len(seen) == 1


@pytest.mark.parametrize("when", [5, [1, 2, 3], None])
def test_what_is_no_schedule_is_said_at_once(when: object) -> None:
    with pytest.raises(InputError, match="Expected when to be"):
        Monitor({"weight": weight}, when)


def test_a_name_that_no_row_has() -> None:
    monitor = Monitor({"weight": weight, "pair": lambda m: {"a": 1.0}}, every(1))
    assert monitor.values("pair.a") == ([], [])
    monitor(0, noisy())
    assert monitor.values("pair.a") == ([0], [1.0])
    with pytest.raises(
        InputError, match=r"Expected the name of a measure, got 'wieght'. The names are weight, pair\.a, pair"
    ):
        monitor.values("wieght")


# No trace


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
    assert pointers == [value.data_ptr() for value in model.parameters()]


@pytest.mark.parametrize("mean", [0.0, math.nan])
def test_looking_between_forward_and_backward_leaves_the_graph_usable(mean: float) -> None:
    norm = nn.BatchNorm1d(4).eval()
    norm.running_mean.fill_(mean)
    model = nn.Sequential(nn.Linear(2, 4), norm, nn.Linear(4, 2))
    loss = model(torch.randn(3, 2)).sum()
    Monitor({"w": weight}, every(1))(0, model)
    loss.backward()


def test_a_measure_that_fails_again_and_again_keeps_its_names() -> None:
    def look(model: nn.Module) -> dict[str, float]:
        if len(monitor.rows) > 2:
            raise InputError("no.")
        return {"": 1.0, "more": 2.0}

    model = nn.Linear(1, 1)
    monitor = Monitor({"look": look, "look.more.other": lambda model: 3.0}, every(1))
    monitor(0, model)
    for step in range(1, 4):
        with pytest.warns(UserWarning, match="'look' has no value"):
            monitor(step, model)
    names = [row.name for row in monitor.rows if row.step == 3]
    assert names == ["look", "look.more", "look.more.other"]
    assert len(monitor.rows) == 12


def test_a_measure_that_can_no_longer_ends_no_training(tmp_path: Path) -> None:
    def look(model: nn.Module) -> dict[str, float]:
        if model[0].weight.isnan().any():
            raise InputError("the weights are not finite.")
        return {"": 1.0, "more": 2.0}

    model, path = nn.Sequential(nn.Linear(2, 2)), tmp_path / "rows.jsonl"
    monitor = Monitor({"look": look}, every(1), path=path)
    monitor(0, model)
    nn.init.constant_(model[0].weight, math.nan)
    with pytest.warns(UserWarning, match="'look' has no value at step 1: the weights are not finite"):
        monitor(1, model)
    assert len(monitor.failures) == 1
    for rows in (monitor.rows, Monitor({"look": look}, path=path).rows):
        assert [(row.step, row.name) for row in rows] == [(0, "look"), (0, "look.more"), (1, "look"), (1, "look.more")]
        assert [row.value for row in rows[:2]] == [1.0, 2.0]
        assert all(math.isnan(row.value) for row in rows[2:])
    with pytest.raises(InputError, match="not finite"):  # the first time it may be a mistake
        Monitor({"look": look}, every(1))(0, model)


def test_it_is_undone_when_the_measure_fails() -> None:
    model = noisy()
    before = fingerprint(model)
    with pytest.raises(ZeroDivisionError), same_randomness(), no_trace(model) as private:
        _ = nasty(private) / 0
    assert_equal(before, fingerprint(model))


def test_a_measure_sees_the_gradients_if_wanted() -> None:
    model = noisy()
    model(torch.randn(9, 2)).sum().backward()
    expected = sum(float(value.grad.norm()) for value in model.parameters() if value.grad is not None)
    measure = {"grad": lambda m: sum(float(value.grad.norm()) for value in m.parameters())}
    monitor = Monitor(measure, every(1), gradients=True)
    monitor(0, model)
    assert monitor.values("grad")[1] == [expected]


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
    looks = {"nasty": nasty, "lc": lambda m: rs.local_complexity(m, x, dims=2), "sharp": lambda m: rs.sharpness(
        m, x, data.train.labels)}  # fmt: skip
    monitor = Monitor(looks, every(1), listeners=[lambda row: torch.rand(3)])
    found = train(watched, data, TRAINING, monitors=[monitor])
    other = train(alone, data, TRAINING)
    assert len(monitor.values("nasty")[0]) == 21
    assert_equal(dict(watched.state_dict()), dict(alone.state_dict()))
    assert [row.loss for row in found.history] == [row.loss for row in other.history]


def test_a_monitor_of_a_diverged_training_ends_with_it() -> None:
    data = replace(halves(), inputs=halves().inputs * 1e30)
    monitor = Monitor({"w": weight}, "start and end")
    assert train(mlp([2, 4, 2]), data, replace(TRAINING, lr=1e30), monitors=[monitor]).status == "diverged"
    assert monitor.values("w")[0] == [0]


# Listeners


def test_a_failing_listener_is_dropped_with_a_warning() -> None:
    heard: list[Row] = []

    def broken(row: Row) -> None:
        raise ConnectionError("no network")

    monitor = Monitor({"w": weight}, every(1), listeners=[broken, heard.append])
    with pytest.warns(UserWarning, match=r"listener .*broken failed .*no network"):
        monitor(0, mlp([2, 2]))
    monitor(1, mlp([2, 2]))
    assert [row.step for row in heard] == [0, 1]
    assert len(monitor.failures) == 1
