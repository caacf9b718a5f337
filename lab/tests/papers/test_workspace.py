"""Where studies work: nothing is computed twice, and nothing that was computed is lost."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import forked
from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.experiment import run
from regionscope_lab.papers import verdict
from regionscope_lab.papers.study import Claim, Outcome, Size, Study, over_seeds
from regionscope_lab.papers.workspace import Place, Workspace

EXPERIMENT = Experiment(
    data=DataSpec(name="random_labels", n_train=8, n_test=8),
    network=NetworkSpec(name="mlp", options={"width": 4}),
    training=Training(epochs=1),
)

OTHER = replace(EXPERIMENT.data, seed=1)

calls: list[int] = []
TESTS = os.getpid()


def square(*, n: int, limit: int = 100) -> dict[str, Any]:
    calls.append(n)
    if n > limit:
        raise ArithmeticError(f"{n} is too large")
    return {"n": n, "square": n * n}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    calls.clear()
    return Workspace(tmp_path)


def stored(place: Workspace) -> list[Path]:
    return sorted((place.folder / "computed").glob("*.json"))


def test_answers_come_in_order_and_are_computed_once(place: Workspace) -> None:
    wanted = [{"n": 3}, {"n": 1}, {"n": 3}]
    assert [one["square"] for one in place.compute(square, wanted)] == [9, 1, 9]
    assert sorted(calls) == [1, 3]
    assert [one["square"] for one in Workspace(place.folder).compute(square, wanted)] == [9, 1, 9]
    assert sorted(calls) == [1, 3]


def test_the_settings_and_the_function_are_the_key(place: Workspace) -> None:
    place.compute(square, [{"n": 3}])
    place.compute(square, [{"n": 3, "limit": 4}])
    assert calls == [3, 3]
    assert place.compute(dict, [{"n": 3}]) == [{"n": 3}]
    assert len(stored(place)) == 3


def test_what_was_there_before_an_error_is_kept(place: Workspace) -> None:
    wanted = [{"n": n, "limit": 2} for n in (1, 2, 3)]
    with pytest.raises(ArithmeticError, match="3 is too large"):
        place.compute(square, wanted)
    assert len(stored(place)) == 2
    calls.clear()
    with pytest.raises(ArithmeticError):
        place.compute(square, wanted)
    assert calls == [3]


def square_or_die(*, n: int) -> dict[str, Any]:
    if n == 0 and os.getpid() != TESTS:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(n=n)


@pytest.mark.kill
def test_what_was_there_before_a_kill_is_kept(place: Workspace) -> None:
    wanted = [{"n": 3}, {"n": 0}]
    assert forked.end(forked.start(lambda: place.compute(square_or_die, wanted))) == -signal.SIGKILL
    (before,) = stored(place)
    written = before.stat().st_mtime_ns
    assert [one["square"] for one in place.compute(square_or_die, wanted)] == [9, 0]
    assert calls == [0]
    assert before.stat().st_mtime_ns == written


@pytest.mark.parametrize("damage", [b"", b'{"answer": {"n": 3, "squ', b'{"answer": {"n": 3, "square": 10}}'])
def test_a_damaged_answer_is_set_aside_and_computed_again(place: Workspace, damage: bytes) -> None:
    place.compute(square, [{"n": 3}])
    (path,) = stored(place)
    path.write_bytes(damage)
    assert place.compute(square, [{"n": 3}]) == [{"n": 3, "square": 9}]
    assert calls == [3, 3]
    kept = [other for other in path.parent.iterdir() if other != path]
    assert [other.read_bytes() for other in kept] == [damage]


def test_it_says_how_far_it_is(tmp_path: Path) -> None:
    shares: list[float] = []
    place = Workspace(tmp_path, on_share=shares.append)
    wanted = [{"n": 1}, {"n": 2}, {"n": 3}]
    place.compute(square, wanted)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])
    place.compute(square, wanted)
    assert len(shares) == 3  # nothing was left to do


def test_processes_give_the_same_answers_and_keep_what_others_found(tmp_path: Path) -> None:
    wanted = [{"s": '{"a": 1}'}, {"s": "no JSON"}, {"s": '{"a": 2}'}]
    two = Workspace(tmp_path, workers=2)
    with pytest.raises(json.JSONDecodeError):
        two.compute(json.loads, wanted)
    assert len(stored(two)) == 2
    assert two.compute(json.loads, [wanted[0], wanted[2]]) == [{"a": 1}, {"a": 2}]


def test_missing_runs_are_named(place: Workspace) -> None:
    other = replace(EXPERIMENT, seed=7)
    assert place.missing([EXPERIMENT, other, EXPERIMENT]) == [EXPERIMENT, other]
    run(EXPERIMENT, place.runs_folder)
    assert place.missing([EXPERIMENT, other]) == [other]
    with pytest.raises(
        InputError, match=r"Expected 2 runs in .*, got 1; there is no .*seed 7.*regionscope-lab paper run"
    ):
        place.runs([EXPERIMENT, other])
    (found,) = place.runs([EXPERIMENT])
    assert found.experiment == EXPERIMENT
    assert found.status == "finished"


def test_a_failed_run_and_one_with_a_damaged_config_are_missing(place: Workspace) -> None:
    wrong = replace(EXPERIMENT, network=NetworkSpec(name="mlp", options={"width": -1}))
    run(wrong, place.runs_folder)
    assert place.missing([wrong]) == [wrong]
    folder = run(EXPERIMENT, place.runs_folder)
    (folder.path / "config.json").write_text("{")
    assert place.missing([EXPERIMENT]) == [EXPERIMENT]
    run(EXPERIMENT, place.runs_folder)
    assert place.missing([EXPERIMENT]) == []


def twice(place: Place, run: str, times: int) -> dict[str, Any]:
    calls.append(times)
    return {"label": place.run(run).experiment.label, "device": place.device, "times": times}


def test_answers_on_runs_stay_true_where_the_folder_is_moved(tmp_path: Path) -> None:
    calls.clear()
    here = Workspace(tmp_path / "here")
    run(EXPERIMENT, here.runs_folder)
    asked = [{"run": EXPERIMENT.key, "times": times} for times in (1, 2)]
    first = here.compute_with_place(twice, asked)
    assert [one["times"] for one in first] == [1, 2]
    assert first[0]["label"] == EXPERIMENT.label
    assert {document["provenance"]["device"] for document in here.used.values()} == {"cpu"}
    (tmp_path / "here").rename(tmp_path / "there")
    there = Workspace(tmp_path / "there", data_root=tmp_path, device="cuda")
    assert there.compute_with_place(twice, asked) == first
    assert calls == [1, 2]


def test_whole_seeds_are_given_out_and_others_left_out(place: Workspace) -> None:
    wanted = [replace(EXPERIMENT, seed=seed, data=data) for data in (EXPERIMENT.data, OTHER) for seed in (0, 1, 2)]
    assert [one.seed for one in place.missing(wanted)] == [0, 0, 1, 1, 2, 2]
    for one in (wanted[0], wanted[1], wanted[3]):
        run(one, place.runs_folder)
    assert place.whole_seeds(wanted) == {0}
    alone = place.of_seeds({0})
    assert [each.experiment for each in alone.runs(wanted)] == [wanted[0], wanted[3]]
    assert [each.experiment for each in alone.ended(wanted)] == [wanted[0], wanted[3]]
    assert len(place.ended(wanted)) == 3
    with pytest.raises(InputError, match=r"Expected 6 runs in .*, got 3;"):
        place.runs(wanted)

    def analyse(workspace: Workspace, size: Size) -> Outcome:
        verdicts = (verdict.differs(2.0, 1.0, 0.1),) * len(workspace.runs(wanted))
        return Outcome(claims=tuple(Claim("a", "", "", one) for one in verdicts))

    study = over_seeds(Study(name="a", source="", claim="", analyse=analyse, experiments=lambda size: tuple(wanted)))
    found = study.analyse(place, "full")
    assert [claim.verdict.grade.value for claim in found.claims] == ["same trend"] * 2
    assert found.notes == ("1 of 3 planned seeds; the runs of the others are missing or incomplete.",)
    run(wanted[4], place.runs_folder)
    assert [claim.verdict.grade.value for claim in study.analyse(place, "full").claims] == ["reproduced"] * 4
