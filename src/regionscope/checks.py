"""Checks of arguments that many functions have, each with one message.

Messages about data are in ``inputs``, those about layers in ``network/refuse``, and the classes in ``errors``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, SupportsFloat, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from regionscope.errors import InputError

Kind = TypeVar("Kind")


def is_integer(value: object, *, least: int = 1) -> TypeGuard[int]:
    """Whether ``value`` is an int of at least ``least``, and not a bool.

    >>> is_integer(3), is_integer(3.0), is_integer(True), is_integer(0)
    (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def read_integer(name: str, value: object, *, least: int = 1) -> int:
    """``value`` as a whole number of at least ``least``, or an ``InputError`` that names it."""
    if not is_integer(value, least=least):
        advice = f"Choose {least} or more" if type(value) is int else "Write it as an int"
        raise InputError(f"Expected {name} to be a whole number of at least {least}, got {value!r}. {advice}.")
    return value


def read_step(value: Any) -> int:
    """The number of a step of training as an int, also where NumPy or torch has counted it."""
    try:
        return int(operator.index(value))
    except TypeError as error:
        raise InputError(
            f"Expected a whole number as step, got {value!r}. Count the steps of your loop from 0."
        ) from error


def read_number(name: str, value: object) -> float:
    """``value`` as a finite number, or an ``InputError`` that names it. Texts and bools are refused."""
    number = math.nan
    if isinstance(value, SupportsFloat) and not isinstance(value, bool):
        with suppress(TypeError, ValueError, RuntimeError, OverflowError):  # an array of several, a complex tensor
            number = float(value)
    if not math.isfinite(number):
        raise InputError(f"Expected a finite number for {name}, got {value!r}. Set it to one int or float.")
    return number


def read_seed(value: object, name: str = "seed") -> int:
    """``value`` as a seed that every random generator accepts: 0 to 2^64 - 1."""
    if not is_integer(value, least=0) or value >= 2**64:
        raise InputError(
            f"Expected {name} to be a whole number from 0 to 2^64 - 1, got {value!r}. Choose 0, for example."
        )
    return value


def read_generator(generator: object, seed: object) -> torch.Generator:
    """The generator itself, or where it is None a new one on the CPU with this seed."""
    if generator is None:
        return torch.Generator().manual_seed(read_seed(seed))
    return check_instance("generator", generator, torch.Generator, advice="Make one with torch.Generator()")


def check_progress(progress: object) -> None:
    """Refuse what is neither None nor a function."""
    if progress is not None and not callable(progress):
        raise InputError(
            f"Expected progress to be a function of the finished share, or None, got {progress!r}. "
            "Pass a function such as print."
        )


def unreadable(tensor: Tensor) -> str:
    """Why a tensor is no plain array of real numbers, and what to do about it; empty if it is one."""
    if tensor.is_nested:
        return "a nested tensor. Pad its parts to one shape and stack them."
    if tensor.layout != torch.strided:
        return f"a sparse tensor ({tensor.layout}). Call to_dense() first."
    if tensor.is_meta:
        return "a tensor on the device meta, without values. Load its values first."
    return f"complex numbers ({tensor.dtype}). Pass real numbers." if tensor.is_complex() else ""


def check_memory(memory: object) -> None:
    """Refuse what is neither None nor enough bytes to work with."""
    if memory is not None and not is_integer(memory, least=1 << 20):
        raise InputError(
            f"Expected memory to be a whole number of bytes, at least 1 MiB (1048576), got {memory!r}. "
            "Write 2 * 2**30 for 2 GiB, or leave it out for the default."
        )


def check_positive(**values: object) -> None:
    """Refuse the first of these values that is not a positive number."""
    for name, value in values.items():
        if not read_number(name, value) > 0:
            raise InputError(f"Expected {name} to be positive, got {value}. Set it to a number larger than 0.")


def check_labels(labels: Tensor, classes: int, *, where: str = "") -> None:
    """Refuse labels outside 0, ..., classes - 1. where: the start of the message, such as the name of the data.

    >>> check_labels(torch.tensor([1, 2, 3]), 3)
    Traceback (most recent call last):
    regionscope.errors.InputError: Expected labels 0 to 2 for 3 classes, got 1 to 3. Subtract 1 to count them from 0.
    """
    if labels.numel() == 0:
        return
    low, high = torch.stack(torch.aminmax(labels)).tolist()  # one wait for the device
    if low < 0 or high >= classes:
        advice = "Give the model an output for each class, or number the classes from 0"
        if (low, high) == (1, classes):
            advice = "Subtract 1 to count them from 0"
        raise InputError(
            f"{where}Expected labels 0 to {classes - 1} for {classes} classes, got {low} to {high}. {advice}."
        )


def check_instance(what: str, value: object, kind: type[Kind], *, advice: str) -> Kind:
    """``value`` if it is of this kind, or an ``InputError`` that adds the advice."""
    if not isinstance(value, kind):
        raise InputError(
            f"Expected {'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__} for {what}, got "
            f"{type(value).__name__}. {advice}."
        )
    return value


def check_module(model: object, *, otherwise: str = "Pass the module itself.") -> nn.Module:
    """``model`` if it is a module, or an ``InputError`` that says how to get one. otherwise: advice for other values.

    >>> check_module({"weight": torch.zeros(2, 2)})
    Traceback (most recent call last):
    regionscope.errors.InputError: Expected a torch.nn.Module, got dict. If it is a state dict, load it into a module with model.load_state_dict(...).
    """  # noqa: E501
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise InputError(f"Expected a torch.nn.Module, got {got}. {model_advice(model, otherwise)}")
    return model


def model_advice(model: object, otherwise: str) -> str:
    """What to do about a value that was passed as a model but is not an ``nn.Module``."""
    if isinstance(model, type):
        return f"Create an instance first: {model.__name__}(...)."
    if isinstance(model, Mapping):
        return "If it is a state dict, load it into a module with model.load_state_dict(...)."
    if isinstance(model, str | Path):
        return "Read an ONNX file with read_onnx(path), or build the module and load its weights."
    return otherwise


def check_shape(input_shape: object) -> tuple[int, ...]:
    """The sizes of one input without the batch, or an ``InputError``."""
    if not isinstance(input_shape, Sequence) or not input_shape or not all(map(is_integer, input_shape)):
        raise InputError(
            f"Expected input_shape to be the sizes of one input without the batch, got {input_shape!r}. "
            "Write a tuple such as (2,) or (3, 32, 32)."
        )
    return tuple(input_shape)


def unknown_name(
    what: str, name: object, known: Iterable[str], *, more: str = "", most: int | None = None
) -> InputError:
    """The error for a name that does not exist, with the nearest one that does. most: number of names to list.

    >>> print(unknown_name("a data set", "two_mons", ["two_moons", "digits"]))
    Expected a data set, got 'two_mons'. Did you mean 'two_moons'? Choose from two_moons, digits.
    >>> print(unknown_name("a part", "h.1.mlp", ["transformer.h.0.mlp", "transformer.h.1.mlp"], most=1))
    Expected a part, got 'h.1.mlp'. Did you mean 'transformer.h.1.mlp'? Choose from transformer.h.0.mlp, ....
    """
    names = [*known]
    ends = [full for full in names if full.endswith(f".{name}")]  # "h.1.mlp" of "transformer.h.1.mlp"
    matches = ends if len(ends) == 1 else get_close_matches(str(name), names, n=1)
    guess = f" Did you mean {matches[0]!r}?" if matches else ""
    listed = ", ".join(names[:most]) + (", ..." if names[most or len(names) :] else "")
    choice = f"Choose from {listed}" if names else "Leave it out, since there is none to choose from"
    return InputError(f"Expected {what}, got {name!r}.{guess} {choice}{'; ' + more if more else ''}.")


def check_class_names(class_names: Sequence[str], n_classes: int) -> tuple[str, ...]:
    """The names, if there is one for each class.

    >>> check_class_names(["cat", "dog"], 2)
    ('cat', 'dog')
    """
    if isinstance(class_names, str):
        raise InputError(f"Expected a list of class names, got the text {class_names!r}. Pass one name for each class.")
    if len(class_names) != n_classes:
        raise InputError(
            f"Expected {n_classes} class names, got {len(class_names)}. "
            "Pass one name for each class, in the order of the labels."
        )
    return tuple(str(name) for name in class_names)


def one_of(name: str, value: object, accepted: Iterable[str]) -> str:
    """``value`` if it is one of the accepted words, or an ``InputError`` that lists them.

    >>> one_of("pooling", "meen", ("max", "mean"))
    Traceback (most recent call last):
    regionscope.errors.InputError: Expected a valid pooling, got 'meen'. Did you mean 'mean'? Choose from max, mean.
    """
    words = tuple(accepted)
    if not isinstance(value, str) or value not in words:
        raise unknown_name(f"a valid {name}", value, words)
    return value


def read_path(path: object) -> Path:
    """``path`` as a ``Path``, or an ``InputError`` for a value that names no file or folder."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"Expected a path, got {type(path).__name__}. Pass a string or a Path.")
    return Path(path)


def read_device(name: object, *, what: str = "device") -> torch.device:
    """The device of this name, if this machine has it and it computes numbers."""
    try:
        device = torch.device(name)  # type: ignore[call-overload]
        torch.empty(0, device=device)
    except (TypeError, RuntimeError, AssertionError) as error:
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        raise InputError(
            f"Expected {what} to be one that this machine and this build of PyTorch have, got {str(name)!r}. "
            f"Pass {f'cpu or {accelerator.type}' if accelerator else 'cpu'}."
        ) from error
    if device.type == "meta":
        raise InputError(f"Expected {what} to compute numbers, got {str(name)!r}. Pass cpu, cuda, cuda:1 or mps.")
    return device  # type: ignore[no-any-return]
