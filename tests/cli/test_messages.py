"""What a command says about a mistake: what it expected, what it got, and an advice that works on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from regionscope.cli import app
from regionscope.cli.load import wrong_shape
from regionscope.network.onnx import OnnxNetwork
from regionscope_lab.cli import app as lab

NET = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))

def line():
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))

def conv():
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 3))
"""
MODEL = "--model net.py:build"
DATA = f"{MODEL} --data x.npy"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("net.py").write_text(NET)
    np.save("x.npy", rng.normal(size=(30, 2)))
    np.save("four.npy", rng.normal(size=(30, 4)))
    np.save("images.npy", rng.normal(size=(30, 1, 2, 2)))
    Path("labelled.csv").write_text("a,b,label\n0.1,0.2,0\n0.3,0.4,1\n0.5,0.1,1\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("complexity --model net.py:conv --data images.npy --layers conv", "0; with --linear-outputs also 3."),
        (f"count {MODEL} --data net.py", "Expected an .npy, .npz, .csv or .pt file of numbers, got net.py."),
        (f"level-set {MODEL} --box -1 1 --classes 0,9", "Number the classes from 0, or use --value for a network with"),
        (f"regions {MODEL} --box 0 1 --memory 10", "Write 2147483648 for 2 GiB, or leave it out"),
        ("level-set --model net.py:line --box -1 1", "Run regionscope ask flips, or pass --points with 3 rows."),
        (f"regions {MODEL} --box -1e300 1e300", "at most 1e+100, got 1e+300, for which sizes overflow. Use another"),
        (f"level-set {MODEL} --box -1 1 --minus 1", "Expected --index I for a network with"),
        (f"level-set {MODEL} --box -1 1", "the difference of two. Pass --classes I,J for the boundary"),
        (
            f"regions {MODEL} --plane 0=0:1,5=0:1",
            "Expected inputs 0 to 1, the only ones of the network, got 5.",
        ),
        ("data get nothing", "got 'nothing'. Choose from mnist, fashion_mnist, cifar10, cifar100."),
        ("explore x.npy", "got 'x.npy', which is another file or damaged. Write one with Partition.save(path)."),
        (
            f"count {MODEL} --data labelled.csv",
            "got 3 in each row. Remove the last column if it holds labels.",
        ),
        (f"complexity {MODEL} --data four.npy", "got 4 in each row. Pass rows of 2 numbers."),
        (f"count {DATA} --dim 500", "Pass more inputs or lower --dim."),
        (f"count {DATA} --alpha 1 0", "Expected --alpha to be two numbers lo < hi with dim * lo < hi, got 1.0 and 0.0"),
        (
            f"complexity {DATA} --random 5 --domain 1 0",
            "Expected --domain LO HI with LO < HI, got (1.0, 0.0). Write --domain",
        ),
        (f"count {DATA} --until 2", "Expected --until to be a relative standard error"),
        (f"count {DATA} --head logits", "Leave --head out."),
        (f"complexity {DATA} --radius -1", "Expected --radius to be positive, got -1.0."),
        (f"count {DATA} --slices 0", "a whole number of at least 1 for --slices, got '0'. Write --slices 100, for"),
        (f"regions {MODEL} --box a b", "Expected two numbers for --box, got 'a', 'b'. Write --box 0 1, for example."),
        (
            "train --data two_moons --network mlp --lr=fast",
            "Expected a number for --lr, got 'fast'. Write --lr 0.1, for",
        ),
        ("verify a b --timeout -1", "Expected a number of at least 0 for --timeout, got '-1'."),
        ("shallow flow --width 0", "Expected a whole number of at least 1 for --width, got '0'."),
        ("sweep run a.toml --workers 0", "Expected a whole number of at least 1 for --workers, got '0'."),
        (f"count {DATA} --method best", "Expected one of grid, refined, exact for --method, got 'best'. Choose one"),
    ],
)
def test_a_mistake_is_one_sentence_with_advice_for_the_command_line(command: str, said: str) -> None:
    of_lab = command.split()[0] in ("data", "train", "shallow", "sweep")
    done = CliRunner().invoke(lab if of_lab else app, command.split())
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.startswith(f"regionscope{'-lab' if of_lab else ''}: Expected")
    assert done.stderr.count("\n") == 1


def test_rows_that_lack_the_shape_of_an_onnx_file() -> None:
    class Acas(OnnxNetwork):
        def __init__(self) -> None:
            super(OnnxNetwork, self).__init__()
            self.input_shape = (1, 1, 5)

    said = "Expected inputs of shape (1, 1, 5), got (5,). Add --input-shape 1,1,5."
    assert wrong_shape(Acas(), (5,)) == said
    assert wrong_shape(Acas(), (1, 1, 5)) == ""
