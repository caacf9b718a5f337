"""``regionscope ask``: tables, JSON and pictures of four questions, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import regionscope as rs
from regionscope.cli import app
from regionscope_lab.zoo import mlp

NET = """
from regionscope_lab.zoo import mlp

def build():
    return mlp([2, 8, 8, 3], seed=4)

def single():
    return mlp([2, 8, 1], seed=1)

def cube():
    return mlp([3, 4, 2], seed=1)
"""
SQUARE = rs.Box(torch.zeros(2), torch.eye(2), 4.0)


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    np.save(tmp_path / "segment.npy", np.array([[-4.0, -3.0], [4.0, 2.0]]))
    return f"{tmp_path / 'net.py'}:build"


def ask(*words: str) -> Result:
    return CliRunner().invoke(app, ["ask", *words])


def numbers(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def model() -> torch.nn.Module:
    return mlp([2, 8, 8, 3], seed=4)


def test_extremes(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = numbers(ask("extremes", "--model", net, "--box", "-4", "4", "--index", "0", "--minus", "2", "--json"))
    expected = rs.linear_regions(model(), SQUARE).extremes((0, 2))
    monkeypatch.setenv("COLUMNS", "200")
    shown = ask("extremes", "--model", net, "--box", "-4", "4", "--index", "0", "--minus", "2").stdout
    place = ", ".join(f"{number:.6g}" for number in expected.argmin.tolist())
    assert f"smallest value, at slice coordinates ({place}), input ({place})" in " ".join(
        shown.replace("│", "").split()
    )
    assert found["min"] == expected.min
    assert found["max"] == expected.max
    assert found["argmax"] == expected.argmax.tolist()
    assert found["regions"] == len(rs.linear_regions(model(), SQUARE))
    assert "provenance" in found


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_lipschitz(net: str, norm: str) -> None:
    found = numbers(ask("lipschitz", "--model", net, "--box", "-4", "4", "--norm", norm, "--json"))
    assert found["lipschitz"] == rs.linear_regions(model(), SQUARE).lipschitz(norm=float(norm)).value
    one = numbers(ask("lipschitz", "--model", net, "--box", "-4", "4", "--norm", norm, "--index", "1", "--json"))
    assert one["lipschitz"] == rs.linear_regions(model(), SQUARE).lipschitz(norm=float(norm), target=1).value


def test_flips(net: str, tmp_path: Path) -> None:
    found = numbers(ask("flips", "--model", net, "--points", str(tmp_path / "segment.npy"), "--json"))
    expected = rs.flips(model(), rs.Segment([-4.0, -3.0], [4.0, 2.0]))
    assert [one["coord"] for one in found["flips"]] == expected.coords.tolist()
    assert [one["after"] for one in found["flips"]] == expected.after.tolist()
    assert len(expected) > 0
    named = ask("flips", "--model", net, "--points", str(tmp_path / "segment.npy"), "--class-names", "cat,dog,fox")
    before, after = (f"{i} ({('cat', 'dog', 'fox')[i]})" for i in (int(expected.before[0]), int(expected.after[0])))
    assert f"from {before} to {after} at slice coordinate" in " ".join(named.stdout.split())


def test_topology(net: str) -> None:
    found = numbers(ask("topology", "--model", net, "--box", "-4", "4", "--json"))
    dec = rs.decision_regions(model(), SQUARE)
    expected = dec.topology()
    assert found["decision_regions"] == dec.count
    assert {int(label) for label in found["classes"]} == set(expected)
    for label, one in expected.items():
        assert found["classes"][str(label)]["euler"] == one.euler
        assert found["classes"][str(label)]["area"] == dec.volumes()[label]
    named = ask("topology", "--model", net, "--box", "-4", "4", "--class-names", "cat,dog,fox")
    assert all(f"class {label} ({('cat', 'dog', 'fox')[label]}): holes" in named.stdout for label in expected)


@pytest.mark.parametrize("question", ["extremes", "lipschitz", "flips", "topology"])
@pytest.mark.parametrize("line", [True, False])
def test_every_question_has_a_picture_and_a_table(net: str, tmp_path: Path, question: str, line: bool) -> None:
    where = ["--points", str(tmp_path / "segment.npy")] if line else ["--box", "-4", "4"]
    words = [question, "--model", net, *where, "-o", str(tmp_path / "plot.png"), "-o", str(tmp_path / "a.json")]
    done = ask(*words, *(["--index", "0"] if question == "extremes" else []))
    if (question, line) in (("flips", False), ("topology", True)):
        assert done.exit_code == 2
        assert f"for {question}, got dimension {1 if line else 2}" in done.output
        return
    assert done.exit_code == 0, done.output
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "a.json").read_text())["regions"] > 1
    assert "regions" in done.stdout
    assert "The weights are" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["extremes", "--max-regions", "3"], "Expected --index I for a network with 3 outputs"),  # before the work
        (["extremes", "--index", "3", "--max-regions", "3"], "Expected outputs 0 to 2, got 3"),
        (["topology", "--norm", "2"], "Expected --norm with lipschitz, got topology. Leave --norm out."),
        (["flips", "--minus", "1"], "Expected --minus with extremes or lipschitz, got flips. Leave --minus out."),
        (["extremes", "--class-names", "a"], "Expected --class-names with flips or topology, got extremes."),
        (["lipschitz", "--norm", "3"], "Expected a valid --norm, got '3'. Choose from 1, 2, inf"),
        (["extremes", "--index", "0", "--max-regions", "3"], "Raise --max-regions"),
    ],
)
def test_mistakes_are_one_sentence(net: str, words: list[str], sentence: str) -> None:
    done = ask(words[0], "--model", net, "--box", "-4", "4", *words[1:])
    assert done.exit_code == 2
    assert sentence in done.output


def test_a_single_output_needs_no_index(net: str) -> None:
    found = numbers(ask("extremes", "--model", net.replace("build", "single"), "--box", "-1", "1", "--json"))
    assert found["min"] < found["max"]


def test_a_cube_has_extremes_but_no_picture(net: str, tmp_path: Path) -> None:
    words = ["extremes", "--model", net.replace("build", "cube"), "--box", "-1", "1", "--index", "0"]
    assert len(numbers(ask(*words, "--json"))["argmin"]) == 3
    done = ask(*words, "-o", str(tmp_path / "a.png"))
    assert done.exit_code == 2
    assert "dimension 3" in done.output
