"""``regionscope-lab data``: what it lists, gets and says."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from regionscope_lab.cli.data import data
from regionscope_lab.data import download, names
from small_files import idx_files, md5, serve


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    return tmp_path


def run(*words: str) -> Result:
    app = typer.Typer()
    app.add_typer(data, name="data")
    return CliRunner().invoke(app, ["data", *words])


def test_list_says_what_lies_where(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGIONSCOPE_DATA", "here")
    (folder / "here" / "cifar-10-batches-py").mkdir(parents=True)
    done = run("list")
    assert done.exit_code == 0, done.output
    rows = {line.split()[1]: line for line in done.stdout.splitlines() if re.match(r"│ \w", line)}
    assert set(rows) == set(names())
    assert "built in" in rows["digits"]
    assert "noise" in rows["two_moons"]
    assert "cifar-10-batches-py" in rows["cifar10"]
    assert "not on disk" in rows["mnist"]


def test_a_narrow_list_keeps_the_names_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert "│ gaussian_quantiles │" in run("list").stdout
    monkeypatch.setenv("COLUMNS", "80")
    words = run("list").stdout.split()
    assert {"distribution", "photographs", "(modulus,"} <= set(words)  # no word is cut in two


def test_get_downloads_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in idx_files().items()}
    small = replace(download.DOWNLOADS["mnist"], md5={name: md5(content) for name, content in files.items()})
    monkeypatch.setitem(download.DOWNLOADS, "mnist", small)
    with serve(files) as server:
        done = run("get", "mnist", "--mirror", server.url)
        again = run("get", "mnist", "--mirror", server.url)
        assert len(server.asked) == 4
    assert done.exit_code == 0, done.output
    assert done.stdout == "mnist is in data/MNIST/raw\n"
    assert again.stdout == "mnist was already in data/MNIST/raw\n"
    assert {path.name for path in (folder / "data/MNIST/raw").iterdir()} == set(idx_files())
