"""Files are whole or as before, whatever happens while they are written; and JSON holds no NaN."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import regionscope as rs
from regionscope.cli import output
from regionscope.lab.store.files import write_bytes
from regionscope.lab.train.state import TrainState
from regionscope.writing import plain, replace_file


def _partition(path: Path) -> None:
    rs.linear_regions(nn.Linear(1, 1), rs.Segment([0.0], [1.0])).save(path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "helper": lambda path: replace_file(path, lambda temporary: temporary.write_text("new")),
    "store": lambda path: write_bytes(path, b"new"),
    "training state": TrainState(0, {"model.w": torch.zeros(1)}, {}).save,
    "partition": _partition,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_new_file_takes_the_place_of_the_old_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    path.write_text("old")
    WRITERS[name](path)
    assert path.read_bytes() != b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_an_error_leaves_the_old_file_and_nothing_else(
    name: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no")

    path = tmp_path / "file.npz"
    path.write_text("old")
    monkeypatch.setattr(os, moment, refuse)
    with pytest.raises(PermissionError):
        WRITERS[name](path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("library", [np, safetensors.torch])
def test_an_error_while_the_content_is_made_leaves_nothing(
    library: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupt)
    monkeypatch.setattr(safetensors.torch, "save", interrupt)
    name = "partition" if library is np else "training state"
    with pytest.raises(KeyboardInterrupt):
        WRITERS[name](tmp_path / "file.npz")
    assert not list(tmp_path.iterdir())


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


def test_plain_reaches_every_depth() -> None:
    value = {1: [math.nan, (math.inf, {"a": -math.inf})], "b": 0.5, "c": None, "d": True}
    assert plain(value) == {"1": [None, [None, {"a": None}]], "b": 0.5, "c": None, "d": True}


def test_commands_write_strict_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"rows": [{"low": math.nan, "values": (1.0, math.nan)}], "trend": {"all": {"slope": math.inf}}}
    wanted = {"rows": [{"low": None, "values": [1.0, None]}], "trend": {"all": {"slope": None}}}
    output.write_json(document, str(tmp_path / "file.json"))
    output.write_json(document, "-")
    for text in ((tmp_path / "file.json").read_text(), capsys.readouterr().out):
        assert "NaN" not in text
        assert json.loads(text) == wanted
