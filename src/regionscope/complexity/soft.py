"""``soft_local_complexity``: local complexity with a gradient, for penalties on folds near the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_module, check_positive
from regionscope.complexity.activations import Folds
from regionscope.complexity.forward_observer import ForwardObserver, ObservedCall
from regionscope.complexity.layer_listing import TensorSources
from regionscope.complexity.neighbourhoods import Neighbourhoods, offsets
from regionscope.errors import InputError
from regionscope.inputs import Inputs
from regionscope.network.estimator import as_module


def soft_local_complexity(
    model: nn.Module,
    inputs: Inputs,
    *,
    dims: int | None = None,
    radius: float = 0.005,
    temperature: float = 0.1,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(b,) sum over units of σ(h / (τ (h - l))) σ(-l / (τ (h - l))), with a gradient to the weights of ``model``.

    l, h: lowest and highest pre-activation of the unit (minus the place of its fold) over the vertices x ± r v_p of
    ``local_complexity``. A unit that folds deep inside the neighbourhood counts 1, a unit far from folding counts 0. As
    the temperature τ goes to 0 this becomes ``local_complexity``. Like it, it is invariant to scaling the
    pre-activations of a unit. A unit that reaches its fold without crossing it (l = 0 or h = 0 exactly) or is constant
    on the vertices (l = h) counts 0 as there, with a gradient of 0: a unit behind dead ReLUs, for example.

    inputs: the points x, (b, *input_shape); for token ids, pass their embeddings and a model that takes them.
    dims, radius, seed: as in ``local_complexity``. A ``generator`` gives a new frame at each call. The model runs as it
    is, in its own mode; BatchNorm must be in eval mode, since a neighbourhood has no statistics of its own. In half
    precision rounding moves the vertices: choose a larger radius.
    Cost: one forward pass of 2·P·b inputs that is kept for the gradient.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> penalty = soft_local_complexity(net, torch.zeros(3, 2), radius=1.0).mean()
    >>> penalty.backward()
    """
    model = check_module(as_module(model), otherwise="For an exported program, pass program.module().")
    check_positive(temperature=temperature)
    where = Neighbourhoods.read(
        model, inputs, dims=dims, radius=radius, frames="shared", seed=seed, generator=generator
    )
    assert isinstance(where.frames, Tensor)  # shared ones are drawn at once
    vertices = offsets(where.frames, radius) + where.points
    observer = _Ranges(model, *vertices.shape[:2])
    with observer.watching():
        observer.forward(vertices.reshape(-1, *where.shape))
    if not observer.found:
        raise InputError(
            "Expected a model that calls activations, got one that calls none. Use those of torch, such as nn.ReLU."
        )
    none = observer.found[0][0].new_zeros(len(where.points))
    return sum((_soft(low, high, temperature) for low, high in observer.found), none)


def _soft(low: Tensor, high: Tensor, temperature: float) -> Tensor:
    counts = (low != 0) & (high != 0) & (low != high)  # the formula would give up to 1/2 for the others
    low, high = torch.where(counts, low, -1.0), torch.where(counts, high, 1.0)  # so that no gradient is NaN
    scale = temperature * (high - low).clamp_min(torch.finfo(low.dtype).tiny)
    soft = (high / scale).sigmoid() * (-low / scale).sigmoid()
    return torch.where(counts, soft, 0.0).sum(1)


class _Ranges(ForwardObserver):
    """Lowest and highest pre-activation minus the fold, (n, units), over m vertices around n points."""

    def __init__(self, model: nn.Module, m: int, n: int) -> None:
        super().__init__(model)
        self._m, self._n = m, n
        self.found: list[tuple[Tensor, Tensor]] = []
        self._sources = TensorSources(model)

    def at_activation(self, call: ObservedCall, folds: Folds) -> Any:
        if not self._takes_inputs(call):
            return self._followed(call)  # an activation of weights
        if folds.values.ndim == 0 or len(folds.values) != self._m * self._n:
            raise InputError(
                f"Expected '{call.name}' to work on a tensor whose first axis is the batch, got shape "
                f"{tuple(folds.values.shape)}. Rewrite the layer with the batch as the first axis."
            )
        values = folds.values.clone().reshape(self._m, self._n, -1)  # the activation may work in place
        exact = torch.promote_types(values.dtype, torch.float32)  # sums over units in half precision lose whole units
        low, high = values.amin(0).to(exact), values.amax(0).to(exact)
        self.found += [(low - place, high - place) for place in folds.at]
        return self._followed(call)

    def at_linear(self, call: ObservedCall) -> Any:
        return self._followed(call)

    def at_max_pool(self, call: ObservedCall) -> Any:
        return self._followed(call)

    def at_other(self, call: ObservedCall) -> Any:
        return self._followed(call)

    def _takes_inputs(self, call: ObservedCall) -> bool:
        """Whether a tensor among the arguments is computed from the input, and not from weights alone."""
        return bool(self._sources.inputs_of(call)[0])

    def _followed(self, call: ObservedCall) -> Any:
        """What the call returns; notes whether it is computed from weights alone."""
        takes_inputs, result = self._takes_inputs(call), call.run()
        self._sources.note(call, result, frozenset() if takes_inputs else None)
        return result
