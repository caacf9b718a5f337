"""``regionscope ask``: tables, JSON and pictures of five questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regionscope as rs
from command_line import run
from regionscope_lab.zoo import mlp

BOX, LINE = ":three --box -4 4", ":three --points segment.npy"
NET, SQUARE = mlp([2, 8, 8, 3], seed=4), rs.Box(torch.zeros(2), torch.eye(2), 4.0)
PART, DECISION = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)
NAMES = ("cat", "dog", "fox")


def numbers(question: str) -> dict[str, Any]:
    done = run(f"ask {question} --json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, expected = numbers(f"extremes {BOX} --index 0 --minus 2"), PART.extremes((0, 2))
    monkeypatch.setenv("COLUMNS", "200")
    table = " ".join(run(f"ask extremes {BOX} --index 0 --minus 2").stdout.replace("│", "").split())
    place = ", ".join(f"{number:.6g}" for number in expected.argmin.tolist())
    assert f"smallest value, at slice coordinates ({place}), input ({place})" in table
    assert (answer["min"], answer["max"]) == (expected.min, expected.max)
    assert answer["argmax"] == expected.argmax.tolist()
    assert answer["regions"] == len(PART)
    assert "provenance" in answer
    single = numbers("extremes :single --box -1 1")  # needs no index
    assert single["min"] < single["max"]
    assert len(numbers("extremes :cube --box -1 1 --index 0")["argmin"]) == 3


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_lipschitz(norm: str) -> None:
    for words, target in (("", None), (" --index 1", 1)):
        answer = numbers(f"lipschitz {BOX} --norm {norm}{words}")
        assert answer["lipschitz"] == PART.lipschitz(norm=float(norm), target=target).value


def test_flips() -> None:
    answer, expected = numbers(f"flips {LINE}"), rs.flips(NET, rs.Segment([-4.0, -3.0], [4.0, 2.0]))
    assert [flip["coord"] for flip in answer["flips"]] == expected.coords.tolist()
    assert [flip["after"] for flip in answer["flips"]] == expected.after.tolist()
    assert len(expected) > 0
    named = " ".join(run(f"ask flips {LINE} --class-names {','.join(NAMES)}").stdout.split())
    before, after = (f"{i} ({NAMES[i]})" for i in (int(expected.before[0]), int(expected.after[0])))
    assert f"from {before} to {after} at slice coordinate" in named


def test_folds() -> None:
    answer, units = numbers(f"folds {LINE}"), rs.linear_regions(NET, rs.Segment([-4.0, -3.0], [4.0, 2.0])).wall_units()
    assert [(fold["layer"], fold["unit"]) for fold in answer["folds"]] == list(units)
    assert [fold["coord"] for fold in answer["folds"]] == units.coords[:, 0].tolist()
    layer, first = units[0]
    assert f"unit {first} of {layer}, at slice coordinate" in " ".join(run(f"ask folds {LINE}").stdout.split())


def test_topology() -> None:
    answer, expected = numbers(f"topology {BOX}"), DECISION.topology()
    assert answer["decision_regions"] == DECISION.count
    assert {int(label) for label in answer["classes"]} == set(expected)
    for label, topology in expected.items():
        assert answer["classes"][str(label)]["euler"] == topology.euler
        assert answer["classes"][str(label)]["area"] == DECISION.volumes()[label]
    named = run(f"ask topology {BOX} --class-names {','.join(NAMES)}").stdout
    assert all(f"class {label} ({NAMES[label]}): holes" in named for label in expected)


QUESTIONS = [f"{question} {place}" for question in ("extremes --index 0", "lipschitz") for place in (BOX, LINE)]


@pytest.mark.parametrize("question", [*QUESTIONS, f"flips {LINE}", f"topology {BOX}"])
def test_every_question_has_a_picture_and_a_table(question: str) -> None:
    done = run(f"ask {question} -o plot.png -o a.json")
    assert done.exit_code == 0, done.output
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(Path("a.json").read_text())["regions"] > 1
    assert "regions" in done.stdout
    assert "The weights are" in done.stdout
