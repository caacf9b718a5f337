"""Files are whole or as before, whatever happens while they are written; and JSON holds no NaN."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import nn

import regionscope as rs
from regionscope.cli import output
from regionscope.errors import InputError
from regionscope.explorer import explore
from regionscope.file_io import plain, replace_file
from regionscope.monitor.frames import frames_of_partitions
from regionscope_lab.animation import animate
from regionscope_lab.store.files import write_bytes
from regionscope_lab.sweep import RunTable, write_parquet
from regionscope_lab.train.state import TrainState
from regionscope_lab.zoo import mlp

SEGMENT = rs.Segment([0.0], [1.0])
TABLE = RunTable(("key", "gap"), ({"key": "a", "gap": 0.5}, {"key": "b"}))


def _partition(path: Path) -> None:
    rs.linear_regions(nn.Linear(1, 1), SEGMENT).save(path)


def _animation(path: Path) -> None:
    animate(frames_of_partitions([(0, rs.linear_regions(mlp([1, 3, 2]), SEGMENT))]), path, fps=1, size=100)


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "helper": ("file", lambda path: replace_file(path, lambda temporary: temporary.write_text("new"))),
    "store": ("file", lambda path: write_bytes(path, b"new")),
    "training state": ("file.safetensors", TrainState(0, {"model.w": torch.zeros(1)}, {}).save),
    "partition": ("file.npz", _partition),
    "csv": ("file.csv", TABLE.write_csv),
    "parquet": ("file.parquet", lambda path: write_parquet(TABLE, path)),
    "page": ("file.html", lambda path: explore(rs.linear_regions(mlp([1, 3, 2]), SEGMENT), path)),
    "animation": ("file.gif", _animation),
    "json of a command": ("file.json", lambda path: output.write_text(path, output.json_text({"a": 1}))),
    "png of a command": ("file.png", lambda path: output.save_figure(Figure(), path)),
}
REFUSED = (PermissionError, InputError)  # commands turn the first into the second


def refuse(*_: object) -> None:
    raise PermissionError("no")


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_replaced_or_stays_as_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = WRITERS[name]
    path = tmp_path / file
    path.write_text("old")
    for moment in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, moment, refuse)
            with pytest.raises(REFUSED, match=r"\bno\b"):
                write(path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
    write(path)
    assert path.read_bytes() != b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("writer", "module"), [("partition", np), ("training state", safetensors.torch)])
def test_an_interruption_while_the_content_is_made_leaves_nothing(
    writer: str, module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "savez_compressed" if module is np else "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        WRITERS[writer][1](tmp_path / "file.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_a_failure_of_ffmpeg_is_an_error_of_the_system(tmp_path: Path) -> None:
    with rc_context({"animation.codec": "nothere"}), pytest.raises(OSError, match="ffmpeg ended with status"):
        _animation(tmp_path / "file.mp4")
    assert not list(tmp_path.iterdir())


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to(file)
    for text in ("first", "second"):
        replace_file(link, lambda temporary, text=text: temporary.write_text(text))
        assert link.is_symlink()
        assert file.read_text() == text
    assert list((tmp_path / "there").iterdir()) == [file]


def test_a_pipe_stays_and_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output.check_folder(pipe)
        output.write_text(pipe, output.json_text({"a": 1}))
        assert json.loads(os.read(reader, 100)) == {"a": 1}
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    seen: list[Path] = []

    def first(temporary: Path) -> None:
        seen.append(temporary)
        temporary.write_text("first")
        replace_file(path, second)

    def second(temporary: Path) -> None:
        seen.append(temporary)
        temporary.write_text("second")

    path = tmp_path / "file"
    replace_file(path, first)
    assert len(set(seen)) == 2
    assert path.read_text() == "first", "the last one that is done stays"


def test_commands_write_strict_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"rows": [{"low": math.nan, "values": (1.0, math.nan)}], "trend": {"all": {"slope": math.inf}}}
    depths = {1: [math.nan, (math.inf, {"a": -math.inf})], "b": 0.5, "c": None, "d": True}
    assert plain(depths) == {"1": [None, [None, {"a": None}]], "b": 0.5, "c": None, "d": True}
    wanted = {"rows": [{"low": None, "values": [1.0, None]}], "trend": {"all": {"slope": None}}}
    output.write_result(document, [tmp_path / "file.json"], printed=True)
    for text in ((tmp_path / "file.json").read_text(), capsys.readouterr().out):
        assert "NaN" not in text
        written = json.loads(text)
        assert {name: written[name] for name in wanted} == wanted
