"""The commands: what they print and write, and one sentence with exit code 2 for every mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import regionscope as rs
from command_line import run
from devices import needs_cuda
from regionscope.cli import options, running
from regionscope.exact.budget import Budget
from regionscope_lab.zoo import mlp

NET = """
import torch
from torch import nn
from regionscope_lab.zoo import mlp

def build():
    return mlp([2, 8, 8, 2], seed=1)

def costs():
    return mlp([2, 12, 12, 5], seed=4)

def cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))

def gelu():
    return nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))

def cube():
    return mlp([3, 2, 2])

def wide():
    return mlp([4, 1, 2])

def poisoned():
    model = mlp([2, 4, 2])
    model[0].weight.data[0, 0] = float("nan")
    return model

class Untraceable(nn.Module):
    def forward(self, x):
        return x * x.tolist()[0][0]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "triangle.npy", rng.normal(size=(3, 2)))
    np.save(tmp_path / "images.npy", rng.normal(size=(2, 16)))
    np.save(tmp_path / "many.npy", rng.normal(size=(20, 2)))
    np.save(tmp_path / "twice.npy", np.ones((2, 2)))
    np.save(tmp_path / "nan.npy", np.full((2, 2), np.nan))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_regions_are_counted_without_holding_them(folder: Path) -> None:
    whole = run("regions --model net.py:build --box -1 1 -o whole.json")
    done = run("regions --model net.py:build --box -1 1 --count-only -o out.json")
    assert (whole.exit_code, done.exit_code) == (0, 0), done.output
    expected, numbers = (json.loads((folder / name).read_text()) for name in ("whole.json", "out.json"))
    for name in ("activation_regions", "activation_regions_after_layer", "slice"):
        assert numbers[name] == expected[name]
    assert "linear_regions" not in numbers
    assert f"{numbers['activation_regions']:,}" in done.output
    refused = run("regions --model net.py:build --box -1 1 --count-only -o out.png")
    assert refused.exit_code == 2
    assert "without --certify, a figure or an .npz file" in " ".join(refused.output.split())


def test_regions_on_a_box(folder: Path) -> None:
    done = run("regions --model net.py:build --box -1 1 -o out.json -o out.png -o out.npz")
    assert done.exit_code == 0, done.output
    part = rs.linear_regions(mlp([2, 8, 8, 2], seed=1), rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0))
    numbers = json.loads((folder / "out.json").read_text())
    assert numbers["activation_regions"] == part.n_activation_regions
    assert numbers["linear_regions"] == part.n_linear_regions
    assert numbers["activation_regions_after_layer"] == part.by_layer
    assert numbers["slice"] == {"dim": 2, "input_shape": [2], "size": 4.0}
    assert str(part.n_linear_regions) in done.stdout
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert rs.Partition.load(folder / "out.npz").n_linear_regions == part.n_linear_regions


def test_decision_on_a_triangle_to_stdout(folder: Path) -> None:
    done = run("decisions --model net.py:build --points triangle.npy --json -o out.svg -o out.npz")
    assert done.exit_code == 0, done.output
    dec = rs.decision_regions(mlp([2, 8, 8, 2], seed=1), rs.Simplex(np.load("triangle.npy")))
    numbers = json.loads(done.stdout)
    assert numbers["decision_regions"] == dec.count == sum(numbers["decision_regions_with_label"].values())
    assert (folder / "out.svg").exists()
    assert rs.DecisionRegions.load(folder / "out.npz").count == dec.count


def test_classes_have_names_in_the_table_the_json_and_the_picture(folder: Path) -> None:
    words = "decisions --model net.py:costs --box -3 3 --class-names one,two,three,four,five"
    done = run(f"{words} -o out.json -o out.svg")
    assert done.exit_code == 0, done.output
    numbers = json.loads((folder / "out.json").read_text())
    assert numbers["class_names"] == ["one", "two", "three", "four", "five"]
    for label in numbers["decision_regions_with_label"]:
        name = numbers["class_names"][int(label)]
        assert f"with label {label} ({name})" in done.stdout
        assert f"<!-- {name} -->" in (folder / "out.svg").read_text()  # matplotlib draws letters as shapes
    assert json.loads(run("decisions --model net.py:build --box -3 3 --json").stdout)["class_names"] is None


def test_wrong_class_names_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["regionscope.cli.regions"], "decision_regions", None)
    for names, sentence in {
        "one,two": "Expected 5 class names, got 2. Pass one name for each class, in the order of the labels.",
        "a,b,c,d,e,f": "Expected 5 class names, got 6.",
        "a,,c,d,e": "Expected --class-names such as cat,dog, got 'a,,c,d,e'.",
    }.items():
        done = run(f"decisions --model net.py:costs --box -3 3 --class-names {names}")
        assert done.exit_code == 2
        assert sentence in " ".join(done.output.split())


def test_the_lowest_output_is_the_largest_of_the_negated_network(folder: Path) -> None:
    costs, square = mlp([2, 12, 12, 5], seed=4), rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3.0)
    lowest, highest = (
        json.loads(run(f"decisions --model net.py:costs --box -3 3 --json {flag}").stdout) for flag in ("--lowest", "")
    )
    costs[-1].weight.data.neg_()
    costs[-1].bias.data.neg_()
    dec = rs.decision_regions(costs, square)
    assert (lowest["lowest"], highest["lowest"]) == (True, False)
    assert lowest["decision_regions"] == dec.count
    assert lowest["decision_regions_with_label"] == {str(i): n for i, n in sorted(Counter(dec.labels.tolist()).items())}
    assert lowest["decision_regions_with_label"] != highest["decision_regions_with_label"]


def test_weights_change_the_answer(folder: Path) -> None:
    other = mlp([2, 8, 8, 2], seed=9)
    safetensors.torch.save_file(other.state_dict(), folder / "w.safetensors")
    done = run("regions --model net.py:build --weights w.safetensors --box -1 1 --json")
    part = rs.linear_regions(other, rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0))
    assert json.loads(done.stdout)["activation_regions"] == part.n_activation_regions


def test_flat_points_take_the_input_shape_and_the_engine_its_options(folder: Path) -> None:
    done = run(
        "regions --model net.py:cnn --points images.npy --input-shape 1,4,4 --json "
        "--memory 64MiB --max-regions 1000 -o out.pdf"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["slice"]["input_shape"] == [1, 4, 4]
    assert "wrote out.pdf" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "regions --model net.py:build --box -1 1",
        "decisions --model net.py:build --box -1 1",
        "count --model net.py:build --data many.npy --slices 2 --method exact",
    ],
)
def test_memory_is_what_came_and_else_left_to_the_library(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []
    real = Budget.of

    def record(device: torch.device, memory: int | None, max_regions: int | None) -> Budget:
        seen.append(memory)
        return real(device, memory, max_regions)

    monkeypatch.setattr(Budget, "of", record)
    assert run(command).exit_code == 0
    assert set(seen) == {None}
    seen.clear()
    assert run(f"{command} --memory 64MiB").exit_code == 0
    assert set(seen) == {64 * 2**20}


@needs_cuda
@pytest.mark.parametrize("command", ["regions", "decisions"])
def test_a_gpu_gives_the_same_counts(command: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        done = run(f"{command} --model net.py:build --box -1 1 --device {device} --json -o {device}.png")
        assert done.exit_code == 0, done.output
        numbers = json.loads(done.stdout)
        found.append({name: numbers[name] for name in numbers if name.endswith("regions")})
    assert found[0] == found[1] != {}


def test_weights_that_the_code_makes_are_named(folder: Path) -> None:
    assert "The weights are those that net.py:build creates" in run("regions --model net.py:build --box -1 1").stdout
    assert "The weights are" not in run("regions --model net.py:build --box -1 1 --json").stdout
    torch.save(mlp([2, 8, 8, 2]).state_dict(), folder / "own.pt")
    own = run("decisions --model net.py:build --weights own.pt --box -1 1")
    assert own.exit_code == 0, own.output
    assert "The weights are" not in own.stdout


@pytest.mark.parametrize("command", ["regions", "ask extremes --index 0"])
def test_a_box_of_many_dimensions_has_a_limit(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = run(f"{command} --model net.py:wide --box -1 1 --json")
    tiny = "A slice of 4 dimensions is practical for tiny networks only"
    way = "--plane for the plane of two inputs"
    limited = f"{tiny}. The limit is {{}} regions; pass --max-regions N to raise it, or use {way}.\n"
    assert wide.stderr == limited.format("20,000")
    assert json.loads(wide.stdout)
    assert run(f"{command} --model net.py:cube --box -1 1 --json").stderr == ""
    monkeypatch.setattr(options, "MANY_REGIONS", 1)
    many = run(f"{command} --model net.py:wide --box -1 1 --json")
    assert many.exit_code == 2
    assert many.stderr.startswith(limited.format("1"))
    assert "Expected at most --max-regions 1 regions, got more after" in many.stderr
    assert "Raise --max-regions" in many.stderr
    assert run(f"{command} --model net.py:cube --box -1 1").exit_code == 0  # no limit up to three dimensions
    raised = run(f"{command} --model net.py:wide --box -1 1 --max-regions 20000 --json")
    assert raised.stderr == f"{tiny}, and can take hours. Use {way}.\n"
    assert raised.exit_code == 0


def test_three_dimensions_are_counted() -> None:
    assert run("regions --model net.py:cube --box -1 1").exit_code == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("regions --model nothere.py:build --box -1 1", "does not exist"),
        ("regions --model net.py:nothere --box -1 1", "Expected 'nothere' in net.py"),
        ("regions --model net.py:build --box -1 1 --weights nothere.pt", "does not exist"),
        ("regions --model net.py:build --points nothere.npy", "does not exist"),
        ("regions --model net.py:build", "--box LO HI and --slice FILE.toml, got none."),
        ("regions --model net.py:build --box -1 1 --points triangle.npy", "and --slice FILE.toml, got several."),
        ("level-set --model net.py:build", "one of --points FILE, --plane I=LO:HI,J=LO:HI,K=VALUE,..., --box LO HI"),
        ("regions --model net.py:build --box 1 -1", "smaller"),
        ("regions --model net.py:build --points images.npy", "16"),
        ("regions --model net.py:cnn --box -1 1", "--input-shape"),
        ("regions --model net.py:cnn --box -1 1 --input-shape 1,4,4", "for a box, got 16"),
        ("regions --model net.py:cnn --points images.npy --input-shape 4x4", "such as 2 or 3,32,32"),
        ("regions --model net.py:cnn --points images.npy", "shape"),
        ("regions --model net.py:gelu --box -1 1", "GELU"),
        ("decisions --model net.py:gelu --box -1 1", "GELU"),
        ("regions --model net.py:poisoned --box -1 1", "linear1.weight"),
        ("regions --model net.py:Untraceable --box -1 1 --input-shape 2", "forward"),
        ("decisions --model net.py:build --points twice.npy", "same"),
        ("decisions --model net.py:build --points nan.npy", "NaN"),
        ("decisions --model net.py:build --points many.npy", "got 20, whose hull has 19 dimensions"),
        (
            "decisions --model net.py:build --points net.py",
            "Expected an .npy, .npz, .csv or .pt file of numbers, got net.py. Write",
        ),
        ("regions --model net.py:build --box -1 1 --memory lots", "--memory"),
        ("regions --model net.py:build --box -1 1 --device moon", "got 'moon'"),
        ("decisions --model net.py:build --box -1 1 --device moon", "got 'moon'"),
        ("regions --model net.py:build --box -1 1 -o out.gif", ".png"),
        ("regions --model net.py:build --box -1 1 -o nothere/out.png", "does not exist"),
        ("regions --model net.py:build --box -1 1 -o nothere/out.json", "does not exist"),
        (
            "regions --model net.py:build --box -1 1 -o .",
            "Expected an --output file that ends in .png, .pdf, .svg, .json or .npz, got '.'",
        ),
        ("regions --model net.py:cube --box -1 1 -o out.png", "dimension 1 or 2"),
        (
            "regions --model net.py:build --box -1 1 --max-regions 3",
            "relu1'. Raise --max-regions or use a smaller",
        ),
        (
            "decisions --model net.py:build --box -1 1 --max-regions 3",
            "at most --max-regions 3 regions, got more after",
        ),
        ("quickstart -o net.py", "is a file"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(command: str, words: str) -> None:
    done = run(command)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.startswith("regionscope: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.output


@pytest.mark.parametrize(("command", "function"), [("regions", "linear_regions"), ("decisions", "decision_regions")])
def test_a_limit_is_named_as_it_is(command: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(f"{command} --model net.py:build --box -1 1 --max-regions 3")
    limit = (
        r"Expected at most --max-regions 3 regions, got more after '\w+'\. Raise --max-regions or use a smaller slice\."
    )
    assert re.fullmatch(f"regionscope: {limit}\n", done.stderr)
    sentence = "Stopped at the time limit after nonlinearity 1 of 2. Raise the time limit."

    def late(*_: Any, **__: Any) -> None:
        raise rs.LimitReached(sentence)

    monkeypatch.setattr(f"regionscope.cli.regions.{function}", late)
    done = run(f"{command} --model net.py:build --box -1 1 --max-regions 3")
    assert (done.exit_code, done.stderr) == (2, f"regionscope: {sentence}\n")


def test_weights_of_another_network(folder: Path) -> None:
    torch.save(mlp([2, 4, 2]).state_dict(), folder / "w.pt")
    done = run("regions --model net.py:build --box -1 1 --weights w.pt")
    assert done.exit_code == 2
    assert "Expected weights that fit the model" in done.stderr


@pytest.mark.parametrize("command", ["regions", "regions --model net.py:build --device nothere", "nothere"])
def test_wrong_options_exit_with_2(command: str) -> None:
    assert run(command).exit_code == 2


def test_python_dash_m_is_the_same_program() -> None:
    command = [sys.executable, "-m", "regionscope", "regions", "--box", "a", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, run("regions --box a b").stderr)
    assert done.stderr.startswith("regionscope: ")


def test_certify_reports_a_proof(folder: Path) -> None:
    done = run("regions --model net.py:build --box -1 1 --certify -o out.json")
    assert done.exit_code == 0, done.output
    assert "certified: " in done.output
    found = json.loads((folder / "out.json").read_text())
    assert found["certificate"]["certified"] is True
    assert found["certificate"]["counts"]["linear"] == found["linear_regions"]
    done = run("decisions --model net.py:build --points triangle.npy --certify --json")
    assert json.loads(done.stdout)["certificate"]["counts"]["decision"] == json.loads(done.stdout)["decision_regions"]


@pytest.mark.parametrize(
    "command", ["regions", "regions --count-only", "decisions", "ask topology", "ask extremes --index 0"]
)
def test_progress_is_lines_where_there_is_no_terminal(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_EVERY", 0.0)
    words = f"{command} --model net.py:build --box -1 1"
    assert "Cutting" not in run(words).stderr
    assert "Cutting" not in run(f"{words} --no-progress").stderr
    done = run(f"{words} --progress --json")
    assert done.exit_code == 0, done.output
    *lines, last = re.findall(r"^Cutting: (.*)$", done.stderr, re.MULTILINE)
    shares = [int(re.fullmatch(r"(\d+)% \(\d+ s left\)", line)[1]) for line in lines]
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert last == "done in 0 s"
    json.loads(done.stdout)
