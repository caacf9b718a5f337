"""Help and shell completion come from the stored table, which agrees with the commands and loads none of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

import regionscope as rs
from command_line import run
from regionscope.cli import app, table
from regionscope_lab.cli import app as lab

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


COMPLETED = {
    "pa": ["paper"],
    "sweep ex": ["export"],
    "train --ep": ["--epochs"],
    "train --network res": ["resnet18", "resnet34"],
    "train --data two": ["two_moons"],
    "train --measure sh": ["sharpness"],
}


def test_help_imports_no_large_library_and_the_shell_completes() -> None:
    """In a new process; ASKED stands before what bash is offered after some words."""
    shown, *offered = printed(f"""
for app, *words in [library], [library, "regions"], [lab, "sweep"], [lab, "paper", "run"]:
    call(app, *words, "--help")
    print("LOADED", *sorted(sys.modules.keys() & {{"torch", "numpy", "scipy", "matplotlib"}}))
for words in {list(COMPLETED)}:
    asked = {{"_REGIONSCOPE_LAB_COMPLETE": "complete_bash", "COMP_WORDS": f"regionscope-lab {{words}}"}}
    os.environ.update(asked, COMP_CWORD=str(len(words.split(" "))))
    print("ASKED")
    call(lab)
""").split("ASKED")
    assert [line for line in shown.splitlines() if "LOADED" in line] == ["LOADED"] * 4
    assert "Usage: regionscope-lab paper run" in shown
    assert [words.split() for words in offered] == list(COMPLETED.values())


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("--device", ["regions", "decisions", "count", "complexity", "lab train", "lab sweep run", "lab paper run"]),
        ("--rows", [f"lab {name}" for name in ("regions", "decisions", "level-set", "explore", "animate")]),
        ("--slice", ["regions", "level-set", "lab regions", "lab ask", "lab explore", "lab animate"]),
        ("--json", ["regions", "decisions", "count", "complexity", "lab train", "lab count"]),
    ],
)
def test_an_option_says_the_same_in_every_command(name: str, commands: list[str]) -> None:
    said = set()
    for command in commands:
        found: Any = get_command(lab if command.startswith("lab ") else app)
        for word in command.removeprefix("lab ").split():
            found = found.commands[word]
        said |= {option.help for option in found.params if name in option.opts}
    assert len(said) == 1


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"regionscope {rs.__version__}\n"


def commands(group: Any) -> Iterator[Any]:
    yield group
    for command in getattr(group, "commands", {}).values():
        yield from commands(command)


@pytest.mark.parametrize(
    "command", [*commands(get_command(app)), *commands(get_command(lab))], ids=lambda command: str(command.name)
)
def test_help_keeps_its_brackets(command: Any) -> None:
    """Rich reads [word] as a colour and drops it."""
    texts = [command.help, *(getattr(each, "help", None) for each in command.params)]
    for text in filter(None, texts):
        assert Text.from_markup(text).plain.count("[") == text.count("["), text
