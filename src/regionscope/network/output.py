"""``select_output``: one tensor of a model that returns several, with its further arguments fixed.

All instruments measure a function of one input tensor. A model of another kind becomes one here, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from torch import Tensor, fx, jit, nn

from regionscope.checks import check_module, unknown_name
from regionscope.errors import InputError
from regionscope.network.call.wrappers import shared_state, unwrapped
from regionscope.network.program import Program
from regionscope.network.torchscript import ScriptNetwork

Output = str | int | Callable[[Any], Any]
"""Which part of a model's output: a name (a key or an attribute), an index, or a function of the output."""

Arguments = Sequence[Any] | Mapping[str, Any]
"""The model's arguments after the input: in order, or by name."""


def select_output(model: Any, output: Output | None = None, args: Arguments = (), *, module: str | None = None) -> Any:
    """The function ``inputs -> part of model(inputs, *args)``; the model itself if all of these are None.

    For a module, the result is a module that shares layers, parameters and modes with the original, under the same
    names. Floating-point tensors among ``args`` are moved to the device and dtype of the inputs; whole numbers of
    shape (1, ...), such as the token ids of a decoder, are those of every input.

    module: name of a module inside ("layer4.0"), or of a value in an ONNX file. The forward ends there, and the output
        is what that module returns when it runs first.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Softmax(1))
    >>> select_output(net, module="1")(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    >>> class Net(nn.Linear):
    ...     def forward(self, x, scale):
    ...         return {"logits": scale * super().forward(x), "features": x}
    >>> net = select_output(Net(2, 3), "logits", args=[torch.tensor(2.0)])
    >>> net(torch.zeros(5, 2)).shape, [name for name, _ in net.named_parameters()]
    (torch.Size([5, 3]), ['weight', 'bias'])
    """
    if isinstance(args, str | Tensor) or not isinstance(args, Sequence | Mapping):
        raise InputError(
            f"Expected args to be a list, a tuple or a dictionary, got {type(args).__name__}. "
            "Pass args=(value,) or args={'name': value}."
        )
    if output is None and not args and module is None:
        return model
    if isinstance(model, Program):
        raise InputError("Expected a module with output= or args=, got a traced program. Pass them to trace().")
    if isinstance(output, bool) or not (output is None or isinstance(output, str | int) or callable(output)):
        raise InputError(
            f"Expected output to be a name, an index or a function, got {output!r}. "
            'Pass output="logits", output=0 or a function of the result.'
        )
    if module is not None and hasattr(model, "up_to"):  # a network from an ONNX file
        model, module = model.up_to(module), None
    if isinstance(model, jit.ScriptModule):
        model = ScriptNetwork(model)
    if isinstance(model, nn.Module):
        return SelectedOutput(model, output, args, module) if output is not None or args or module else model
    if isinstance(model, type):
        check_module(model)
    if not callable(model):
        raise InputError(
            f"Expected a module or a function with output= or args=, got {type(model).__name__}. "
            "Leave both out, or wrap the model in a function."
        )
    return lambda inputs: chosen_output(_call(model, inputs, args), output)


class SelectedOutput(nn.Module):
    """A module that returns one part of the output of another. It has the layers of the other and none of its own."""

    def __init__(self, model: nn.Module, output: Output | None, args: Arguments, module: str | None = None) -> None:
        names = [name for name, _ in unwrapped(model).named_modules() if name]
        if module is not None and module not in names:
            raise unknown_name("module to name a module of the model", module, names, most=20)
        fixed = dict(args) if isinstance(args, Mapping) else tuple(args)
        # ``inner`` is no registered submodule: the names of its layers stay the same. Its wrappers may have hooks.
        self.__dict__.update(shared_state(unwrapped(model), inner=model, output=output, args=fixed, stop=module))

    @property
    def training(self) -> bool:
        """The mode of the model itself."""
        return unwrapped(self.__dict__["inner"]).training

    @training.setter
    def training(self, mode: bool) -> None:
        unwrapped(self.__dict__["inner"]).training = mode

    def forward(self, inputs: Tensor) -> Any:
        """The chosen part of the output."""
        inner, stop = self.__dict__["inner"], self.__dict__["stop"]
        if stop is None:
            return chosen_output(_call(inner, inputs, self.__dict__["args"]), self.__dict__["output"])
        try:
            _call(_stopping(unwrapped(inner), stop), inputs, self.__dict__["args"])
        except _Reached as reached:
            return chosen_output(reached.output, self.__dict__["output"])
        raise InputError(f"Expected module to name a module that runs in the forward pass, got {stop!r}. Name another.")

    def __repr__(self) -> str:
        return f"SelectedOutput({self.__dict__['output']!r}, {self.__dict__['inner']!r})"


class _Reached(BaseException):
    """Ends a forward pass once ``output`` is known; no ``except Exception`` of the forward stops it."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


def _reach(module: nn.Module, *args: Any, **kwargs: Any) -> NoReturn:
    raise _Reached(module(*args, **kwargs))


def _stopping(module: nn.Module, path: str) -> nn.Module:
    """``module`` with a forward that ends behind the module at ``path``. The modules on the way there are stand-ins
    that share everything with the originals, which other threads may run meanwhile.
    """
    stand_in: nn.Module = object.__new__(type(module))
    stand_in.__dict__.update(module.__dict__)
    call = module.__dict__.get("_compiled_call_impl")
    if isinstance(call, partial):  # of a forward that is read
        call = partial(call.func, stand_in)
    if not path:
        call = partial(_reach, module)
    else:
        name, _, rest = path.partition(".")
        child = module._modules[name]
        assert child is not None
        stand_in.__dict__["_modules"] = {**module._modules, name: _stopping(child, rest)}
    stand_in.__dict__["_compiled_call_impl"] = call
    return stand_in


def _call(model: Callable[..., Any], inputs: Any, args: Arguments) -> Any:
    def fit_to_inputs(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.is_floating_point():
            known = isinstance(inputs, Tensor | fx.Proxy)
            return value.to(device=inputs.device, dtype=inputs.dtype) if known else value
        return for_each_input(value, inputs)

    if isinstance(args, Mapping):
        return model(inputs, **{name: fit_to_inputs(value) for name, value in args.items()})
    return model(inputs, *map(fit_to_inputs, args))


def for_each_input(value: Any, inputs: Any) -> Any:
    """Whole numbers of shape (1, ...), such as the token ids of a decoder, once for each input; others as they are."""
    if not isinstance(value, Tensor) or not isinstance(inputs, Tensor) or value.is_floating_point() or value.ndim < 2:
        return value
    return value.expand(len(inputs), *value.shape[1:]) if len(value) == 1 else value


def chosen_output(result: Any, output: Output | None) -> Any:
    """The part of ``result`` that ``output`` names, or all of it."""
    if output is None:
        return result
    if callable(output):
        return output(result)
    if isinstance(result, Tensor | fx.Proxy):
        raise InputError(
            f"Expected a model with several outputs for output={output!r}, got one tensor. Leave output= out."
        )
    if isinstance(output, int):
        return _at_index(result, output)
    if isinstance(result, Mapping):
        if output in result:
            return result[output]
        names = [str(name) for name in result]
    else:
        if hasattr(result, output):
            return getattr(result, output)
        names = list(getattr(result, "_fields", getattr(result, "__dict__", ())))
    if not names:
        raise InputError(
            f"Expected a model with named outputs for output={output!r}, got a {type(result).__name__}. "
            "Pass an index or a function."
        )
    raise InputError(
        f"Expected one of the outputs {', '.join(map(repr, names))} of the model, got {output!r}. "
        "Pass one of these names, or the index of an output."
    )


def _at_index(result: Any, index: int) -> Any:
    values = list(result.values()) if isinstance(result, Mapping) else result
    if not isinstance(values, Sequence):
        raise InputError(
            f"Expected a model that returns a sequence for output={index}, got {type(result).__name__}. "
            "Pass a name or a function."
        )
    if not -len(values) <= index < len(values):
        raise InputError(
            f"Expected output below {len(values)}, the number of outputs of the model, got {index}. "
            "Count the outputs from 0."
        )
    return values[index]
