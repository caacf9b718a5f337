"""Archives of runs: everything but the weights, merged by key, and read back as runs."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.experiment import run
from regionscope_lab.papers.archive import pack, unpack
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder

EXPERIMENT = Experiment(
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
    run(EXPERIMENT, tmp_path / "studies" / "runs")
    RunFolder.create(tmp_path / "studies" / "runs", replace(EXPERIMENT, seed=7))
    Workspace(tmp_path / "studies").compute(answer, [{"x": 3}])
    return tmp_path / "studies"


def test_runs_come_back_without_their_weights(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "kept" / "runs.zip"
    assert pack(folder, archive) == 1
    assert archive.stat().st_size < 5_000
    assert unpack(archive, tmp_path / "other") == 1
    place = Workspace(tmp_path / "other")
    (back,) = place.runs([EXPERIMENT])
    before = RunFolder.open(folder / "runs" / EXPERIMENT.key)
    assert back.is_done
    assert back.result() == {name: value for name, value in before.result().items() if name != "checkpoints"}
    assert back.rows() == before.rows()
    assert back.checkpoints() == []
    assert place.missing([replace(EXPERIMENT, seed=7)])
    assert [path.name for path in (tmp_path / "other" / "computed").iterdir()] == [
        path.name for path in (folder / "computed").iterdir()
    ]


def test_nothing_about_the_machine_is_kept(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "runs.zip")
    with zipfile.ZipFile(tmp_path / "runs.zip") as file:
        kept = json.loads(file.read(f"runs/{EXPERIMENT.key}/provenance.json"))
    before = RunFolder.open(folder / "runs" / EXPERIMENT.key).provenance
    assert before.keys() - kept.keys() == {"host", "command", "system"}
    assert kept["torch"] == before["torch"]


def test_archives_are_merged_by_key(folder: Path, tmp_path: Path) -> None:
    archive, more = tmp_path / "runs.zip", tmp_path / "more"
    pack(folder, archive)
    once = archive.read_bytes()
    assert pack(folder, archive) == 1
    assert archive.read_bytes() == once  # the same content, the same bytes
    run(replace(EXPERIMENT, seed=1), more / "runs")
    assert pack(more, archive) == 2
    assert unpack(archive, folder) == 1  # the other one is there
    assert not Workspace(folder).missing([EXPERIMENT, replace(EXPERIMENT, seed=1)])
    assert unpack(tmp_path, tmp_path / "new") == 2  # a folder of archives


def test_what_is_no_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No ended run found"):
        pack(tmp_path / "nothing", tmp_path / "runs.zip")
    with pytest.raises(InputError, match="No archive found"):
        unpack(tmp_path / "runs.zip", folder)
    (tmp_path / "runs.zip").write_text("no zip")
    with pytest.raises(InputError, match="is not an archive of runs"):
        unpack(tmp_path / "runs.zip", folder)
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as file:
        file.writestr("runs/../../evil.json", "{}")
    with pytest.raises(InputError, match="got a file 'runs/"):
        unpack(tmp_path / "runs.zip", folder)
