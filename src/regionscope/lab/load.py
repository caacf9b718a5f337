"""Bring a user's own model, weights and points into the program; every mistake is an ``InputError`` with a sentence.

Weights are read as safetensors or with ``weights_only=True``: nothing here unpickles a stranger's objects. The model's
code is the user's own and is run.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regionscope.checks import unknown_name, unreadable
from regionscope.errors import InputError
from regionscope.file_io import ARRAY_FILE_ERRORS
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.network.onnx import OnnxNetwork, read_onnx

LARGEST_BOX = 6  # dimensions; the box around a d-dimensional input has 2^d corners
_MOST_CORNERS = 7  # of a hull: its regions multiply with every dimension


def load_model(spec: str) -> nn.Module:
    """The module that ``pkg.module:name`` or ``file.py:name`` names, or the network in an ``.onnx`` file.

    ``name`` is an ``nn.Module`` or a callable without arguments that returns one; dots reach into attributes. The
    working directory (for a module) or the file's folder (for a file) can be imported from while the code runs.
    """
    if is_onnx(spec):
        return read_onnx(spec)
    with _imported(spec) as found:
        return as_module(found if isinstance(found, nn.Module) or not callable(found) else _call(found, spec, {}), spec)


def as_module(found: Any, spec: str) -> nn.Module:
    """What ``spec`` gave, if that is a network."""
    if not isinstance(found, nn.Module):
        raise InputError(
            f"Expected {spec} to be or return a torch.nn.Module, got {type(found).__name__}. "
            "Return the module from this function."
        )
    return found


def call_function(spec: str, options: Mapping[str, Any], *, offered: Mapping[str, Any] | None = None) -> Any:
    """What the function of ``FILE.py:FUNCTION`` returns for the options, and for those of ``offered`` that it takes."""
    with _imported(spec) as found:
        taken = _checked(found, spec, options, tuple(offered or ()))
        return _call(found, spec, {**{name: (offered or {})[name] for name in taken}, **options})


def check_call(spec: str, options: Iterable[str], *, offered: Sequence[str] = ()) -> None:
    """Raise ``InputError`` where ``call_function`` could not call the function with options of these names."""
    with _imported(spec) as found:
        _checked(found, spec, options, tuple(offered))


def _checked(found: Any, spec: str, options: Iterable[str], offered: tuple[str, ...]) -> list[str]:
    """Those of ``offered`` that the function takes."""
    if isinstance(found, nn.Module) or not callable(found):
        raise InputError(
            f"Expected a function or a class at {spec}, got an object of type {type(found).__name__}. "
            "Name a function or a class of the file."
        )
    parameters = inspect.signature(found).parameters
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    named = [name for name, each in parameters.items() if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    for name in options:
        if name not in named and not any_name:
            raise unknown_name(f"an option of {spec}", name, [each for each in named if each not in offered])
    taken = [name for name in offered if name in named]
    lacking = [name for name in named if parameters[name].default is inspect.Parameter.empty]
    lacking = [name for name in lacking if name not in taken and name not in options]
    if lacking:
        raise InputError(f"Expected the option {lacking[0]!r} of {spec}, got none. Give it, or a default in the code.")
    return taken


@contextmanager
def _imported(spec: str) -> Iterator[Any]:
    """What ``spec`` names; its folder can be imported from while the code runs."""
    source, colon, name = spec.rpartition(":")
    if not (source and colon and name):
        raise InputError(
            f"Expected --model such as pkg.module:factory, file.py:factory or net.onnx, got {spec!r}. "
            "Add a colon and the name of the function that returns the model."
        )
    is_file = source.endswith(".py")
    with _importable(Path(source).resolve().parent if is_file else Path.cwd()):
        found: Any = _import_file(Path(source)) if is_file else _import_module(source)
        for part in name.split("."):
            if not hasattr(found, part):
                raise InputError(f"Expected {name!r} in {source}, got no such name. {_offer(found)}")
            found = getattr(found, part)
        yield found


def is_onnx(spec: str) -> bool:
    """Whether a model is given as an ONNX file rather than as code."""
    return spec.endswith((".onnx", ".onnx.gz"))


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a state dict (safetensors, or a file of ``torch.save(model.state_dict())``) into ``model`` in place."""
    _must_exist(path, "weights")
    state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    for name, tensor in state.items():
        if reason := unreadable(tensor):
            raise InputError(f"Expected weights that are real numbers in {path}, got {name!r} as {reason}")
    wanted = model.state_dict()
    problems = [
        *_named("lacks", sorted(wanted.keys() - state.keys())),
        *_named("has the unknown", sorted(state.keys() - wanted.keys())),
        *(
            f"holds {name!r} with shape {tuple(state[name].shape)} instead of {tuple(tensor.shape)}"
            for name, tensor in wanted.items()
            if name in state and state[name].shape != tensor.shape
        ),
    ]
    if problems:
        raise InputError(
            f"Expected weights that fit the model in {path}, but the file {' and '.join(problems[:3])}. "
            "Pass the weights of this model, or the model that they were saved from."
        )
    model.load_state_dict(state)


def load_points(path: Path, *, input_shape: tuple[int, ...] | None = None, least: int = 2) -> np.ndarray[Any, Any]:
    """The points in a file, one input for each row.

    .npy; .npz (its only array, or the one called x, or any as FILE.npz:KEY); .csv (one point a line, with or without a
    header); .pt (a tensor, or one of a dictionary as FILE.pt:KEY). The result has shape (m, *input_shape), m at least
    ``least``; flat rows are given ``input_shape`` when they have as many numbers.
    """
    file, colon, key = str(path).rpartition(":")
    where, wanted_key = (Path(file), key) if colon and Path(file).suffix in (".npz", ".pt", ".pth") else (path, None)
    _must_exist(where, "points")
    read = {".csv": _read_csv, ".pt": _read_tensors, ".pth": _read_tensors}.get(where.suffix, _read_numpy)
    loaded = read(where)
    if isinstance(loaded, Mapping):
        loaded = _chosen_array(where, loaded, wanted_key)
    if isinstance(loaded, Tensor):
        if reason := unreadable(loaded):
            raise InputError(f"Expected an array of real numbers in {path}, got {reason}")
        half = loaded.is_floating_point() and loaded.dtype.itemsize < 4  # NumPy has no bfloat16
        loaded = (loaded.float() if half else loaded).detach().numpy()
    if not isinstance(loaded, np.ndarray) or loaded.dtype.kind not in "iuf":
        raise InputError(
            f"Expected an array of real numbers in {path}, got other values. Save a tensor or an array of numbers."
        )
    if loaded.ndim < 2 or len(loaded) < least:
        wanted = {1: "one point", 2: "two points"}.get(least, f"{least} points")
        raise InputError(
            f"Expected at least {wanted} in {path}, one in each row, got shape {loaded.shape}. "
            "Stack the points along the first axis."
        )
    shape = loaded.shape[1:] if input_shape is None else input_shape
    if math.prod(shape) != math.prod(loaded.shape[1:]):
        raise InputError(
            f"Expected points that fit --input-shape {shape} in {path}, got shape {loaded.shape[1:]}. "
            "Change --input-shape, or reshape the points."
        )
    return np.asarray(loaded).reshape(len(loaded), *shape)


def _read_numpy(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except ARRAY_FILE_ERRORS as error:
        reason = "." if "pickle" in str(error) else f": {_one_line(error)}"  # numpy's advice there is to trust the file
        raise InputError(
            f"Expected an .npy or .npz file of numbers, got {path}{reason} Write one with numpy.save(path, inputs)."
        ) from error


def _read_csv(path: Path) -> Any:
    """One point a line; a first line with a cell that is not a number is a header."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        try:
            [float(cell) for cell in lines[0].split(",")] if lines else []
        except ValueError:
            lines = lines[1:]
        return np.loadtxt(lines, delimiter=",", ndmin=2) if lines else np.empty((0, 1))
    except (ValueError, OSError) as error:
        raise InputError(
            f"Expected a number in every cell of {path}, got: {_one_line(error)} Remove the other cells."
        ) from error


def _read_tensors(path: Path) -> Any:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many types for a damaged or refused file
        raise InputError(
            f"Expected a tensor or a dictionary of tensors in {path}, got a file that is not read. "
            "Write one with torch.save(tensor, path)."
        ) from error
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else found


def _chosen_array(path: Path, arrays: Mapping[str, Any], key: str | None) -> Any:
    """The array of this key; without one the only array, or that called x."""
    if key is None:
        key = next(iter(arrays)) if len(arrays) == 1 else "x"
        if key not in arrays:
            raise InputError(
                f"Expected one array in {path}, got {len(arrays)}. Choose one, as in {path}:{next(iter(arrays))}"
            )
    if key not in arrays:
        raise unknown_name(f"an array of {path}", key, arrays)
    return arrays[key]


def hull(points: np.ndarray[Any, Any]) -> Slice:
    """The hull of the rows: two points give a segment, three a triangle, k + 1 a k-dimensional simplex."""
    if len(points) > _MOST_CORNERS:
        raise InputError(
            f"Expected 2 points for a segment, 3 for a triangle, at most {_MOST_CORNERS}, got {len(points)}, whose "
            f"hull has {len(points) - 1} dimensions. For slices through data, run: regionscope count --data FILE"
        )
    return Segment(points[0], points[1]) if len(points) == 2 else Simplex(points)


def box(lo: float, hi: float, input_shape: tuple[int, ...]) -> Slice:
    """All inputs of shape ``input_shape`` whose every entry lies in [lo, hi]."""
    d = math.prod(input_shape)
    if not lo < hi:
        raise InputError(f"Expected --box LOW HIGH with LOW < HIGH, got {lo} and {hi}. Pass the smaller number first.")
    if not 1 <= d <= LARGEST_BOX:
        raise InputError(
            f"Expected an input space of at most {LARGEST_BOX} dimensions for --box, got {d}. Pass --points "
            "instead: two for a segment, three for a triangle."
        )
    return Box.between(lo, hi, input_shape)


def infer_input_shape(model: nn.Module) -> tuple[int, ...]:
    """The shape of one input: that of an ONNX file, or told from the first layer with weights, an ``nn.Linear``."""
    if isinstance(model, OnnxNetwork):
        return model.input_shape
    for module in model.modules():
        if isinstance(module, nn.Linear):
            return (module.in_features,)
        if any(True for _ in module.parameters(recurse=False)):
            break
    raise InputError(
        "Expected nn.Linear as the first layer with weights, got another, so the input shape is not known. "
        "Pass it, for example --input-shape 3,32,32."
    )


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put ``folder`` in front of the import path for a while."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _import_file(path: Path) -> ModuleType:
    _must_exist(path, "model")
    name = f"regionscope_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"Expected a Python file, got {path}. Pass file.py:factory.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's code may raise anything
        raise InputError(f"Running {path} failed: {_one_line(error)} Correct this file.") from error
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
        raise InputError(f"Importing {name!r} failed: {_one_line(error)} Correct this module.") from error


def _call(factory: Any, spec: str, options: Mapping[str, Any]) -> Any:
    try:
        return factory(**options)
    except Exception as error:  # the user's code may raise anything
        how = f"with {', '.join(options)}" if options else "without arguments"
        lacking = not options and isinstance(error, TypeError) and "required positional" in str(error)
        advice = "Correct this function."
        if lacking:
            advice = "Give every parameter a default value, or name a function without parameters."
        raise InputError(f"Calling {spec} {how} failed: {_one_line(error)} {advice}") from error


def _offer(module: object) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, nn.Module) or (callable(value) and getattr(value, "__module__", None) == _name(module)))
    ]
    return f"Choose from {', '.join(names[:8])}." if names else "Define a function or a class of this name."


def _name(module: object) -> str | None:
    return getattr(module, "__name__", None)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"Expected a safetensors file, got {path}: {_one_line(error)} Save it again.") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many types for a damaged or refused file
        raise InputError(
            f"Expected a state dict in {path}, which could not be read. Save one with "
            "torch.save(model.state_dict(), ...) or as safetensors."
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(
            f"Expected a state dict in {path}, got something else. Save one with torch.save(model.state_dict(), ...)."
        )
    return dict(state)


def _named(verb: str, names: list[str]) -> list[str]:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return [f"{verb} {', '.join(map(repr, names[:2]))}{more}"] if names else []


def _must_exist(path: Path, what: str) -> None:
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(
            f"Expected an existing {what} file, got {str(path)!r}, which {found}. Correct the path, "
            f"which starts in the working directory {str(Path.cwd())!r}."
        )


def _one_line(error: BaseException) -> str:
    """The error's type and the first line of its message, as one clause that ends in a full stop."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}." if lines else f"{type(error).__name__}."
