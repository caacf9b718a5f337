"""``trace``: an ``nn.Module`` read as a piecewise-affine program."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, fx, nn

from regionscope.checks import check_module
from regionscope.errors import InputError, NotPiecewiseAffine, RegionscopeError, UntraceableModel
from regionscope.network import refuse, rules  # noqa: F401  (importing the rules fills the table)
from regionscope.network.call.draws import Draws
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.estimator import EstimatorNetwork, as_module
from regionscope.network.exported import plain_module
from regionscope.network.hooks import check_hooks, global_hooks
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.policy import actor_of
from regionscope.network.private_copy import ModuleCopy, has_hooks, memory_key, readable_copy
from regionscope.network.program import Instruction, Program, only_torch, structure_of
from regionscope.network.reader import Reader
from regionscope.network.record import Data, Recorder
from regionscope.network.second_reading import ForwardReading, read_repeatedly
from regionscope.network.torchscript import ScriptNetwork


def trace(
    model: Any,
    input_shape: tuple[int, ...] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    output: Output | None = None,
    args: Arguments = (),
    points: Callable[[], Tensor] | None = None,
    order_only: bool = False,
    jumps: bool = False,
) -> Program:
    """Read ``model`` in eval mode as a program on rows of shape ``input_shape`` (without the batch dimension).

    ``model`` is an ``nn.Module``; a ``torch.export.ExportedProgram`` with an open batch size; a TorchScript module; a
    policy or an algorithm of Stable-Baselines3 (see ``ActorNetwork``); or a fitted scikit-learn estimator: a linear
    model, a multi-layer perceptron, or a pipeline of affine steps before one. Then outputs are
    those of its decision function (its prediction, for a regressor), and ``Program.classes`` are its ``classes_``.
    input_shape: not needed where the model has an attribute of that name, as networks from ONNX files and estimators
    have.

    The forward is traced with torch.fx on a private copy; the model itself is neither run nor changed.
    Weights are copied, cast to ``dtype`` and put on ``device`` (that of the model's parameters if None); the program is
    a snapshot of them. Other threads may run or train the model meanwhile, and the program can be pickled.
    Casts inside the forward (``x.half()``, ``x.to(...)``) are ignored: the whole program computes in ``dtype``. A
    custom forward is traced twice, or nine times if it draws random numbers in Python or changes a number or a buffer
    of a module. It is refused if the results differ (random numbers, the time, a call counter). Rarer changes (whole
    seconds, one call in a hundred) are not detected.
    A program has no hooks. If the model has forward hooks or pre-hooks, or torch has global ones, copies with and
    without them run at a few inputs: a hook that changes values is refused, one that only looks fires then.
    output, args: the part of the model's output to use, and its further arguments; see ``select_output``.
    jumps: whether the function may jump (comparisons, sign, round, hard shrinkage, a choice of the largest). What needs
        a continuous function refuses such a program.
    points: returns the inputs (n, *input_shape) at which hooks are compared; drawn from a normal distribution if None.
    order_only: whether only the order of the outputs is needed. Then a last softmax, sigmoid, tanh or temperature is
        left out, and ``Program.note`` says so.
    Raises NotPiecewiseAffine, UntraceableModel or InputError. Cost: milliseconds, one copy of the
    weights, and two forward passes of two rows if the recorded operations alone do not show that both traces are equal.
    """
    return _traced(
        model, input_shape, dtype=dtype, device=device, output=output, args=args, points=points, order_only=order_only,
        jumps=jumps,
    )  # fmt: skip


def trace_smooth(
    model: Any,
    input_shape: tuple[int, ...] | None,
    *,
    device: torch.device | str | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Program:
    """Read ``model`` as ``trace`` does, and record smooth functions too, in float64.

    An instruction of a smooth function has a ``Curve`` or a ``Product`` as its function. The program is not piecewise
    affine: only ``decision_map`` reads it.
    """
    try:
        return _traced(model, input_shape, dtype=torch.float64, device=device, output=output, args=args, smooth=True)
    except NotPiecewiseAffine as error:
        raise NotPiecewiseAffine(refuse.of_smooth(str(error))) from error


def _traced(
    model: Any,
    input_shape: tuple[int, ...] | None,
    *,
    dtype: torch.dtype,
    device: torch.device | str | None,
    output: Output | None,
    args: Arguments,
    points: Callable[[], Tensor] | None = None,
    smooth: bool = False,
    order_only: bool = False,
    jumps: bool = False,
) -> Program:
    outer = plain_module(select_output(_as_module(model), output, args))
    module = _python_module(outer)
    shape = _checked_shape(getattr(module, "input_shape", None) if input_shape is None else input_shape)
    if dtype not in (torch.float64, torch.float32):
        raise InputError(f"Expected dtype to be torch.float64 or torch.float32, got {dtype}. Pass one of these.")
    tensors = [*module.parameters(), *module.buffers()]
    if device is None:
        device = next((tensor.device for tensor in tensors), torch.device("cpu"))
    model_dtype = next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), dtype)
    _check_forward(module)
    place, name = torch.device(device), type(module).__name__
    copied = readable_copy(module, dtype, place)
    on_wrapper = outer is not module and any(map(has_hooks, outer.modules()))
    if (copied.hooked or on_wrapper or global_hooks()) and (unchecked := check_hooks(outer, shape, points)):
        warnings.warn(unchecked, stacklevel=2)

    def read() -> ForwardReading:
        recorder = Recorder(dtype, place, model_dtype, smooth=smooth, jumps=jumps)
        return _reading(Reader(copied, shape, recorder, order_only=order_only), copied, name)

    if only_torch(module):
        program = read().program()
        return program if smooth else _with_sources(program, module, copied.module)
    program = read_repeatedly(read, name, copied.parts)
    return replace(program, classes=module.classes) if isinstance(module, EstimatorNetwork) else program


def retrace(program: Program | None, model: nn.Module, input_shape: tuple[int, ...]) -> Program:
    """``program.rebind(model)`` if the program comes from such a model on the same device, else ``trace``."""
    if (
        program is not None
        and program.input_shape == tuple(input_shape)
        and program.can_rebind(model)
        and all(tensor.device == program.device for tensor in model.parameters())
    ):
        return program.rebind(model)
    return trace(model, input_shape)


def _with_sources(program: Program, module: nn.Module, copied: nn.Module) -> Program:
    """The program with the name of the parameter or buffer that each constant is, if each of them is one."""
    tensors = chain(copied.named_parameters(), copied.named_buffers())
    names = {memory_key(tensor): name for name, tensor in tensors if tensor.numel()}
    stretches = (program.instructions, *(fold.instructions for fold in program.folds))
    constants = (constant for stretch in stretches for step in stretch for constant in step.constants)
    if any(constant.is_floating_point() and memory_key(constant) not in names for constant in constants):
        return program

    def named(instruction: Instruction) -> Instruction:
        sources = tuple(names.get(memory_key(x), "") for x in instruction.constants)
        return replace(instruction, sources=sources) if sources else instruction

    return replace(program.map_instructions(named), structure=structure_of(module))


def _reading(reader: Reader, copied: ModuleCopy, name: str) -> ForwardReading:
    """Follow the forward once."""
    output = _read(reader, copied, name)
    if output.axis != 0:
        raise UntraceableModel(
            f"Expected an output with the batch as dimension 0, but the output of {name} has the batch as dimension "
            f"{output.axis}. Transpose it."
        )
    if output.numel == 0:
        raise InputError(
            f"Expected a network with at least one output, got outputs of shape (v, {output.shape[0]}). "
            "Return the outputs that you want to study."
        )
    return ForwardReading(reader.recorder, reader.input, output, reader.note)


def _read(reader: Reader, copied: ModuleCopy, name: str) -> Data:
    """Follow the forward; errors of the user's code get the name of the network. Restores the random states."""
    draws = Draws(reader.recorder.device)
    try:
        with torch.no_grad(), draws:
            output = reader.read(copied)
    except (RegionscopeError, MemoryError, torch.OutOfMemoryError):
        raise
    except (TypeError, AttributeError, NameError, fx.proxy.TraceError) as error:
        raise UntraceableModel(
            f"Expected a forward that torch.fx can trace, but torch.fx cannot read the forward of "
            f"{name}{reader.failed_in}: {str(error).rstrip('.')}. Rewrite that part with torch functions, or use "
            "region_count(), which only runs the module."
        ) from error
    except Exception as error:
        raise InputError(
            f"Expected inputs that the network accepts, but the forward of {name}{reader.failed_in} fails on an input "
            f"of shape (v, {', '.join(map(str, reader.input.shape))}) with {type(error).__name__}: "
            f"{str(error).rstrip('.')}. Check the shape of the input points."
        ) from error
    finally:
        draws.put_back()
    if draws.happened:
        raise UntraceableModel(
            f"Expected a forward that gives the same result each time, but the forward of {name} draws random numbers "
            "in eval mode. Draw them in training mode only."
        )
    return output


def _as_module(model: Any) -> Any:
    """The network of an estimator, a script or a policy; any other model as it is."""
    if isinstance(model, torch.jit.ScriptModule):
        return ScriptNetwork(model)
    return actor_of(as_module(model))


def _python_module(module: nn.Module) -> nn.Module:
    """The network without wrappers. Raises an error for what is not a Python module."""
    inner = unwrapped(check_module(module, otherwise="Use region_count(), which takes any classifier."))
    for kind in type(unwrapped(inner.__dict__.get("inner", inner))).__mro__:  # inside select_output
        library, name = kind.__module__.partition(".")[0], kind.__name__
        if library in ("stable_baselines3", "sb3_contrib") and name.endswith("Policy") and name != "BasePolicy":
            raise UntraceableModel(refuse.policy(name))
    scripts = [name for name, child in inner.named_modules() if isinstance(child, torch.jit.ScriptModule)]
    if scripts:
        raise UntraceableModel(
            f"Expected a Python module or a TorchScript module, got a {type(inner).__name__} in which {scripts[0]!r} "
            "is TorchScript. Pass that alone, with output= for what follows it."
        )
    return inner


def _checked_shape(input_shape: Any) -> tuple[int, ...]:
    shape = tuple(input_shape) if isinstance(input_shape, tuple | list) else (input_shape,)
    if not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        raise InputError(
            "Expected input_shape to be a tuple of positive integers, without the batch dimension, got "
            f"{input_shape!r}. "
            "Write input_shape=(3, 32, 32), for example."
        )
    return shape


def _check_forward(module: nn.Module) -> None:
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p.name for p in parameters if p.default is p.empty and p.kind in (*positional, p.KEYWORD_ONLY)]
    variable = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    takes_one = variable or any(p.kind in positional for p in parameters)
    if len(required) > 1 or not takes_one:
        raise UntraceableModel(
            f"Expected a forward with one input tensor, but the forward of {type(module).__name__} takes "
            f"{len(required)} inputs ({', '.join(required)}). Pass the others with args=, or wrap the "
            "module so that they are fixed."
        )
