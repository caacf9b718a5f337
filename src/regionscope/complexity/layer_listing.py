"""A few small forward passes that list the layers of a model: what there is to count, before anything is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import torch
from torch import Size, Tensor, nn

from regionscope.complexity.activations import (
    LINEAR,
    OBSERVED,
    Folds,
    operation,
)
from regionscope.complexity.forward_observer import ForwardObserver, ObservedCall, tensors
from regionscope.complexity.layers import Layer, LayerList, Role
from regionscope.errors import InputError
from regionscope.network.call.determinism import check_fixed_outputs, rows_of

_MIRROR = 0.37  # the last input of a pass is this minus the others, so that its values differ
_ALIKE = 1e-3  # of the largest value: what differs by less is the same up to rounding
_ROWS, _FEWER = 7, 2  # inputs of the two passes: the axis of a layer whose size follows them runs over the batch


def list_layers(model: nn.Module, example: Tensor) -> LayerList:
    """List the layers of ``model`` by forward passes over copies of ``example`` (*shape), inside ``untouched``."""
    lister, other = _LayerLister(model, _ROWS), _ShapeLister(model, _FEWER)
    outputs = [output[[0, -1]] for output in rows_of(_listed(lister, example), _ROWS)]
    again = rows_of(_listed(other, example), _FEWER)
    if lister.seen != other.seen:
        raise InputError(
            f"Expected the same operations for every batch size, got different ones for {_ROWS} and {_FEWER} inputs. "
            "Rewrite the forward pass without a branch on the batch size."
        )
    check_fixed_outputs(model, torch.stack([example, _MIRROR - example]), outputs, again)
    axes = map(_batch_axis, lister.shapes, (other.shapes[layer.name] for layer in lister.layers), lister.in_order)
    layers = [replace(layer, axis=axis) for layer, axis in zip(lister.layers, axes, strict=True)]
    linear = {layer.name: layer.axis for layer in layers if layer.role == "linear"}
    return LayerList(tuple(layers[i] for i in lister.counted()), lister.widest // _ROWS + 1, linear, lister.others)


def _one_after_the_other(values: Tensor, rows: int) -> bool:
    """Whether, where inputs and tokens share the first axis, all tokens of an input come before the next input.

    All inputs but the last are equal, and so must be their parts of the axis; in another order the last one's tokens
    would stand among them. If all tokens of an input are equal, these may stand in all parts alike: the last part must
    differ from the first, unless nothing differs.
    """
    if values.ndim == 0 or len(values) == 0 or len(values) % rows:
        return False
    tokens = values.detach().reshape(len(values), -1).double()
    tolerance = _ALIKE * tokens.abs().amax() if tokens.numel() else 0.0
    parts = tokens.reshape(rows, -1)
    differ = ((parts[:1] - parts[1:]).abs() > tolerance).any(1)
    constant = ~((tokens - tokens[:1]).abs() > tolerance).any()
    return bool(~differ[:-1].any() & (differ[-1] | constant))


def _listed(lister: _LayerLister | _ShapeLister, example: Tensor) -> Any:
    """The output for copies of the example; the last one is changed, so that its values can be told from the others."""
    inputs = example.expand(lister.rows, *example.shape).clone()
    inputs[-1] = _MIRROR - example
    with lister.watching():
        return lister.forward(inputs)


def _batch_axis(shape: Size, fewer: Size, in_order: bool) -> int | None:
    """Which axis runs over the inputs, from the shapes for ``_ROWS`` and for ``_FEWER`` of them; None: none does.

    in_order: see ``_one_after_the_other``.
    """
    if len(shape) != len(fewer):
        return None
    match [axis for axis, (a, b) in enumerate(zip(shape, fewer, strict=True)) if a != b]:
        case [axis] if (shape[axis], fewer[axis]) == (_ROWS, _FEWER):
            return axis
        case [0] if shape[0] * _FEWER == fewer[0] * _ROWS and in_order:
            return 0  # inputs and tokens share the first axis
    return None


class _ShapeLister(ForwardObserver):
    """The shapes of the tensors at all layers, by name; those of tensors computed from parameters alone too."""

    def __init__(self, model: nn.Module, rows: int) -> None:
        super().__init__(model)
        self.rows = rows
        self.shapes: dict[str, Size] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if operation(func) not in OBSERVED:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def at_activation(self, call: ObservedCall, folds: Folds) -> Any:
        self.shapes[call.name] = folds.values.shape
        return call.run()

    def at_linear(self, call: ObservedCall) -> Any:
        output = call.run()
        self.shapes[call.name] = output.shape
        return output

    def at_max_pool(self, call: ObservedCall) -> Any:
        output = call.run()
        self.shapes[call.name] = _pooled(output).shape
        return output


def _pooled(output: Any) -> Tensor:
    """What a max-pooling returns, without the indices."""
    return output if isinstance(output, Tensor) else output[0]


class _LayerLister(ForwardObserver):
    """Follows every tensor to say which linear layers feed it; None stands for "computed from parameters alone"."""

    def __init__(self, model: nn.Module, rows: int) -> None:
        super().__init__(model)
        self.layers: list[Layer] = []
        self.shapes: list[Size] = []  # of the tensors at ``layers``
        self.in_order: list[bool] = []  # of the same: see ``_one_after_the_other``
        self.widest = 0
        self.rows = rows
        self.others: set[str] = set()  # names of functions without a role, computed from the input
        self._followed: set[int] = set()  # places in ``layers`` of linear outputs that an activation follows
        self._sources = TensorSources(model)
        self._inputs: dict[int, Tensor] = {}  # that the current call takes, computed from the input

    def counted(self) -> Iterator[int]:
        """The places in ``layers`` of activations, max-poolings, and linear outputs that no activation follows."""
        return (i for i in range(len(self.layers)) if i not in self._followed)

    def at_activation(self, call: ObservedCall, folds: Folds) -> Any:
        sources = self._sources_of(call)
        if sources is not None:
            self._followed |= sources
            feeding = frozenset[type[nn.Module]]().union(*(self.layers[i].kinds for i in sources))
            self._add(call, "activation", folds.values, folds=len(folds.at), feeding=feeding, sources=sorted(sources))
            sources = frozenset()
        return self._run(call, sources)

    def at_linear(self, call: ObservedCall) -> Any:
        if self._sources_of(call) is None:
            return self._run(call, None)
        output = self._run(call, frozenset({len(self.layers)}))
        self._add(call if call.kind else replace(call, kind=LINEAR[call.op]), "linear", output)
        return output

    def at_max_pool(self, call: ObservedCall) -> Any:
        sources = self._sources_of(call)
        output = self._run(call, sources)
        if sources is not None:
            self._add(call, "max_pool", _pooled(output))
        return output

    def at_other(self, call: ObservedCall) -> Any:
        sources = self._sources_of(call)
        if sources is not None:
            self.others.add(call.op)
        return self._run(call, sources)

    def _add(
        self,
        call: ObservedCall,
        role: Role,
        values: Tensor,
        *,
        folds: int = 1,
        feeding: frozenset[type[nn.Module]] = frozenset(),
        sources: Sequence[int] = (),
    ) -> None:
        kinds = feeding if call.kind is None else feeding | {call.kind}
        entries = values.numel() // self.rows
        fed_by = tuple(self.layers[i].name for i in sources)
        wide = any(issubclass(kind, nn.Linear) for kind in kinds)
        made = [self.shapes[i] for i in sources] or [values.shape]
        positions = self._positions(values, made) if wide else 0
        self.layers.append(Layer(call.name, role, folds * entries, None, kinds, positions, fed_by))
        self.shapes.append(values.shape)
        shared = values.shape[:1] != (self.rows,)  # else the first axis is that of the inputs alone
        self.in_order.append(shared and _one_after_the_other(values, self.rows))

    def _positions(self, values: Tensor, made: Sequence[Size]) -> int:
        """Number of tokens of an input in ``values``, which come from linear outputs of the shapes ``made``."""
        shape = made[0]
        reshaped = values.numel() == shape.numel() and values.shape[-1:] == shape[-1:]
        kept = reshaped or values.shape[: len(shape) - 1] == shape[:-1]
        if not kept or len(shape) < 2 or not shape.numel() or any(other != shape for other in made):
            return 0
        positions = shape.numel() // (self.rows * shape[-1])
        return positions if positions and values.numel() % (self.rows * positions) == 0 else 0

    def _sources_of(self, call: ObservedCall) -> frozenset[int] | None:
        """The linear outputs that feed the arguments; None if these are computed from parameters alone."""
        self._inputs, sources = self._sources.inputs_of(call)
        return sources if self._inputs else None

    def _run(self, call: ObservedCall, sources: frozenset[int] | None) -> Any:
        """What the call returns; ``_sources_of`` has noted the tensors that it takes."""
        result = call.run()
        outputs = self._sources.note(call, result, sources)
        if sources is not None:
            around = self._inputs
            around.update((id(tensor), tensor) for tensor in outputs)
            self.widest = max(self.widest, sum(tensor.nbytes for tensor in around.values()))
        self._inputs = {}
        return result


# Following the tensors of a forward pass: which are computed from the input, and which linear layers feed them.


class TensorSources:
    """For each tensor of a forward pass, the linear outputs that feed it; None if it is computed from parameters alone.

    A tensor that was never noted counts as computed from the input.
    """

    def __init__(self, model: nn.Module) -> None:
        held = (tensor for tensor in vars(model).values() if isinstance(tensor, Tensor))
        fixed = (*model.parameters(), *model.buffers(), *held)
        self._noted: dict[int, tuple[ref[Tensor], frozenset[int] | None]] = {
            id(tensor): (ref(tensor), None) for tensor in fixed
        }

    def inputs_of(self, call: ObservedCall) -> tuple[dict[int, Tensor], frozenset[int]]:
        """The arguments that are computed from the input, by id, and the linear outputs that feed them."""
        inputs: dict[int, Tensor] = {}
        sources: frozenset[int] = frozenset()
        for tensor in tensors((call.args, call.kwargs)):
            noted = self._noted.get(id(tensor))
            if noted is None or noted[0]() is not tensor:  # not seen before, or another one had its id
                inputs[id(tensor)] = tensor
            elif noted[1] is not None:
                inputs[id(tensor)] = tensor
                sources |= noted[1]
        return inputs, sources

    def note(self, call: ObservedCall, result: Any, sources: frozenset[int] | None) -> list[Tensor]:
        """Note the sources of the tensors that the call has returned or written to; returns these tensors."""
        outputs = tensors(call.args[0] if call.op == "__setitem__" else result)
        for tensor in outputs:
            self._noted[id(tensor)] = ref(tensor), sources
        return outputs
