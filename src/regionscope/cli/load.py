"""The models, weights, points and slices that options name. Raises ``InputError`` if they cannot be read.

Weights are read as safetensors or with ``weights_only=True``: no objects are unpickled. The code of the
model is run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regionscope.checks import unknown_name, unreadable
from regionscope.cli.command_line import note_file
from regionscope.errors import InputError
from regionscope.file_io import ARRAY_FILE_ERRORS, check_file, read_csv
from regionscope.formatting import described
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.network.onnx import OnnxNetwork, read_onnx
from regionscope.user_code import as_module, call, imported

LARGEST_BOX = 6  # dimensions; the box around a d-dimensional input has 2^d corners
_WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors")
_MOST_CORNERS = 7  # of a hull: its regions multiply with every dimension


def load_model(spec: str, *, weights: bool = True, output: str | int | None = None) -> nn.Module:
    """The module that ``pkg.module:name`` or ``file.py:name`` names, or the network in an ``.onnx`` file.

    ``name`` is an ``nn.Module`` or a callable without arguments that returns one; dots reach into attributes. The
    working directory (for a module) or the file's folder (for a file) can be imported from while the code runs.

    weights: whether the command has the option --weights. output: that of an ``.onnx`` file with several.
    """
    if is_onnx(spec):
        network = read_onnx(spec, output=output)
        for path in (Path(spec), *network.external):
            note_file(path)
        return network
    if Path(spec).suffix in _WEIGHTS:
        how = f"with --weights {spec}" if weights else "in this function"
        raise InputError(
            f"Expected a model such as pkg.module:factory, file.py:factory or net.onnx, got the weights {spec!r}. "
            f"Name the function that builds the network, and load the weights {how}."
        )
    with imported(spec, "model", form="a model such as pkg.module:factory, file.py:factory or net.onnx") as builder:
        if (source := spec.rpartition(":")[0]).endswith(".py"):
            note_file(Path(source))
        return as_module(
            builder if isinstance(builder, nn.Module) or not callable(builder) else call(builder, spec, {}), spec
        )


def is_onnx(spec: str) -> bool:
    """Whether a model is given as an ONNX file rather than as code."""
    return spec.endswith((".onnx", ".onnx.gz"))


def load_weights(model: nn.Module, path: Path) -> None:
    """Load weights into ``model`` in place: safetensors, or a state dict or a checkpoint that ``torch.save`` wrote.

    A prefix that all names of the file have, such as ``module.`` or the attribute of a Lightning module, is removed if
    the rest of the names are those of the model.
    """
    check_file(path, "weights")
    note_file(path)
    state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    for name, tensor in state.items():
        if reason := unreadable(tensor):
            raise InputError(f"Expected weights that are real numbers in {path}, got {name!r} as {reason}")
    wanted = model.state_dict()
    state = _without_prefix(state, wanted.keys())
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
    loaded = load_array(path)
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
    return loaded.reshape(len(loaded), *shape)


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """The array of real numbers in a file of one of the kinds that ``load_points`` reads, in its own shape."""
    file, colon, key = str(path).rpartition(":")
    where, wanted_key = (Path(file), key) if colon and Path(file).suffix in (".npz", ".pt", ".pth") else (path, None)
    if where.is_dir():
        raise InputError(
            f"Expected a file of points, got the folder {str(where)!r}. Stack its images to an array as the network "
            "takes them and save it with numpy.save()."
        )
    check_file(where, "points")
    note_file(where)
    read = {".csv": lambda file: read_csv(file)[1], ".pt": _read_tensors, ".pth": _read_tensors}.get(
        where.suffix, _read_numpy
    )
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
    return np.asarray(loaded)


def _read_numpy(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except ARRAY_FILE_ERRORS as error:
        reason = "." if "pickle" in str(error) else f": {described(error)}"  # numpy's advice there is to trust the file
        raise InputError(
            f"Expected an .npy, .npz, .csv or .pt file of numbers, got {path}{reason} Write one with "
            "numpy.save(path, inputs)."
        ) from error


def _read_tensors(path: Path) -> Any:
    content = _torch_load(
        path,
        f"Expected a tensor or a dictionary of tensors in {path}, got a file that is not read. "
        "Write one with torch.save(tensor, path).",
    )
    return {str(key): value for key, value in content.items()} if isinstance(content, Mapping) else content


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
        raise InputError(f"Expected a box LOW HIGH with LOW < HIGH, got {lo} and {hi}. Pass the smaller number first.")
    if not 1 <= d <= LARGEST_BOX:
        raise InputError(
            f"Expected an input space of at most {LARGEST_BOX} dimensions for a box, got {d}. Pass points "
            "instead: two for a segment, three for a triangle."
        )
    return Box.between(lo, hi, input_shape)


def infer_input_shape(model: nn.Module) -> tuple[int, ...]:
    """The shape of one input: that of an ONNX file, or of the first layer with weights if it is an ``nn.Linear``."""
    for module in model.modules():
        if isinstance(module, OnnxNetwork):
            return module.input_shape
        if isinstance(module, nn.Linear):
            return (module.in_features,)
        if any(True for _ in module.parameters(recurse=False)):
            break
    raise InputError(
        "Expected nn.Linear as the first layer with weights, got another, so the input shape is not known. "
        "Pass it, for example --input-shape 3,32,32."
    )


def wrong_shape(model: nn.Module, shape: tuple[int, ...]) -> str:
    """What is wrong with the shape of inputs on which the model failed; empty if that is not known."""
    try:
        wanted = infer_input_shape(model)
    except InputError:
        return ""
    numbers, sizes = math.prod(wanted), ",".join(map(str, wanted))
    if shape == wanted:
        return ""
    if math.prod(shape) == numbers:
        return f"Expected inputs of shape {wanted}, got {shape}. Add --input-shape {sizes}."
    advice = f"Pass rows of {numbers} numbers."
    if math.prod(shape) == numbers + 1:
        advice = "Remove the last column if it holds labels."
    return f"Expected inputs of {numbers} numbers for this network, got {math.prod(shape)} in each row. {advice}"


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"Expected a safetensors file, got {path}: {described(error)} Save it again.") from error


def _torch_load(path: Path, otherwise: str) -> Any:
    """What torch.save wrote, without unpickling objects. otherwise: the message if the file cannot be read."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many types for a damaged or refused file
        raise InputError(otherwise) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    state = _torch_load(
        path,
        f"Expected a state dict in {path}, which could not be read. Save one with "
        "torch.save(model.state_dict(), ...) or as safetensors.",
    )
    if _is_state(state):
        return dict(state)
    entries = dict(state) if isinstance(state, Mapping) else {}
    states = [key for key, entry in entries.items() if _is_state(entry) and entry]  # of a checkpoint
    if len(states) == 1:
        return dict(entries[states[0]])
    way, got = "Save one with torch.save(model.state_dict(), ...)", "something else"
    if states:
        got = f"{len(states)}: {', '.join(map(repr, states[:8]))}"
        way = f"Save one of them, such as torch.save(torch.load(file)[{states[0]!r}], ...)"
    elif entries:
        got = f"none among the entries {', '.join(repr(str(key)) for key in list(entries)[:8])}"
    raise InputError(f"Expected one state dict in {path}, got {got}. {way}.")


def _is_state(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items())


def _without_prefix(state: dict[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """The state dict without the prefix by which all its names differ from the wanted ones; else the same."""
    if len(state) != len(wanted) or not wanted:
        return state
    first = next(iter(wanted))
    for name in state:
        prefix = name.removesuffix(first)
        if prefix != name and prefix.endswith(".") and {prefix + name for name in wanted} == state.keys():
            return {name: state[prefix + name] for name in wanted}
    return state


def _named(verb: str, names: list[str]) -> list[str]:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return [f"{verb} {', '.join(map(repr, names[:2]))}{more}"] if names else []
