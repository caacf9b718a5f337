"""Help and shell completion come from the stored table, which agrees with the commands and loads none of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from regionscope.cli import app, table
from regionscope.cli.app import COMMANDS

STORED = table.read()
LEAVES = [
    (name, *inside)
    for name, entry in STORED.items()
    for inside in ([(each,) for each in entry["commands"]] if "commands" in entry else [()])
]


def test_the_table_is_what_the_signatures_say() -> None:
    assert table.describe(COMMANDS) == STORED, "run: python tools/make_cli_table.py"
    assert list(STORED) == list(COMMANDS)  # == does not compare the order


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_help_is_that_of_the_command_itself(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    real = table._load(COMMANDS[path[0]])
    if not isinstance(real, typer.Typer):
        alone = typer.Typer(no_args_is_help=True)
        alone.command(name=path[0])(real)
        alone.callback()(lambda: None)
        wanted = CliRunner().invoke(alone, [path[0], "--help"], prog_name="regionscope").output
    else:
        alone = typer.Typer()
        alone.add_typer(real, name=path[0])
        wanted = CliRunner().invoke(alone, [*path, "--help"], prog_name="regionscope").output
    found = CliRunner().invoke(app, [*path, "--help"], prog_name="regionscope").output
    assert "Usage: regionscope" in found
    assert re.fullmatch(r"[\n -~─│╭╮╰╯]*", found), "rich reads :KEY: as an emoji"
    assert found == wanted


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["sweep", "--help"], ["study", "run", "--help"]])
def test_help_imports_no_large_library(words: list[str]) -> None:
    code = f"""
import sys
from regionscope.cli import app
try:
    app({words!r})
except SystemExit:
    pass
print(sorted(sys.modules.keys() & {{"torch", "numpy", "scipy", "matplotlib"}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def completions(words: str) -> list[str]:
    """What bash is offered after these words."""
    asked = {"_REGIONSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": f"regionscope {words}"}
    environment = {**os.environ, **asked, "COMP_CWORD": str(len(words.split(" ")))}
    code = "from regionscope.cli import app; app(prog_name='regionscope')"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("st", ["study"]),
        ("sweep ex", ["export"]),
        ("train --batch", ["--batch-size"]),
        ("train --network res", ["resnet18", "resnet34"]),
        ("train --data two", ["two_moons"]),
        ("train --measure sh", ["sharpness"]),
    ],
)
def test_the_shell_completes(words: str, offered: list[str]) -> None:
    assert completions(words) == offered
