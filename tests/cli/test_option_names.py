"""The library speaks of Python arguments, the commands of their options."""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import command_line
import lab_command
import regionscope
import regionscope_lab
from regionscope.cli.option_names import PHRASES, in_options, options_of

PACKAGES = [Path(package.__file__).parent for package in (regionscope, regionscope_lab)]
GIT = {"--always", "--dirty", "--abbrev", "--match", "--error-unmatch"}
OF_OTHER_PROGRAMS = {
    "data/files.py": {"--force"},  # a whole command, which begins with regionscope-lab data get
    "provenance.py": GIT,
    "sweep/cluster.py": {"--nthreads", "--resources"},  # of dask worker
    "papers/pages.py": {"--size"},  # the command that makes the runs of a page
}
GRID = 'base = {data = "mnist", network = "mlp", training.epochs = 1}\ngrid.seed = [0]\n'


@functools.cache
def texts_outside_of_cli() -> list[tuple[str, str]]:
    """File and text of every string constant of the two packages outside ``cli/``."""
    found = []
    for path in [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]:
        [name] = [path.relative_to(package).as_posix() for package in PACKAGES if path.is_relative_to(package)]
        if not name.startswith("cli/"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            found += [(name, n.value) for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return found


def test_the_library_names_no_option() -> None:
    found: dict[str, set[str]] = {}
    for name, text in texts_outside_of_cli():
        for word in re.findall(r"(?<!-)--[a-z][a-z-]*", text):
            found.setdefault(name, set()).add(word)
    assert found == OF_OTHER_PROGRAMS


def test_the_library_still_says_what_is_replaced() -> None:
    texts = [text for _, text in texts_outside_of_cli()]
    assert [phrase for _, phrase, _ in PHRASES if not any(phrase in text for text in texts)] == []


def test_a_failed_run_of_a_sweep_names_options_too(folder: Path) -> None:
    (folder / "grid.toml").write_text(GRID)
    done = lab_command.run("sweep run grid.toml --runs runs")
    assert done.exit_code == 1, done.output
    assert re.search("^failed: .* or set the environment variable REGIONSCOPE_DATA", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("program", "command", "advice"),
    [
        (command_line, "count --model net.py:build --data x2.npy", ", or leave --dask out."),
        (lab_command, "sweep run grid.toml", ", or leave --dask out and use --workers."),
    ],
)
def test_a_missing_library_is_that_of_the_option(
    program: ModuleType, command: str, advice: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "grid.toml").write_text(GRID.replace("mnist", "two_moons"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = program.run(f"{command} --dask local:1")
    assert done.exit_code == 2, done.output
    assert "--dask needs Dask, which" in done.stderr
    assert advice in done.stderr


def option(name: str, *spelled: str) -> Any:
    return SimpleNamespace(name=name, opts=list(spelled))


OPTIONS = [
    option("dim", "--dim"),
    option("head", "--head"),
    option("layers", "--layers"),
    option("what", "what"),
]


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Pass dim=3.", "Pass --dim 3."),
        ("Choose output=, a name.", "Choose --head, a name."),
        ('Pass output="logits", or output=0.', "Pass --head logits, or --head 0."),
        ("No 'x' with output='x'.", "No 'x' with --head 'x'."),
        ("Select others with layers=[...].", "Select others with --layers."),
        ("Expected dim to be 1, got 2. Let dim to be.", "Expected --dim to be 1, got 2. Let dim to be."),
        ("Build it with dim=True, or Truer dim=Trues.", "Build it with --dim, or Truer --dim Trues."),
        ("Keep it, as in x.flatten(1) and x.mean(dim=1).", "Keep it, as in x.flatten(1) and x.mean(dim=1)."),
        ("Expected a file, got runs/dim=3/net.py.", "Expected a file, got runs/dim=3/net.py."),
        ("The network's dim=3 isn't in 'dim=3'.", "The network's --dim 3 isn't in 'dim=3'."),
        ("dim = 3, grid=5, what=5, max_dim=2 and slice.dim=1", "dim = 3, grid=5, what=5, max_dim=2 and slice.dim=1"),
        ("Pass target=i or root=.", "Pass target=i or root=."),
    ],
)
def test_only_arguments_that_are_options_of_the_command_change(message: str, wanted: str) -> None:
    with options_of(OPTIONS):
        assert in_options(message) == wanted
    assert in_options(message) == message  # outside of a command
