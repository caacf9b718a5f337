"""Following the tensors of a forward pass: which are computed from the input, and which linear layers feed them."""

from __future__ import annotations

from typing import Any
from weakref import ref

from torch import Tensor, nn

from regionscope.complexity.forward_observer import ObservedCall, tensors


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
