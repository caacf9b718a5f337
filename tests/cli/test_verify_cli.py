"""``regionscope verify``, and ONNX files and planes of two inputs in ``regions`` and ``decision``."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import regionscope as rs
from onnx_graphs import relu_network
from regionscope.cli import app, load
from regionscope.cli.input_plane import read_plane

pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
pytestmark = pytest.mark.usefixtures("stored")
PROPERTY = """(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (<= X_0 1)) (assert (>= X_0 -1)) (assert (<= X_1 1)) (assert (>= X_1 -1))
(assert (>= Y_0 {}))
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, float]:
    network = relu_network(tmp_path / "net.onnx", [2, 8, 2])
    part = rs.linear_regions(rs.read_onnx(network), rs.Box.between(-1, 1, (2,)))
    return network, tmp_path / "p.vnnlib", float(part.outputs[:, 0].max())


def test_the_timeout_includes_reading(files: tuple[Path, Path, float], monkeypatch: pytest.MonkeyPatch) -> None:
    network, property, largest = files
    property.write_text(PROPERTY.format(largest + 0.5))
    whole = load.load_model
    monkeypatch.setattr(load, "load_model", lambda name, **_: time.sleep(0.3) or whole(name))
    assert run("verify", network, property, "--timeout", 0.2).stdout.startswith("timeout")
    assert run("verify", network, property, "--timeout", 60).stdout.startswith("unsat")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_the_timeout_interrupts_reading(files: tuple[Path, Path, float], monkeypatch: pytest.MonkeyPatch) -> None:
    network, property, largest = files
    property.write_text(PROPERTY.format(largest + 0.5))
    monkeypatch.setattr(load, "load_model", lambda *_, **__: time.sleep(60))
    start, before = time.monotonic(), signal.getsignal(signal.SIGALRM)
    done = run("verify", network, property, "--timeout", 0.1, "-o", property.with_name("result.txt"))
    assert time.monotonic() - start < 30
    assert (done.exit_code, property.with_name("result.txt").read_text()) == (0, "timeout\n")
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_version_two_names_the_tensors_of_the_witness(files: tuple[Path, Path, float]) -> None:
    """The format of the VNN-LIB 2 standard: each tensor as it is declared, then its entries, one in a line."""
    network, property, largest = files
    bounds = "".join(f"(assert (and (<= In[0,{i}] 1) (>= In[0,{i}] -1)))" for i in (0, 1))
    declared = "(declare-network f (declare-input In float32 [1, 2]) (declare-output Out real [2]))"
    property.write_text(f"(vnnlib-version <2.0>) {declared} {bounds} (assert (>= Out[0] {largest - 0.5}))")
    assert run("verify", network, property, "-o", property.with_name("result.txt")).exit_code == 0
    lines = property.with_name("result.txt").read_text().splitlines()
    assert [lines[0], lines[1], lines[4]] == ["sat", "In float32 [1,2]", "Out real [2]"]
    x, y = torch.tensor([float(line) for line in lines[2:4]]), [float(line) for line in lines[5:]]
    assert rs.read_onnx(network)(x[None])[0].tolist() == pytest.approx(y, abs=1e-5)
    assert y[0] == pytest.approx(largest, abs=1e-5)


def test_a_witness_is_printed_and_written(files: tuple[Path, Path, float], tmp_path: Path) -> None:
    network, property, largest = files
    property.write_text(PROPERTY.format(largest - 0.5))
    done = run("verify", network, property, "-o", tmp_path / "result.txt", "-o", tmp_path / "result.json")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("sat\n")
    verdict, assignment = (tmp_path / "result.txt").read_text().split("\n", 1)
    assert verdict == "sat"
    numbers = dict(pair.strip("()").split() for pair in assignment.strip()[1:-1].split("\n"))
    assert list(numbers) == ["X_0", "X_1", "Y_0", "Y_1"]
    assert float(numbers["Y_0"]) == pytest.approx(largest, abs=1e-5)
    assert json.loads((tmp_path / "result.json").read_text())["margin"] == pytest.approx(0.5)


def test_unsat_gives_the_closest_miss(files: tuple[Path, Path, float], tmp_path: Path) -> None:
    network, property, largest = files
    property.write_text(PROPERTY.format(largest + 0.5))
    done = run("verify", network, property, "-o", tmp_path / "result.txt")
    assert done.exit_code == 0
    assert "margin: -0.5" in done.output
    assert (tmp_path / "result.txt").read_text() == "unsat\n"
    fixed = run("verify", network, property, "--fix", "0=0.25", "--json")
    assert json.loads(fixed.output)["margin"] <= -0.5
    both, twice = (
        json.loads(run("verify", network, property, *options, "--json").output)["margin"]
        for options in (["--fix", "0=0.25,1=0.5"], ["--fix", "0=0.25", "--fix", "1=0.5"])
    )
    assert both == twice < json.loads(fixed.output)["margin"]


def test_an_error_is_written_for_the_competition(files: tuple[Path, Path, float], tmp_path: Path) -> None:
    network, property, _ = files
    property.write_text("(assert (or))")
    done = run("verify", network, property, "-o", tmp_path / "result.txt")
    assert done.exit_code == 2
    assert (tmp_path / "result.txt").read_text() == "error\n"
    property.write_text(PROPERTY.format(0))
    assert run("verify", network, property, "--fix", "nought").exit_code == 2
    assert "load the weights in this function." in run("verify", "net.pt", property).output


def test_a_fault_is_one_sentence_too(
    files: tuple[Path, Path, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that no function of ours raises, here from the reference evaluator."""
    network, property, largest = files
    property.write_text(PROPERTY.format(largest - 0.5))
    monkeypatch.delattr("onnx.reference.ReferenceEvaluator.run")
    done = run("verify", network, property, "-o", tmp_path / "result.txt")
    assert done.exit_code == 2
    assert "verification failed with AttributeError" in " ".join(done.stderr.split())
    assert "Traceback" not in done.output
    assert (tmp_path / "result.txt").read_text() == "error\n"
    refused = run("verify", network, property, "-o", tmp_path / "b.txt", "-o", tmp_path / "none/b.json")
    assert (refused.exit_code, (tmp_path / "b.txt").read_text()) == (2, "error\n")


def test_weights_that_changed_beside_the_file(tmp_path: Path) -> None:
    """The witness is confirmed by the weights that were searched, or not at all."""
    path = relu_network(tmp_path / "net.onnx", [2, 8, 2])
    network = rs.read_onnx(path)
    relu_network(path, [2, 8, 2], seed=5)
    property = tmp_path / "p.vnnlib"
    property.write_text(PROPERTY.format(-100))
    with pytest.raises(rs.InputError, match="changed"):
        rs.verify(network, rs.read_vnnlib(property))


def test_a_long_witness_says_that_it_is_cut(tmp_path: Path) -> None:
    network, property = relu_network(tmp_path / "net.onnx", [64, 8, 1]), tmp_path / "p.vnnlib"
    bounds = [f"(assert (<= X_{i} {int(i < 2)})) (assert (>= X_{i} 0))" for i in range(64)]
    declared = [*(f"(declare-const X_{i} Real)" for i in range(64)), "(declare-const Y_0 Real)"]
    property.write_text("\n".join([*declared, *bounds, "(assert (<= Y_0 1000))"]))
    done = run("verify", network, property, "-o", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    line = next(line for line in done.stdout.splitlines() if line.startswith("witness: "))
    assert line.endswith(", ... (64 inputs; --output and --json have all)]")
    assert len(line.split(", ...")[0].split(",")) == 20
    assert len(json.loads((tmp_path / "found.json").read_text())["witness"]) == 64


def test_two_inputs_vary_in_their_own_units(tmp_path: Path) -> None:
    network = relu_network(tmp_path / "net.onnx", [4, 10, 3])
    options = ["--model", network, "--vary", 0, 2, "--range", "0=0:100,2=-1:1", "--at", "1=5,3=0.5"]
    options += ["--scaling", "0=50:25,1=5:2", "-o", tmp_path / "found.json", "-o", tmp_path / "found.png"]
    done = run("regions", *options)
    assert done.exit_code == 0, done.output
    assert "input 0 in [0, 100], input 2 in [-1, 1]; input 1 = 5, input 3 = 0.5." in done.output
    assert "input 0 = (value - 50) / 25" in done.output
    found = json.loads((tmp_path / "found.json").read_text())
    box = rs.Box([0.0, 0.0, 0.0, 0.5], [[1.0, 0, 0, 0], [0, 0, 1.0, 0]], [2.0, 1.0])
    part = rs.linear_regions(rs.read_onnx(network), box)
    assert found["activation_regions"] == part.n_activation_regions
    assert found["plane"]["scaling"]["0"] == {"offset": 50.0, "unit": 25.0}
    assert (tmp_path / "found.png").exists()
    assert run("decisions", *options[:-2]).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vary", 0, 1, "--at", "2=0,3=0"], "got no --range"),
        (["--vary", 0, 1, "--range", "0=0:1,1=0:1"], "got no value for 2, 3. For example, pass --at 2=0,3=0."),
        (["--vary", 0, 1, "--range", "0=0:1,1=0:1", "--at", "1=0,2=0,3=0"], "got 1 in both. For example, pass --at 2="),
        (["--vary", 0, 1, "--range", "0=0:1,1=0:1", "--at", "1=0,2=0.5"], "for 3. For example, pass --at 2=0.5,3=0."),
        (["--vary", 0, 9, "--range", "0=0:1,9=0:1", "--at", "1=0,2=0,3=0"], "0 to 3"),
        (["--vary", 0, 1, "--range", "0=1:0,1=0:1", "--at", "2=0,3=0"], "LO < HI"),
        (["--vary", 0, 0, "--range", "0=0:1", "--at", "2=0,3=0"], "two inputs"),
        (["--vary", 0, 1, "--range", "0=0:1,1=0", "--at", "2=0,3=0"], "--range K=LO:HI"),
        (["--vary", 0, 1, "--range", "0=0:1,1=0:nan", "--at", "2=0,3=0"], "--range K=LO:HI"),
        (["--vary", 0, 1, "--range", "0=0:1,1=0:1", "--at", "2=0,3=0", "--scaling", "0=1:0"], "positive units"),
        (["--at", "2=0"], "--vary I J"),
        (["--vary", 0, 1, "--range", "0=0:1,1=0:1", "--at", "2=0,3=0", "--box", -1, 1], "one of --points"),
    ],
)  # fmt: skip
def test_a_wrong_plane_is_one_sentence(options: list[object], message: str, tmp_path: Path) -> None:
    network = relu_network(tmp_path / "net.onnx", [4, 6, 3])
    done = run("regions", "--model", network, *options)
    assert done.exit_code == 2
    assert message in done.output


def test_numbers_at_the_axes_are_those_of_the_user() -> None:
    from matplotlib.figure import Figure

    plane = read_plane((0, 1), "0=0:100,1=-1:1", "2=3", "0=50:25")
    assert plane is not None
    ax = Figure().add_subplot()
    ax.set_xlim(-2, 2)
    ax.set_ylim(-1, 1)
    plane.label(ax)
    assert [float(label.get_text()) for label in ax.get_xticklabels()][:3] == [0, 20, 40]
    assert ax.get_xlabel() == "input 0"
    far = read_plane((0, 1), "0=0:20000,1=-3.14:3.14", "2=3", None)
    assert far is not None
    far.label(ax := Figure().add_subplot())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "5000", "10000", "15000", "20000"]
    assert [label.get_text().replace("\N{MINUS SIGN}", "-") for label in ax.get_yticklabels()] == ["-2", "0", "2"]
    assert "input 2 = 3" in ax.get_title()
