"""The texts of --help and --version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command

import regionscope as rs
from command_line import run
from regionscope.cli import app
from regionscope_lab.cli import app as lab


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("regions", "2GiB, on a GPU half of the free memory"),
        ("decisions", "2GiB, on a GPU half of the free memory"),
        ("count", "64MiB, on a GPU 4GiB; for exact counts 2GiB, on a GPU half of the free memory"),
        ("complexity", "28MiB, on a GPU 1GiB"),
    ],
)
def test_help_says_how_much_memory_is_used(command: str, default: str) -> None:
    assert f"by default {default}" in " ".join(run(f"{command} --help").output.replace("│", " ").split())


@pytest.mark.parametrize("command", ["", "quickstart", "regions", "decisions"])
def test_help_names_every_option(command: str) -> None:
    done = run(f"{command} --help")
    assert done.exit_code == 0
    wanted = {
        "": ["quickstart", "regions", "decisions", "--version"],
        "quickstart": ["--output", "--epochs", "--seed"],
    }.get(command, ["--model", "--weights", "--points", "--box", "--json", "--output", "--memory", "--device"])
    assert all(word in done.output for word in wanted)


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
