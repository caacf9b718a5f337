"""Where studies work: nothing is computed twice or lost, and archives of runs hold everything but the weights."""

from __future__ import annotations

import json
import os
import signal
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import forked
from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.experiment import run
from regionscope_lab.papers.archive import pack, unpack
from regionscope_lab.papers.workspace import Place, Workspace, last_model, stored_steps
from regionscope_lab.store import RunFolder

EXPERIMENT = Experiment(
    data=DataSpec(name="random_labels", n_train=8, n_test=8),
    network=NetworkSpec(name="mlp", options={"width": 4}),
    training=Training(epochs=1),
)

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


def test_answers_come_in_order_and_are_computed_once(tmp_path: Path) -> None:
    calls.clear()
    shares: list[float] = []
    place = Workspace(tmp_path, on_share=shares.append)
    wanted = [{"n": 3}, {"n": 1}, {"n": 3}]
    assert [answer["square"] for answer in place.compute(square, wanted)] == [9, 1, 9]
    assert shares == pytest.approx([1 / 2, 1])
    assert [answer["square"] for answer in Workspace(tmp_path).compute(square, wanted)] == [9, 1, 9]
    assert sorted(calls) == [1, 3]
    place.compute(square, [{"n": 3, "limit": 4}])  # the settings and the function are the key
    assert place.compute(dict, [{"n": 3}]) == [{"n": 3}]
    assert len(stored(place)) == 4


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


def test_processes_give_the_same_answers_and_keep_what_others_found(tmp_path: Path) -> None:
    wanted = [{"s": '{"a": 1}'}, {"s": "no JSON"}, {"s": '{"a": 2}'}]
    two = Workspace(tmp_path, workers=2)
    with pytest.raises(json.JSONDecodeError):
        two.compute(json.loads, wanted)
    assert len(stored(two)) == 2
    assert two.compute(json.loads, [wanted[0], wanted[2]]) == [{"a": 1}, {"a": 2}]


def test_missing_runs_are_named(place: Workspace) -> None:
    other, wrong = (
        replace(EXPERIMENT, seed=7),
        replace(EXPERIMENT, network=NetworkSpec(name="mlp", options={"width": -1})),
    )
    assert place.missing([EXPERIMENT, other, EXPERIMENT]) == [EXPERIMENT, other]
    folder = run(EXPERIMENT, place.runs_folder)
    run(wrong, place.runs_folder)
    assert place.missing([EXPERIMENT, other, wrong]) == [wrong, other]  # in the order of the seeds
    with pytest.raises(
        InputError, match=r"Expected 2 runs in .*, got 1; there is no .*seed 7.*regionscope-lab paper run"
    ):
        place.runs([EXPERIMENT, other])
    (stored_run,) = place.runs([EXPERIMENT])
    assert (stored_run.experiment, stored_run.status) == (EXPERIMENT, "finished")
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


ARCHIVED = Experiment(
    data=DataSpec(name="digits", n_train=40, n_test=20),
    network=NetworkSpec(name="mlp", options={"depth": 1, "width": 4}),
    training=Training(epochs=2),
    measures=(MeasureSpec(instrument="parameter_norms", name="norm"),),
)


def answer(x: int) -> dict[str, int]:
    return {"square": x * x}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One ended run, one that has only begun, one answer."""
    run(ARCHIVED, tmp_path / "studies" / "runs")
    RunFolder.create(tmp_path / "studies" / "runs", replace(ARCHIVED, seed=7))
    Workspace(tmp_path / "studies").compute(answer, [{"x": 3}])
    return tmp_path / "studies"


def test_runs_come_back_without_their_weights(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "kept" / "runs.zip"
    assert pack(folder, archive) == 1
    assert archive.stat().st_size < 5_000
    with zipfile.ZipFile(archive) as file:
        kept = json.loads(file.read(f"runs/{ARCHIVED.key}/provenance.json"))
    before = RunFolder.open(folder / "runs" / ARCHIVED.key)
    assert before.provenance.keys() - kept.keys() == {"host", "command", "system"}
    assert unpack(archive, tmp_path / "other") == 1
    place = Workspace(tmp_path / "other")
    (back,) = place.runs([ARCHIVED])
    assert back.is_done
    assert back.result() == {name: value for name, value in before.result().items() if name != "checkpoints"}
    assert back.rows() == before.rows()
    assert back.checkpoints() == []
    assert place.missing([replace(ARCHIVED, seed=7)])
    assert [path.name for path in (tmp_path / "other" / "computed").iterdir()] == [
        path.name for path in (folder / "computed").iterdir()
    ]


def test_archives_are_merged_by_key(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, more = tmp_path / "runs.zip", tmp_path / "more"
    pack(folder, archive)
    once = archive.read_bytes()
    opened = []
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "status", property(lambda run: opened.append(run.key) or "running"))
        assert pack(folder, archive) == 1
    assert archive.read_bytes() == once  # the same content, the same bytes
    assert opened == [replace(ARCHIVED, seed=7).key], "runs that are in the archive are not checked again"
    run(replace(ARCHIVED, seed=1), more / "runs")
    assert pack(more, archive) == 2
    assert unpack(archive, folder) == 1  # the other one is there
    assert not Workspace(folder).missing([ARCHIVED, replace(ARCHIVED, seed=1)])
    assert unpack(tmp_path, tmp_path / "new") == 2  # a folder of archives


def test_what_is_no_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "runs.zip"
    with pytest.raises(InputError, match="No ended run found"):
        pack(tmp_path / "nothing", archive)
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as file:
        file.writestr("runs/../../evil.json", "{}")
    for content, words in (
        (None, "No archive found"),
        (b"no zip", "is not an archive of runs"),
        ((tmp_path / "evil.zip").read_bytes(), "got a file 'runs/"),
    ):
        if content is not None:
            archive.write_bytes(content)
        with pytest.raises(InputError, match=words):
            unpack(archive, folder)


DATA, NETWORK = DataSpec(name="two_moons", n_train=20, n_test=10), NetworkSpec(name="mlp", options={"width": 4})


@pytest.mark.parametrize("read", [stored_steps, last_model])
def test_runs_without_weights_say_how_to_get_them(read: Callable[[RunFolder], object], tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, Experiment(data=DATA, network=NETWORK))
    with pytest.raises(InputError, match=r"Expected stored weights .* got none .* train it again with `regionscope"):
        read(folder)


@pytest.mark.parametrize("checkpoints", ["start and log 1 100 4", "every 2 epochs", "end"])
def test_a_run_of_an_archive_knows_the_steps_of_its_weights(checkpoints: str, tmp_path: Path) -> None:
    training = Training(epochs=3, batch_size=8, checkpoints=checkpoints)  # the last batch of an epoch is shorter
    trained = run(Experiment(data=DATA, network=NETWORK, training=training), tmp_path / "here" / "runs")
    pack(tmp_path / "here", tmp_path / "runs.zip")
    unpack(tmp_path / "runs.zip", tmp_path / "there")
    archived = RunFolder.open(tmp_path / "there" / "runs" / trained.key)
    assert archived.checkpoints() == []
    assert stored_steps(archived) == stored_steps(trained)
