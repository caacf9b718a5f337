"""Monitors: when they measure, what a measure may return, rows in a file, measures and listeners that fail."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope.monitor import Monitor, Row, Schedule, every, log_spaced, parse_schedule, read_rows
from regionscope_lab.train import TrainState, train
from regionscope_lab.zoo import mlp
from small_training import TRAINING, halves, noisy, weight


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
    for step in (*range(5), *map(np.int64, range(4, 8)), torch.tensor(8), 9):
        monitor(step, model)
    with pytest.raises(InputError, match="Expected a whole number as step, got"):
        monitor(torch.tensor(2.5), model)
    monitor(10, model, last=True)
    assert monitor.values("weight")[0] == [1, 2, 4, 8, 10]
    assert tuple(heard) == monitor.rows == read_rows(tmp_path / "deep" / "rows.jsonl")
    direct = rs.region_count(model, x, slices=5)
    assert heard[0].name == "regions"
    assert (heard[0].value, heard[0].stderr) == (direct.value, direct.stderr)
    assert heard[1].stderr is None
    assert monitor(8, model) == ()


def test_what_a_measure_may_return() -> None:
    model, x = mlp([2, 8, 2]), halves(10).inputs
    box = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
    part, lc = rs.linear_regions(model, box), rs.local_complexity(model, x, dims=2, radius=0.5)
    results = {
        "int": 3, "tensor": torch.tensor([2.0]), "array": np.float32(1.5), "estimate": rs.Estimate(1.0, 0.5, 4),
        "lc": lc, "part": part, "dec": rs.decision_regions(model, box), "norms": rs.measures.parameter_norms(model),
        "map": {"": 1.0, "a": rs.Estimate(2.0, 0.1, 3), "b": {"c": 4}},
        "sharp": rs.measures.sharpness(model, x, halves(10).labels),
    }  # fmt: skip
    monitor = Monitor({name: lambda m, r=result: r for name, result in results.items()}, every(1))
    found = {row.name: (row.value, row.stderr) for row in monitor(0, model)}
    assert found["int"] == (3.0, None)
    assert found["tensor"] == (2.0, None)
    assert found["estimate"] == (1.0, 0.5)
    assert found["lc"] == (lc.mean, lc.stderr)
    assert found["part"] == (part.n_linear_regions, None)
    assert found["part.activation"] == (part.n_activation_regions, None)
    assert {"dec", "norms.l1", "norms.l2", "map", "map.a", "map.b.c", "sharp", "array"} <= set(found)


@pytest.mark.parametrize(
    ("measures", "words"),
    [
        *(({"a": lambda m, r=r: r}, "from the measure 'a', got") for r in ("text", torch.zeros(2), None, [1.0])),
        ({}, "a mapping from names to functions of the model, got an empty one"),
        ([lambda m: 1.0], "functions of the model, got a list"),
        ({"a": 3}, "a function of the model"),
    ],
)
def test_what_is_no_measure_is_refused(measures: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Monitor(measures, every(1))(0, mlp([2, 2]))


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    monitor = Monitor({"nan": lambda m: math.nan, "inf": lambda m: rs.Estimate(1.0, math.inf, 1)}, every(1), path=path)
    monitor(0, mlp([2, 2]))
    lines = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [(line["value"], line["stderr"]) for line in lines] == [(None, None), (1.0, None)]
    assert math.isnan(read_rows(path)[0].value)
    assert read_rows(path)[1].stderr is None


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


def test_a_loop_that_goes_on_from_a_checkpoint_is_warned_of_later_rows(tmp_path: Path) -> None:
    def loop(start: int, stop: int, value: float, *, drop: bool = False) -> Monitor:
        monitor = Monitor({"a": lambda _: value}, every(2), path=tmp_path / "rows.jsonl")
        if drop:
            monitor.drop_after(start)
        for step in range(start, stop):
            monitor(step, nn.Linear(1, 1))
        return monitor

    loop(0, 9, 1.0)
    told = r"rows up to step 8, and .* from step 5\. .* monitor\.drop_after\(step\) first, with the step of the"
    with pytest.warns(UserWarning, match=told) as seen:
        assert loop(5, 11, 2.0).values("a") == ([0, 2, 4, 6, 8, 10], [1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor = loop(4, 11, 3.0, drop=True)
        assert monitor.values("a") == ([0, 2, 4, 6, 8, 10], [1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
        assert read_rows(tmp_path / "rows.jsonl") == monitor.rows
        loop(10, 13, 4.0)  # it goes on where the other one ended


def test_a_name_that_no_row_has() -> None:
    monitor = Monitor({"weight": weight, "pair": lambda m: {"a": 1.0}}, every(1))
    assert monitor.values("pair.a") == ([], [])
    monitor(0, noisy())
    assert monitor.values("pair.a") == ([0], [1.0])
    with pytest.raises(InputError, match=r"Expected the name of one row, got 'pair', .* Choose from pair\.a\."):
        monitor.values("pair")
    with pytest.raises(InputError, match=r"got 'wieght'. Did you mean 'weight'\? Choose from weight, pair\.a, pair"):
        monitor.values("wieght")


def test_two_measures_of_one_row_name_are_refused(tmp_path: Path) -> None:
    def pair(_: nn.Module) -> dict[str, float]:
        return {"b": 1.0, "c": 2.0}

    for measures in ({"a": pair, "a.b": lambda _: 5.0}, {"a.b": lambda _: 5.0, "a": pair}):
        monitor = Monitor(measures, when=every(1))
        for _ in range(2):  # a second call at this step does not hide it
            with pytest.raises(InputError, match=r"got 'a\.b' from both 'a(\.b)?' and 'a(\.b)?' at step 0\. Rename"):
                monitor(0, nn.Linear(2, 1))
    path = tmp_path / "rows.jsonl"
    for _ in range(2):  # rows read back from the file are those of the same measure
        monitor = Monitor({"a": pair, "a.d": lambda _: 5.0}, when=every(1), path=path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            monitor(0, nn.Linear(2, 1))
        assert {row.name: row.value for row in monitor.rows} == {"a.b": 1.0, "a.c": 2.0, "a.d": 5.0}


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
    with pytest.warns(UserWarning, match="'look' has no value at step 2"):
        monitor(2, model)
    assert [row.name for row in monitor.rows if row.step == 2] == ["look", "look.more"]
    for rows in (monitor.rows[:4], Monitor({"look": look}, path=path).rows[:4]):
        assert [(row.step, row.name) for row in rows] == [(0, "look"), (0, "look.more"), (1, "look"), (1, "look.more")]
        assert [row.value for row in rows[:2]] == [1.0, 2.0]
        assert all(math.isnan(row.value) for row in rows[2:])
    with pytest.raises(InputError, match="not finite"):  # the first time it may be a mistake
        Monitor({"look": look}, every(1))(0, model)


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
    assert str(Schedule(points=(5, 0))) == "start and steps 5 and end"
    with pytest.raises(InputError, match=r"Write every[(]n[)], log_spaced[(]a, b, points[)]"):
        Monitor({"weight": weight}, [1, 2, 3])
    with pytest.raises(InputError, match="steps_per_epoch"):
        every(2, "epochs").includes(4)
