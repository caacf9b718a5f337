"""Help and shell completion come from the stored table, which agrees with the commands and loads none of them."""

from __future__ import annotations

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


CALLS = """
import os, sys
from regionscope.cli import app

def call(*words):
    try:
        app(words, prog_name="regionscope")
    except SystemExit:
        pass
"""


def printed(code: str) -> str:
    """What a new process prints that has ``call``."""
    return subprocess.run([sys.executable, "-c", CALLS + code], capture_output=True, text=True, check=True).stdout


def test_help_imports_no_large_library() -> None:
    said = printed("""
for words in ["--help"], ["train", "--help"], ["sweep", "--help"], ["study", "run", "--help"]:
    call(*words)
    print("LOADED", *sorted(sys.modules.keys() & {"torch", "numpy", "scipy", "matplotlib"}))
""").splitlines()
    assert [line for line in said if "LOADED" in line] == ["LOADED"] * 4
    assert "Usage: regionscope study run" in "\n".join(said)


COMPLETED = {
    "st": ["study"],
    "sweep ex": ["export"],
    "train --batch": ["--batch-size"],
    "train --network res": ["resnet18", "resnet34"],
    "train --data two": ["two_moons"],
    "train --measure sh": ["sharpness"],
}


def test_the_shell_completes() -> None:
    """What bash is offered after these words."""
    said = printed(f"""
for words in {list(COMPLETED)}:
    asked = {{"_REGIONSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": f"regionscope {{words}}"}}
    os.environ.update(asked, COMP_CWORD=str(len(words.split(" "))))
    print("ASKED")
    call()
""").split("ASKED")
    assert [offered.split() for offered in said[1:]] == list(COMPLETED.values())
