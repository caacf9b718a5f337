"""The library's messages name Python arguments, such as ``dask=``; those of a command name its options: ``--dask``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_running: ContextVar[Mapping[str, str]] = ContextVar("option of each argument of the running command")

_ALSO = {"--head": "output"}  # arguments with another name than their option
PHRASES = (  # what name= cannot express: an option, the words of the library, the words of a command with this option
    ("--set", "data.options.size=32", "--set data.options.size=32"),
    ("--fix", "property.fixed({i: value})", "--fix I=VALUE"),
    ("--head", "Pass an index or a function.", "Pass an index."),
    ("--classes", "Use flips() on a Segment.", "Run regionscope ask flips, or pass --points with 3 rows."),
    ("--domain", "a domain (low, high) with low < high", "--domain LO HI with LO < HI"),
    ("--domain", "Write (-1.0, 1.0), for example.", "Write --domain -1 1, for example."),
)
_ARGUMENT = re.compile(
    r"""
    (?<!\w)'[^']*' | [\w.]+\([^()]*\)  # what the user wrote, and calls such as x.mean(dim=1), stay
    | (?<=Expected\ )(?P<checked>\w+)(?=\ to\ be\ )
    | (?<!\S)(?P<name>\w+)=(?:\[?\.\.\.]?|True\b|"(?P<word>[^"\s]*)"|(?P<value>(?=[\w'"({\[-])))?
    """,
    re.VERBOSE,
)


@contextmanager
def options_of(parameters: Iterable[Any]) -> Iterator[None]:
    """Let ``in_options`` name the options among the parameters of a command, while the command runs."""
    arguments: dict[str, str] = {}
    for parameter in parameters:
        for option in parameter.opts:
            if option.startswith("--"):
                same = (
                    None if option == "--output" else option.removeprefix("--").replace("-", "_")
                )  # output= is a head
                arguments |= {name: option for name in (parameter.name, same, _ALSO.get(option)) if name}
    token = _running.set(arguments)
    try:
        yield
    finally:
        _running.reset(token)


def in_options(message: str) -> str:
    """The message with the options of the running command in place of the arguments that they stand for.

    >>> from types import SimpleNamespace
    >>> with options_of([SimpleNamespace(name="max_regions", opts=["--max-regions"])]):
    ...     in_options("Expected at most max_regions=3 regions, got more. Raise max_regions=, or pass layers=[...].")
    'Expected at most --max-regions 3 regions, got more. Raise --max-regions, or pass layers=[...].'
    """
    options = _running.get({})
    for option, phrase, instead in PHRASES:
        if option in options.values():
            message = message.replace(phrase, instead)
    return _ARGUMENT.sub(lambda match: _replaced(match, options), message)


def _replaced(match: re.Match[str], options: Mapping[str, str]) -> str:
    option = options.get(match["name"] or match["checked"] or "")
    if option is None:
        return match[0]
    return f"{option} {match['word'] or ''}" if match["word"] or match["value"] is not None else option
