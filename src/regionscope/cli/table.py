"""The options of all commands as plain values, so that help and shell completion need not import the commands.

The ``table.json`` of a program holds what ``describe`` finds in the signatures; ``tools/make_cli_table.py`` writes it,
and a test compares the two. ``add_commands`` builds the program from it. A command is imported when it is run.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

CommandTable = dict[str, Any]

_TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}
_TYPES |= {"list[str]": list[str], "list[Path]": list[Path], "pair": tuple[float, float]}
_KEPT = ("help", "metavar", "min", "rich_help_panel", "show_default")
_USUAL = typer.Option("--usual")


def read(file: Path) -> CommandTable:
    """The stored table."""
    table: CommandTable = json.loads(file.read_text(encoding="utf-8"))
    return table


def describe(commands: Mapping[str, str]) -> CommandTable:
    """The table of these commands, each ``package.module:name`` of a function or a ``typer.Typer``.

    Imports them all.
    """
    loaded = {name: _load(where) for name, where in commands.items()}
    return {
        name: (_of_typer if isinstance(command, typer.Typer) else _of_function)(command, commands[name])
        for name, command in loaded.items()
    }


def add_commands(app: typer.Typer, table: CommandTable, *, cls: type[TyperCommand]) -> None:
    """Register every command of the table as a ``cls``, each with a function that loads the real one when it is run."""
    for name, entry in table.items():
        if "commands" in entry:
            group = typer.Typer(no_args_is_help=True, help=entry["help"])
            add_commands(group, entry["commands"], cls=cls)
            app.add_typer(group, name=name)
        else:
            app.command(name=name, help=entry["help"], cls=cls)(_stand_in(entry))


def _of_typer(group: typer.Typer, where: str) -> CommandTable:
    inside = {}
    for command in group.registered_commands:
        function = command.callback
        assert function is not None
        name = command.name or function.__name__.replace("_", "-")
        inside[name] = _of_function(function, f"{where.partition(':')[0]}:{function.__name__}")
    return {"help": group.info.help, "commands": inside}


def _of_function(function: Callable[..., Any], where: str) -> CommandTable:
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    return {
        "help": inspect.getdoc(function),
        "run": where,
        "parameters": {name: _of_parameter(hints[name], parameter.default) for name, parameter in parameters.items()},
    }


def _of_parameter(hint: Any, default: Any) -> CommandTable:
    kind, info = get_args(hint)
    names = {"names": [info.default, *(info.param_decls or ())]} if isinstance(info, OptionInfo) else {}
    entry: CommandTable = {**names, "type": _type_name(kind)}
    entry |= {name: value for name in _KEPT if (value := getattr(info, name)) != getattr(_USUAL, name)}
    if default is not inspect.Parameter.empty:
        entry["default"] = str(default) if isinstance(default, Path) else default
    if info.autocompletion is not None:
        entry["values"] = list(info.autocompletion())
    return json.loads(json.dumps(entry))  # type: ignore[no-any-return]


def _type_name(kind: Any) -> str | list[str]:
    """A name of ``_TYPES``, or the list of words that a choice takes."""
    kind = next((part for part in get_args(kind) if part is not NoneType), kind) if NoneType in get_args(kind) else kind
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return next(name for name, known in _TYPES.items() if known == kind)


def _stand_in(entry: CommandTable) -> Callable[..., None]:
    """A function with the signature that the table describes, which runs the command itself."""

    def command(**values: Any) -> None:
        _load(entry["run"])(**values)

    parameters = [_parameter(name, parameter) for name, parameter in entry["parameters"].items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(name: str, entry: CommandTable) -> inspect.Parameter:
    kept = {key: entry[key] for key in _KEPT if key in entry}
    if "values" in entry:
        kept["autocompletion"] = lambda incomplete: [word for word in entry["values"] if word.startswith(incomplete)]
    info = typer.Option(*entry["names"], **kept) if "names" in entry else typer.Argument(**kept)
    kind = Literal[tuple(entry["type"])] if isinstance(entry["type"], list) else _TYPES[entry["type"]]
    default = entry.get("default", inspect.Parameter.empty)
    if default is not inspect.Parameter.empty:
        default = _value(entry["type"], default)
        kind = kind | None if default is None else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _value(kind: Any, default: Any) -> Any:
    if default is None:
        return None
    return Path(default) if kind == "Path" else tuple(default) if kind == "pair" else default


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
