"""Run a user's own function, ``FILE.py:FUNCTION`` or ``pkg.module:name``. Errors become ``InputError``.

``user_files`` says which file that is and hashes it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from regionscope.checks import unknown_name
from regionscope.errors import InputError
from regionscope.file_io import check_file
from regionscope.formatting import described


def call_function(spec: str, options: Mapping[str, Any], *, what: str, offered: Mapping[str, Any] | None = None) -> Any:
    """What the function of ``FILE.py:FUNCTION`` returns for the options, and for those of ``offered`` that it takes.

    what: what it returns, in a word for messages, such as "network" or "data".
    """
    with imported(spec, what) as function:
        taken = _checked(function, spec, options, tuple(offered or ()))
        return call(function, spec, {**{name: (offered or {})[name] for name in taken}, **options})


def check_call(spec: str, options: Iterable[str], *, what: str, offered: Sequence[str] = ()) -> None:
    """Raise ``InputError`` where ``call_function`` could not call the function with options of these names."""
    with imported(spec, what) as function:
        _checked(function, spec, options, tuple(offered))


def _checked(function: Any, spec: str, options: Iterable[str], offered: tuple[str, ...]) -> list[str]:
    """Those of ``offered`` that the function takes."""
    if isinstance(function, nn.Module) or not callable(function):
        raise InputError(
            f"Expected a function or a class at {spec}, got an object of type {type(function).__name__}. "
            "Name a function or a class of the file."
        )
    parameters = inspect.signature(function).parameters
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    named = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    for name in options:
        if name not in named and not any_name:
            raise unknown_name(f"an option of {spec}", name, [option for option in named if option not in offered])
    taken = [name for name in offered if name in named]
    lacking = [name for name in named if parameters[name].default is inspect.Parameter.empty]
    lacking = [name for name in lacking if name not in taken and name not in options]
    if lacking:
        raise InputError(f"Expected the option {lacking[0]!r} of {spec}, got none. Give it, or a default in the code.")
    return taken


@contextmanager
def imported(spec: str, what: str, *, form: str = "FILE.py:FUNCTION") -> Iterator[Any]:
    """What ``spec`` names; its folder can be imported from while the code runs.

    what: what the code is for, in a word for messages. form: what ``spec`` should look like.
    """
    source, colon, name = spec.rpartition(":")
    if not (source and colon and name):
        raise InputError(
            f"Expected {form}, got {spec!r}. Add a colon and the name of the function that returns the {what}."
        )
    is_file = source.endswith(".py")
    with _importable(Path(source).resolve().parent if is_file else Path.cwd()):
        content: Any = _import_file(Path(source), what) if is_file else _import_module(source)
        for part in name.split("."):
            if not hasattr(content, part):
                raise InputError(f"Expected {name!r} in {source}, got no such name. {_offer(content, part)}")
            content = getattr(content, part)
        yield content


def call(factory: Any, spec: str, options: Mapping[str, Any]) -> Any:
    """What the function that ``spec`` names returns for the options."""
    try:
        return factory(**options)
    except Exception as error:  # the user's code may raise anything
        how = f"with {', '.join(options)}" if options else "without arguments"
        lacking = not options and isinstance(error, TypeError) and "required positional" in str(error)
        advice = "Correct this function."
        if lacking:
            advice = "Give every parameter a default value, or name a function without parameters."
        raise InputError(f"Calling {spec} {how} failed: {described(error)} {advice}") from error


def as_module(network: Any, spec: str) -> nn.Module:
    """What ``spec`` gave, if that is a network."""
    if not isinstance(network, nn.Module):
        raise InputError(
            f"Expected {spec} to be or return a torch.nn.Module, got {type(network).__name__}. "
            "Return the module from this function."
        )
    return network


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Context with ``folder`` in front of the import path."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _import_file(path: Path, what: str) -> ModuleType:
    check_file(path, what)
    name = f"regionscope_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"Expected a Python file, got {path}. Pass file.py:factory.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's code may raise anything
        raise InputError(f"Running {path} failed: {described(error)} Correct this file.") from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"No module named {error.name!r} was found while importing {name!r}. Install it, run from its folder, "
            "or pass a file as file.py:factory."
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise InputError(f"Importing {name!r} failed: {described(error)} Correct this module.") from error


def _offer(module: object, wanted: str) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, nn.Module) or (callable(value) and getattr(value, "__module__", None) == _name(module)))
    ]
    matches = get_close_matches(wanted, names, n=1)
    guess = f"Did you mean {matches[0]!r}? " if matches else ""
    return f"{guess}Choose from {', '.join(names[:8])}." if names else "Define a function or a class of this name."


def _name(module: object) -> str | None:
    return getattr(module, "__name__", None)
