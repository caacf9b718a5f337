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


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    relu_network(folder / "net.onnx", [4, 10, 3])
    relu_network(folder / "flat.onnx", [2, 10, 3])


def test_two_inputs_vary_in_their_own_units(folder: Path) -> None:
    (folder / "plane.toml").write_text(
        "plane = {0 = [0, 100], 2 = [-1, 1], 1 = 5, 3 = 0.5}\n"
        "[scaling]\n0 = {offset = 50, unit = 25}\n1 = {offset = 5, unit = 2}"
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


def test_a_file_holds_the_inputs_that_a_plane_does_not_name(folder: Path) -> None:
    relu_network(folder / "wide.onnx", [64, 12, 3])
    values = np.linspace(-1, 1, 64)
    np.save(folder / "input.npy", values)
    done = run("regions --model wide.onnx --plane 3=-2:2,9=-1:1,5=0.25 --at input.npy --json -o found.png")
    assert done.exit_code == 0, done.output
    centre, directions = values.copy(), np.zeros((2, 64))
    centre[[3, 5, 9]], directions[0, 3], directions[1, 9] = [0.0, 0.25, 0.0], 1, 1
    part = rs.linear_regions(rs.read_onnx("wide.onnx"), rs.Box(centre, directions, [2.0, 1.0]))
    numbers = json.loads(done.stdout)
    assert numbers["activation_regions"] == part.n_activation_regions
    assert numbers["plane"]["rest"] == values.tolist()
    assert "input.npy" in numbers["provenance"]["files"]
    said = run("regions --model wide.onnx --plane 3=-2:2,9=-1:1 --at input.npy").output
    assert "the other inputs as in input.npy" in " ".join(said.split())
    np.save(folder / "two.npy", np.zeros((2, 64)))
    for words, wanted in {
        "--plane 3=-2:2,9=-1:1 --at two.npy": "Expected one input in two.npy, got shape (2, 64).",
        "--plane 3=-2:2,9=-1:1": "got no value for 0, 1, 2, 4, 5, 6 and 56 others. Add values, for example 0=0,1=0, or",
        "--box -1 1 --at input.npy": "Expected --at FILE with --plane, got it alone.",
    }.items():
        failed = run(f"regions --model wide.onnx {words}")
        assert failed.exit_code == 2
        assert wanted in " ".join(failed.output.replace("│", "").split())


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
        picture = f"-o {number}.svg" if number % 2 else ""
        done = run(f"{command} --model flat.onnx {words} --json {picture}")
        assert done.exit_code == 0, done.output
        numbers = json.loads(done.stdout)
        assert ("plane" in numbers) == (number in (1, 2))
        answers.append({**numbers, "plane": 0, "provenance": 0, "stats": {**numbers["stats"], "seconds": 0}})
        assert not picture or "<!-- input 0 -->" in (folder / f"{number}.svg").read_text()
    assert all(numbers == answers[0] for numbers in answers)


def test_a_file_of_points_is_beside_the_slice(folder: Path) -> None:
    (folder / "slices").mkdir()
    (folder / "slices" / "line.toml").write_text('points = "../two4.npy"')
    one, two = (
        json.loads(run(f"ask flips --model net.onnx {words} --json").stdout)
        for words in ("--slice slices/line.toml", "--points two4.npy")
    )
    assert one["flips"] == two["flips"]
    assert one["slice"] == two["slice"]


def test_a_file_names_the_corners_of_a_polygon_or_the_points_of_a_path(folder: Path) -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.5, 1.0], [0.0, 1.0]])
    np.save(folder / "four.npy", points)
    net = rs.read_onnx("flat.onnx")
    for kind, slice in (("polygon", rs.Polygon(points)), ("polyline", rs.Polyline(points))):
        (folder / "slice.toml").write_text(f'{kind} = "four.npy"')
        done = run("regions --model flat.onnx --slice slice.toml --json -o picture.png")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["linear_regions"] == rs.linear_regions(net, slice).n_linear_regions
        assert json.loads(done.stdout)["slice"]["size"] == slice.size
        done = run("decisions --model flat.onnx --slice slice.toml -o picture.png")
        assert done.exit_code == 0, done.output
    done = run("regions --model flat.onnx --slice slice.toml --count-only")
    assert done.exit_code == 2
    assert "got a Polyline" in done.output


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
