"""The program. An error of the user is printed as one sentence on stderr, with exit code 2 and no traceback."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regionscope.cli import table
from regionscope.cli.command_line import recorded
from regionscope.cli.option_names import in_options, options_of
from regionscope.cli.wrong_values import wrong_value
from regionscope.errors import RegionscopeError
from regionscope.version import __version__

COMMANDS = {
    "quickstart": "quickstart:quickstart",
    "regions": "regions:regions",
    "decision": "regions:decision",
    "ask": "ask:ask",
    "surface": "surface:surface",
    "count": "count:count",
    "complexity": "complexity:complexity",
    "bounds": "bounds:bounds",
    "shallow": "shallow:shallow",
    "data": "data:data",
    "sweep": "sweep:sweep",
    "train": "train:train",
    "study": "study:study",
    "explore": "explore:explore",
    "animate": "animate:animate",
    "verify": "verify:verify",
}
"""Where the commands are: a module of this folder and a name in it. ``table.json`` lists them in this order."""


class _OneSentence(TyperCommand):
    """A command that prints an error of the user as a message that names options, and exits with code 2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["words"] = [*_names(ctx), *args]  # parsing empties the list
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            sentence = self._about_value(error, ctx.meta["words"])
            if sentence is None:
                raise
            typer.echo(f"regionscope: {sentence}", err=True)
            raise typer.Exit(2) from error

    def _about_value(self, error: typer.BadParameter, words: list[str]) -> str | None:
        """The sentence about an option's value that was not read; None for other errors, such as a missing option."""
        parameter: Any = error.param
        option = next((each for each in getattr(parameter, "opts", ()) if any(_is_use(each, w) for w in words)), None)
        if option is None:
            return None
        entry = table.read()[words[1]]
        entry = entry["commands"][words[2]] if "commands" in entry else entry
        return wrong_value(option, entry["parameters"][parameter.name], words)

    def invoke(self, ctx: Any) -> Any:
        with options_of(self.params), recorded(ctx.meta["words"]):
            try:
                return super().invoke(ctx)
            except RegionscopeError as error:
                typer.echo(f"regionscope: {in_options(str(error))}", err=True)
                raise typer.Exit(2) from error


def _is_use(option: str, word: str) -> bool:
    return option.startswith("--") and word.partition("=")[0] == option


def _names(ctx: Any) -> list[str]:
    """The program, its command and the command's own command, however the program was started."""
    return [*_names(ctx.parent), ctx.info_name] if ctx.parent is not None else ["regionscope"]


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regionscope {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Exact regions of piecewise-affine PyTorch networks, on slices of their input space."""


table.add_commands(app, table.read(), cls=_OneSentence)
