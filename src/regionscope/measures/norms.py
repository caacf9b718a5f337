"""Norms of the parameters, and how far they have moved from where training began."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regionscope.checks import check_module, one_of, unreadable
from regionscope.errors import InputError
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.estimator import as_module
from regionscope.network.private_copy import check_whole
from regionscope.types import Reading, repr_of

Which = Literal["all", "weights"]
_WRAPPERS = ("module.", "_orig_mod.")  # in the state dicts of data-parallel and of compiled modules


@dataclass(frozen=True)
class ParameterNorms:
    """Norms of the parameters of a module.

    l1, l2: over all parameters. frobenius: of each parameter. spectral: of each weight with two or more axes.

    The spectral norm of a convolution is that of its kernel as a matrix (out, in * positions).
    """

    l1: float
    l2: float
    frobenius: dict[str, float]
    spectral: dict[str, float]

    def __repr__(self) -> str:
        return repr_of(self, parameters=len(self.frobenius))

    def readings(self) -> tuple[Reading, ...]:
        """The norms of all parameters together."""
        return ("l1", self.l1, None), ("l2", self.l2, None)


def parameter_norms(model: nn.Module, *, which: Which = "all") -> ParameterNorms:
    """Norms of the parameters, frozen ones too; ``which="weights"`` leaves out those with one axis, such as biases.

    Cost: one pass over the parameters, and one singular value decomposition per matrix.
    """
    chosen = _chosen(model, which)
    matrices = {name: value.flatten(1) for name, value in chosen.items() if value.ndim >= 2}
    return ParameterNorms(
        l1=sum(float(value.abs().sum()) for value in chosen.values()),
        l2=math.sqrt(sum(float(value.square().sum()) for value in chosen.values())),
        frobenius={name: float(value.norm()) for name, value in chosen.items()},
        spectral={name: _largest_singular_value(value) for name, value in matrices.items()},
    )


def _largest_singular_value(matrix: Tensor) -> float:
    """NaN for a matrix that holds NaN or infinity, on which LAPACK fails."""
    return float(torch.linalg.matrix_norm(matrix, 2)) if bool(matrix.isfinite().all()) else math.nan


def distance_from(model: nn.Module, initial: nn.Module | Mapping[str, Tensor], *, which: Which = "all") -> float:
    """d(W) = sqrt(sum_i |W_i - W_i^0|_F^2), the Frobenius distance from the initial weights. Li et al. 2025, Example 1.

    initial: a copy of the module, or its state dict, taken before training. On both sides, ``torch.compile`` and
    data-parallel wrappers are removed, also from the names in a state dict. ``which="weights"`` takes only weights with
    two or more axes, as the paper's formula does; by default biases count too. Not invariant to reparametrisation: see
    the paper's section 3.
    """
    chosen = _chosen(model, which)
    start = unwrapped(initial).state_dict() if isinstance(initial, nn.Module) else initial
    if not isinstance(start, Mapping):
        raise InputError(
            f"Expected initial to be a module or a state dict, got {type(start).__name__}. Pass a copy of the "
            "module from before training."
        )
    start = _without_wrappers(start, chosen)
    total = 0.0
    for name, value in chosen.items():
        if name not in start or start[name].shape != value.shape:
            problem = "is missing there" if name not in start else f"has shape {tuple(start[name].shape)} there"
            raise InputError(
                f"Expected initial weights that fit the model: {name!r}, of shape {tuple(value.shape)}, {problem}. "
                "Pass a copy of this model from before training."
            )
        total += float((value - start[name].detach().to(value.device, torch.float64)).square().sum())
    return math.sqrt(total)


def _without_wrappers(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """A state dict under the names of the network inside wrappers of torch, if its own are not the wanted ones."""
    while state and not any(name in state for name in wanted):
        prefix = next((prefix for prefix in _WRAPPERS if all(str(name).startswith(prefix) for name in state)), None)
        if prefix is None:
            break
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _chosen(model: nn.Module, which: Which) -> dict[str, Tensor]:
    one_of("which", which, ("all", "weights"))
    network, weights = unwrapped(check_module(as_module(model))), {}
    check_whole(network)
    for name, value in network.named_parameters():
        if reason := unreadable(value):
            raise InputError(f"Expected parameter {name!r} to hold real numbers, got {reason}")
        if which == "all" or value.ndim >= 2:
            weights[name] = value.detach().double()
    return weights
