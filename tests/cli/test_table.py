"""Help and shell completion come from the stored table, which agrees with the commands and loads none of them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from regionscope.cli import table

PROGRAMS = {
    "regionscope": import_module("regionscope.cli.app"),
    "regionscope-lab": import_module("regionscope_lab.cli.app"),
}
STORED = {program: table.read(module.TABLE) for program, module in PROGRAMS.items()}
LEAVES = [
    (program, name, *inside)
    for program, commands in STORED.items()
    for name, entry in commands.items()
    for inside in ([(each,) for each in entry["commands"]] if "commands" in entry else [()])
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_table_is_what_the_signatures_say(program: str) -> None:
    commands, stored = PROGRAMS[program].COMMANDS, STORED[program]
    assert table.describe(commands) == stored, "run: python tools/make_cli_table.py"
    assert list(stored) == list(commands)  # == does not compare the order


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_is_that_of_the_command_itself(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    program, *path = words
    real = table._load(PROGRAMS[program].COMMANDS[path[0]])
    if not isinstance(real, typer.Typer):
        alone = typer.Typer(no_args_is_help=True)
        alone.command(name=path[0])(real)
        alone.callback()(lambda: None)
        wanted = CliRunner().invoke(alone, [path[0], "--help"], prog_name=program).output
    else:
        alone = typer.Typer()
        alone.add_typer(real, name=path[0])
        wanted = CliRunner().invoke(alone, [*path, "--help"], prog_name=program).output
    found = CliRunner().invoke(PROGRAMS[program].app, [*path, "--help"], prog_name=program).output
    assert f"Usage: {program} {path[0]}" in found
    assert re.fullmatch(r"[\n -~─│╭╮╰╯]*", found), "rich reads :KEY: as an emoji"
    assert found == wanted


CALLS = """
import os, sys
from regionscope.cli import app as library
from regionscope_lab.cli import app as lab

def call(app, *words):
    try:
        app(words, prog_name="regionscope" if app is library else "regionscope-lab")
    except SystemExit:
        pass
"""


def printed(code: str) -> str:
    """What a new process prints that has ``call``."""
    return subprocess.run([sys.executable, "-c", CALLS + code], capture_output=True, text=True, check=True).stdout


def test_help_imports_no_large_library() -> None:
    said = printed("""
for app, *words in [library], [library, "regions"], [lab, "sweep"], [lab, "paper", "run"]:
    call(app, *words, "--help")
    print("LOADED", *sorted(sys.modules.keys() & {"torch", "numpy", "scipy", "matplotlib"}))
""").splitlines()
    assert [line for line in said if "LOADED" in line] == ["LOADED"] * 4
    assert "Usage: regionscope-lab paper run" in "\n".join(said)


COMPLETED = {
    "pa": ["paper"],
    "sweep ex": ["export"],
    "train --ep": ["--epochs"],
    "train --network res": ["resnet18", "resnet34"],
    "train --data two": ["two_moons"],
    "train --measure sh": ["sharpness"],
}


def test_the_shell_completes() -> None:
    """What bash is offered after these words."""
    said = printed(f"""
for words in {list(COMPLETED)}:
    asked = {{"_REGIONSCOPE_LAB_COMPLETE": "complete_bash", "COMP_WORDS": f"regionscope-lab {{words}}"}}
    os.environ.update(asked, COMP_CWORD=str(len(words.split(" "))))
    print("ASKED")
    call(lab)
""").split("ASKED")
    assert [offered.split() for offered in said[1:]] == list(COMPLETED.values())
