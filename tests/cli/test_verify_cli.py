"""``regionscope verify``, and ONNX files and planes of two inputs in ``regions`` and ``decision``."""

from __future__ import annotations

import hashlib
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

pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
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


def test_the_json_lists_every_file_of_the_network(stored: str, files: tuple[Path, Path, float]) -> None:
    network, property, largest = files
    property.write_text(PROPERTY.format(largest + 0.5))
    document = json.loads(run("verify", network, property, "--json").stdout)
    expected = [network, property] if stored == "inlined" else [network, network.with_name("net.onnx.data"), property]
    assert document["provenance"]["files"] == {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in expected
    }


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


@pytest.mark.usefixtures("stored")
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
