"""Stacked parameters of m networks, and the forward pass of all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from regionscope.errors import InputError

__all__ = ["Stack", "stacked_forward"]

Forward = Callable[[Mapping[str, Tensor], Tensor], Tensor]

_POINTWISE = (
    nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.Softplus,
    nn.Identity,
)  # fmt: skip


class Stack:
    """The parameters and buffers of m networks of one architecture.

    flat: all trained parameters in one tensor, so that an optimiser needs few operations. trained: views of it,
    (m, *shape) each. fixed: stacked parameters that are not trained, and buffers.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        first = models[0]
        _check_alike(models)
        names = {name for name, value in first.named_parameters() if value.requires_grad}
        if not names:
            raise InputError("The models have no trainable parameters, so there is nothing to train.")
        each = [[value for _, value in _tensors(model)] for model in models]
        values = {name: torch.stack(own) for (name, _), *own in zip(_tensors(first), *each, strict=True)}
        self.m = len(models)
        self.flat = torch.cat([value.flatten() for name, value in values.items() if name in names])
        self.trained: dict[str, Tensor] = {}
        self.fixed = {name: value for name, value in values.items() if name not in names}
        self._sizes: list[int] = []
        start = 0
        for name, value in values.items():
            if name in names:
                view = self.flat[start : start + value.numel()].view_as(value)
                self.trained[name] = view.detach().requires_grad_(True)
                self._sizes.append(value.numel())
                start += value.numel()

    @property
    def everything(self) -> dict[str, Tensor]:
        """Trained and fixed values."""
        return {**self.trained, **self.fixed}

    def spread(self, values: Sequence[float]) -> Tensor | float:
        """One number for each member, as a factor for ``flat``; a plain number where all are equal."""
        if len(set(values)) == 1:
            return values[0]
        column = torch.tensor(values, dtype=self.flat.dtype, device=self.flat.device)
        return torch.cat([column.repeat_interleave(size // self.m) for size in self._sizes])

    def finite(self) -> list[bool]:
        """Whether all weights of a member are finite."""
        found = [value.detach().reshape(self.m, -1).isfinite().all(1) for value in self.trained.values()]
        return list(torch.stack(found).all(0).tolist())

    def unload(self, models: Sequence[nn.Module]) -> None:
        """Write the weights back into the networks."""
        with torch.no_grad():
            for i, model in enumerate(models):
                own = dict(model.named_parameters())
                for name, value in self.trained.items():
                    own[name].copy_(value[i])


def stacked_forward(model: nn.Module) -> Forward:
    """(stacked values, inputs (m, b, *shape)) -> outputs (m, b, c), for networks like ``model``.

    A chain of linear layers and pointwise activations is done with one batched product a layer, anything else with
    ``torch.func.vmap``, which is a little slower.
    """
    chain = _chain(model)
    if chain is not None:
        return lambda values, inputs: _run_chain(chain, values, inputs)

    def one(values: dict[str, Tensor], inputs: Tensor) -> Tensor:
        found: Tensor = functional_call(model, values, (inputs,))
        return found

    return lambda values, inputs: vmap(one)(dict(values), inputs)


def _chain(model: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    """The layers of nested ``nn.Sequential`` in order, or None where there is another kind of layer."""
    if type(model) is not nn.Sequential:
        plain = isinstance(model, (nn.Linear, nn.Flatten, *_POINTWISE))
        return [(prefix, model)] if plain and not model._forward_hooks and not model._forward_pre_hooks else None
    found: list[tuple[str, nn.Module]] = []
    for name, child in model.named_children():
        inside = _chain(child, f"{prefix}.{name}" if prefix else name)
        if inside is None:
            return None
        found += inside
    return found


def _run_chain(chain: list[tuple[str, nn.Module]], values: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    for name, layer in chain:
        start = f"{name}." if name else ""
        if isinstance(layer, nn.Linear):
            weight = values[f"{start}weight"].transpose(1, 2)
            if layer.bias is None:
                inputs = torch.bmm(inputs, weight)
            else:
                inputs = torch.baddbmm(values[f"{start}bias"].unsqueeze(1), inputs, weight)
        elif isinstance(layer, nn.Flatten):
            inputs = inputs.flatten(layer.start_dim + 1 if layer.start_dim >= 0 else layer.start_dim)
        elif isinstance(layer, nn.ReLU):
            inputs = torch.relu(inputs)
        else:
            inputs = layer(inputs)
    return inputs


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, value.detach()) for name, value in (*model.named_parameters(), *model.named_buffers())]


def _check_alike(models: Sequence[nn.Module]) -> None:
    first = models[0]
    for name, module in first.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            raise InputError(
                f"{name!r} keeps running statistics ({type(module).__name__}), which cannot be stacked; train such "
                "networks one by one with train()."
            )
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            raise InputError(f"{name!r} is dropout, whose draws cannot be stacked; train such networks with train().")
    if len({id(each) for each in models}) < len(models):
        raise InputError("The same model came twice; give each member a model of its own.")
    shapes = [(name, value.shape) for name, value in _tensors(first)]
    trained = [value.requires_grad for value in first.parameters()]
    for i, model in enumerate(models):
        alike = [(name, value.shape) for name, value in _tensors(model)] == shapes and repr(model) == repr(first)
        if not alike or [value.requires_grad for value in model.parameters()] != trained:
            raise InputError(f"Model {i} is not built like model 0; networks trained together share one architecture.")
