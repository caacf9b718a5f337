"""Every mistake is one sentence on stderr and exit code 2, never a traceback, with advice for the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_command import run

NET = """
from torch import nn

class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return {"hidden": x, "logits": self.inner(x)}
"""
BASE = '[base.data]\nname = "digits"\n[base.network]\nname = "mlp"\n'
TRAIN = "train --data digits --network mlp --runs runs"
SWEEP = "sweep run grid.toml --runs runs"
MISTAKES = {
    f"{TRAIN} --lr=fast": "Expected a number for --lr, got 'fast'. Write --lr 0.1, for",
    f"{TRAIN} --seed {2**70}": "from 0 to 2^64 - 1, got 1180591620717411303424",
    f"{TRAIN} --set lr": "such as training.momentum=0.5",
    f"{TRAIN} --set training.rate=1": "Expected a setting of training, got 'rate'",
    f"{TRAIN} --set network.options.width=0": "Expected width to be",
    f"{TRAIN} --set a={'[' * 50_000}": "32 deep",
    f"{TRAIN} --set network.options.{'.'.join('a' * 5000)}=1": "32 deep",
    "train --data mnist --network mlp": "or set the environment variable REGIONSCOPE_DATA to the folder",
    "train --data moons --network mlp": "got 'moons'. Did you mean 'two_moons'?",
    "train --data digits": "Expected --data with --network or --model",
    "train --data two_moons --model net.py:Several": "for each class, or choose one of several outputs with --h",
    "train three.toml --measure loss": "Expected a list of tables as measure, got 3",
    "sweep run nothere.toml --runs runs": "Expected a TOML file at 'nothere.toml', got nothing",
    "sweep run . --runs runs": "Is a directory",
    "sweep run billion.toml --runs runs": "Expected at most 100,000 runs, got a grid of 1,000,000,000",
    "sweep run grid.toml --runs grid.toml": "cannot be created",
    f"{SWEEP} --workers 0": "Expected a whole number of at least 1 for --workers, got '0'.",
    f"{SWEEP} --device tpu": "got 'tpu'",
    f"{SWEEP} --device meta": "Expected --device to compute numbers, got 'meta'",
    "sweep status --runs nothere": "No folder found at 'nothere'",
    "sweep table --runs .": "No runs found",
    "sweep export out.xls --runs .": "ends in .csv or .parquet",
    "sweep export no/out.csv --runs .": "does not exist",
    "data get nothing": "got 'nothing'. Choose from mnist, fashion_mnist, cifar10, cifar100.",
    "data get two_moons": "needs no download",
    "data get mnist --mirror here": "http://",
    "data get mnist --mirror http://127.0.0.1:9": "or pass another --mirror.",
    "paper run qi2023-figure77": "got 'qi2023-figure77'",
    "paper run qi2023-figure2 --size huge": "Expected a valid --size, got 'huge'. Choose from smoke, desk, full.",
    "paper report --archive nowhere": "No runs found at 'nowhere'",
    "shallow --width 0": "Expected a whole number of at least 1 for --width, got '0'.",
}
TOML = {
    "lists": "a = " + "[" * 100_000,
    "tables": "a = " + "{a = " * 50_000,
    "dots": f"{BASE}options.{'.'.join('a' * 100_000)} = 1\n",
    "quoted dots": BASE + '"a b".' * 50_000 + "a = 1\n",
    "heading": f"[{'.'.join('a' * 2000)}]\n",
    "digits": "seed = " + "1" * 5000,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    Path("net.py").write_text(NET)
    lists = [f'"{key}" = {list(range(1, 1001))}' for key in ("seed", "training.epochs", "training.batch_size")]
    Path("billion.toml").write_text(BASE + "[grid]\n" + "\n".join(lists))
    Path("grid.toml").write_text(BASE.replace("digits", "random_labels") + "[grid]\nseed = [0, 1]\n")
    Path("three.toml").write_text('measure = 3\n[data]\nname = "digits"\n[network]\nname = "mlp"\n')


def sentence(command: str) -> str:
    """What a command that must fail says."""
    done = run(command)
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("regionscope-lab: ")
    assert done.stderr.count("\n") == 1
    assert not Path("runs").exists()
    return done.stderr


@pytest.mark.parametrize("command", MISTAKES, ids=lambda command: command[:60])
def test_a_mistake_is_one_sentence_and_exit_code_2(command: str) -> None:
    assert MISTAKES[command] in sentence(command)


@pytest.mark.parametrize("name", TOML)
@pytest.mark.parametrize("command", ["train", "sweep run"])
def test_toml_that_is_nested_too_deep(command: str, name: str) -> None:
    Path("bad.toml").write_text(TOML[name])
    assert "bad.toml" in sentence(f"{command} bad.toml --runs runs")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody can make one")
@pytest.mark.parametrize("command", ["sweep run grid.toml", "train --data random_labels --network mlp"])
def test_runs_cannot_go_everywhere(command: str) -> None:
    assert "'/proc/xyz', which cannot be created" in sentence(f"{command} --runs /proc/xyz")
