"""The program that a table of commands describes. An error of the user is printed as one sentence, with exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regionscope.cli import table
from regionscope.cli.command_line import recorded
from regionscope.cli.option_names import in_options, options_of
from regionscope.cli.wrong_values import wrong_value
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
        option = next((each for each in getattr(parameter, "opts", ()) if any(_is_use(each, w) for w in words)), None)
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
