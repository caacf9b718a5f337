"""The program that a table of commands describes. An error of the user is printed as one sentence, with exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regionscope.cli import table
from regionscope.cli.command_line import recorded
from regionscope.cli.option_names import in_options, options_of
from regionscope.errors import RegionscopeError
from regionscope.version import __version__


def program(name: str, file: Path, about: str) -> typer.Typer:
    """The program called ``name``. file: the table of its commands. about: what its help says first."""
    entries = table.read(file)

    class OneSentence(_OneSentence):
        program = name
        listed = entries

    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {__version__}")
            raise typer.Exit

    def main(show_version: bool = False) -> None:
        """Typer shows ``about`` in place of this."""

    version = typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    main.__annotations__ = {"show_version": Annotated[bool, version], "return": None}
    app.callback(help=about)(main)
    table.add_commands(app, entries, cls=OneSentence)
    return app


class _OneSentence(TyperCommand):
    """A command that prints an error of the user as a message that names options, and exits with code 2."""

    program: str
    listed: table.CommandTable

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["words"] = [*self._names(ctx), *args]  # parsing empties the list
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            sentence = self._about_value(error, ctx.meta["words"])
            if sentence is None:
                raise
            typer.echo(f"{self.program}: {sentence}", err=True)
            raise typer.Exit(2) from error

    def _about_value(self, error: typer.BadParameter, words: list[str]) -> str | None:
        """The sentence about an option's value that was not read; None for other errors, such as a missing option."""
        parameter: Any = error.param
        option = next(
            (spelled for spelled in getattr(parameter, "opts", ()) if any(_is_use(spelled, w) for w in words)), None
        )
        if option is None:
            return None
        entry = self.listed[words[1]]
        entry = entry["commands"][words[2]] if "commands" in entry else entry
        return wrong_value(option, entry["parameters"][parameter.name], words)

    def invoke(self, ctx: Any) -> Any:
        with options_of(self.params), recorded(ctx.meta["words"]):
            try:
                return super().invoke(ctx)
            except RegionscopeError as error:
                typer.echo(f"{self.program}: {in_options(str(error))}", err=True)
                raise typer.Exit(2) from error

    def _names(self, ctx: Any) -> list[str]:
        """The program, its command and the command's own command, however the program was started."""
        return [self.program] if ctx.parent is None else [*self._names(ctx.parent), ctx.info_name]


def _is_use(option: str, word: str) -> bool:
    return option.startswith("--") and word.partition("=")[0] == option


# What to say about a value that an option does not take: what it takes, what was given, and what to write instead.

_KINDS = {"int": "a whole number", "float": "a number", "pair": "two numbers"}


def wrong_value(option: str, entry: dict[str, Any], words: Sequence[str]) -> str | None:
    """The sentence for the option that ``entry`` of the table describes; None for options that take any text.

    words: the command line.

    >>> wrong_value("--slices", {"type": "int", "min": 1, "default": 100}, ["--slices", "0"])
    "Expected a whole number of at least 1 for --slices, got '0'. Write --slices 100, for example."
    """
    kind = entry["type"]
    got = ", ".join(map(repr, _given(option, words, 2 if kind == "pair" else 1)))
    if isinstance(kind, list):
        return f"Expected one of {', '.join(kind)} for {option}, got {got}. Choose one of them."
    if kind not in _KINDS:
        return None
    least = entry.get("min")
    wanted = _KINDS[kind] + ("" if least is None else f" of at least {least}")
    example = entry.get("default")
    if example is None:
        smallest = 0.1 if kind == "float" else 1
        example = (0, 1) if kind == "pair" else least or smallest
    shown = " ".join(f"{number:g}" for number in (example if isinstance(example, list | tuple) else [example]))
    return f"Expected {wanted} for {option}, got {got}. Write {option} {shown}, for example."


def _given(option: str, words: Sequence[str], count: int) -> list[str]:
    """The values of the last use of the option, which counts; ``--option=value`` is one word."""
    last = max(i for i, word in enumerate(words) if word == option or word.startswith(f"{option}="))
    first = words[last].partition("=")[2:] if "=" in words[last] else ()
    return [*first, *words[last + 1 :]][:count]
