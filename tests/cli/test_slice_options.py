"""One slice, however it is named: --points, --plane, --box, or a file with --slice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regionscope as rs
from command_line import run
from onnx_graphs import relu_network
from regionscope.cli.slice_file import InputPlane, read_plane

PLANE = "plane = {0 = [0, 100], 2 = [-1, 1], 1 = 5, 3 = 0.5}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    relu_network(tmp_path / "net.onnx", [4, 10, 3])
    relu_network(tmp_path / "flat.onnx", [2, 10, 3])
    np.save(tmp_path / "two.npy", np.array([[0.0, 1, 0, 1], [1.0, 0, 1, 0]]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_two_inputs_vary_in_their_own_units(folder: Path) -> None:
    (folder / "plane.toml").write_text(
        f"{PLANE}\n[scaling]\n0 = {{offset = 50, unit = 25}}\n1 = {{offset = 5, unit = 2}}"
    )
    words = "--model net.onnx --slice plane.toml -o found.json -o found.png"
    done = run(f"regions {words}")
    assert done.exit_code == 0, done.output
    assert "input 0 in [0, 100], input 2 in [-1, 1]; input 1 = 5, input 3 = 0.5." in done.output
    assert "input 0 = (value - 50) / 25" in done.output
    numbers = json.loads((folder / "found.json").read_text())
    box = rs.Box([0.0, 0.0, 0.0, 0.5], [[1.0, 0, 0, 0], [0, 0, 1.0, 0]], [2.0, 1.0])
    part = rs.linear_regions(rs.read_onnx("net.onnx"), box)
    assert numbers["activation_regions"] == part.n_activation_regions
    assert numbers["plane"]["scaling"]["0"] == {"offset": 50.0, "unit": 25.0}
    assert "plane.toml" in numbers["provenance"]["files"]
    assert (folder / "found.png").exists()


@pytest.mark.parametrize(
    "command",
    ["regions", "decisions", "ask extremes --index 0", "ask lipschitz", "ask topology", "level-set --index 0"],
)
def test_every_command_takes_every_slice(command: str, folder: Path) -> None:
    """A plane, on the command line and in a file, is the box that it spans; the picture names the inputs."""
    (folder / "plane.toml").write_text("plane = {0 = [-1, 1], 1 = [-1, 1]}")
    (folder / "box.toml").write_text("box = [-1, 1]")
    answers = []
    for number, words in enumerate(("--box -1 1", "--plane 0=-1:1,1=-1:1", "--slice plane.toml", "--slice box.toml")):
        done = run(f"{command} --model flat.onnx {words} --json -o {number}.svg")
        assert done.exit_code == 0, done.output
        numbers = json.loads(done.stdout)
        assert ("plane" in numbers) == (number in (1, 2))
        answers.append({**numbers, "plane": 0, "provenance": 0, "stats": {**numbers["stats"], "seconds": 0}})
        text = (folder / f"{number}.svg").read_text()
        assert "<!-- input 0 -->" in text
    assert all(numbers == answers[0] for numbers in answers)


def test_a_file_of_points_is_beside_the_slice(folder: Path) -> None:
    (folder / "slices").mkdir()
    (folder / "slices" / "line.toml").write_text('points = "../two.npy"')
    one, two = (
        json.loads(run(f"ask flips --model net.onnx {words} --json").stdout)
        for words in ("--slice slices/line.toml", "--points two.npy")
    )
    assert one["flips"] == two["flips"]
    assert one["slice"] == two["slice"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--plane 0=0:1,1=0:1", "got no value for 2, 3. Add values, for example 2=0,3=0."),
        ("--plane 0=0:1,1=0:1,2=0.5", "got no value for 3. Add values, for example 3=0."),
        ("--plane 0=0:1,9=0:1,1=0,2=0,3=0", "Expected inputs 0 to 3, the only ones of the network, got 9."),
        ("--plane 0=1:0,1=0:1,2=0,3=0", "with a range LO < HI for two inputs"),
        ("--plane 0=0:1,1=0,2=0,3=0", "for two inputs and one number for each other input, got --plane 0=0:1,1=0"),
        ("--plane 0=0:1,0=0:1,2=0,3=0", "Expected --plane I=LO:HI,J=LO:HI,K=VALUE,... with each input once, got '0="),
        ("--plane 0=0:1,1=0:nan,2=0,3=0", "with a range LO < HI for two inputs"),
        ("--plane first", "with each input once, got 'first'. Replace the letters by numbers."),
        ("--plane 0=0:1,1=0:1,2=0,3=0 --box -1 1", "and --slice FILE.toml, got several."),
        ("--slice nothing.toml", "Expected an existing slice file, got 'nothing.toml'"),
        ("--slice net.onnx", "Expected a TOML file, got 'net.onnx'"),
    ],
)
def test_a_wrong_slice_is_one_sentence(words: str, message: str) -> None:
    done = run(f"regions --model net.onnx {words}")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan = {0 = [0, 1]}", "Expected a key of a.toml, got 'plan'. Did you mean 'plane'?"),
        ("", "Expected one of points, plane and box in a.toml, and scaling with a plane only, got none."),
        (f"{PLANE}\nbox = [0, 1]", "with a plane only, got plane, box. Keep one slice in the file."),
        ("box = [0, 1]\n[scaling]\n0 = {unit = 1}", "with a plane only, got box, scaling."),
        ("box = [0, 1, 2]", "Expected box = [LO, HI] in a.toml, got [0, 1, 2]. Write two numbers."),
        ("points = 3", 'Expected points = "FILE" in a.toml, got 3.'),
        ("plane = 3", "Expected a table [plane] with inputs from 0 as keys in a.toml, got 3."),
        ("plane = {a = [0, 1]}", "with inputs from 0 as keys in a.toml"),
        (
            "plane = {0 = [0, 1], 1 = [0, 'b'], 2 = 0, 3 = 0}",
            "for two inputs and one number for each other input, got ",
        ),
        (f"{PLANE}\n[scaling]\n0 = 3", "Expected 0 = {offset = A, unit = B} in [scaling] of a.toml, got 3."),
        (f"{PLANE}\n[scaling]\n0 = {{units = 3}}", "Expected 0 = {offset = A, unit = B} in [scaling]"),
        (f"{PLANE}\n[scaling]\n0 = {{offset = 1, unit = 0}}", "Expected positive units in the scaling of a plane"),
    ],
)
def test_a_wrong_file_is_one_sentence(text: str, message: str, folder: Path) -> None:
    (folder / "a.toml").write_text(text)
    done = run("regions --model net.onnx --slice a.toml")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_numbers_at_the_axes_are_those_of_the_user() -> None:
    from matplotlib.figure import Figure

    plane = InputPlane({0: (0.0, 100.0), 1: (-1.0, 1.0)}, {2: 3.0}, {0: (50.0, 25.0)})
    ax = Figure().add_subplot()
    ax.set_xlim(-2, 2)
    ax.set_ylim(-1, 1)
    plane.label(ax)
    assert [float(label.get_text()) for label in ax.get_xticklabels()][:3] == [0, 20, 40]
    assert ax.get_xlabel() == "input 0"
    far = read_plane("0=0:20000,1=-3.14:3.14,2=3")
    far.label(ax := Figure().add_subplot())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "5000", "10000", "15000", "20000"]
    assert [label.get_text().replace("\N{MINUS SIGN}", "-") for label in ax.get_yticklabels()] == ["-2", "0", "2"]
    assert "input 2 = 3" in ax.get_title()
