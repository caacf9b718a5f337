"""``spline_features``: seven numbers for each MLP layer that say where a prompt lies in the partition of the layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regionscope.checks import read_integer, unknown_name
from regionscope.complexity.activations import Folds
from regionscope.complexity.forward_observer import ForwardObserver, ObservedCall
from regionscope.complexity.layer_listing import list_layers
from regionscope.complexity.layers import matching
from regionscope.errors import InputError
from regionscope.extras import data_frame
from regionscope.network import untouched
from regionscope.network.embedded import embedded_with_head
from regionscope.network.output import Arguments
from regionscope.network.token_ids import read_tokens, without_padding
from regionscope.types import Estimate, Reading

FEATURES = (
    "positive_mean",
    "positive_min",
    "positive_max",
    "positive_std",
    "distance_min",
    "distance_mean",
    "distance_std",
)
"""Of the share of units with a positive pre-activation, and of the distance to the nearest fold, over the tokens."""


@dataclass(frozen=True, eq=False)
class SplineFeatures:
    """Seven features of each MLP layer for n prompts.

    values: (n, layers, 7) float64, in the order of ``FEATURES``. layers: names of the linear layers, in the order of
    the forward pass. tokens: (n,) number of real tokens of each prompt.
    """

    values: Tensor
    layers: tuple[str, ...]
    tokens: Tensor

    def __repr__(self) -> str:
        return f"SplineFeatures(prompts={len(self.values)}, layers={len(self.layers)}, features={len(FEATURES)})"

    def readings(self) -> tuple[Reading, ...]:
        """The mean of each feature over the prompts, for each layer; the first is the mean share of positive units."""
        means = [Estimate.of(column) for column in self.table.T]
        named = zip(self.columns, means, strict=True)
        main = Estimate.of(self.values[:, :, 0].mean(1))
        return (("", main.value, main.stderr), *((name, mean.value, mean.stderr) for name, mean in named))

    @property
    def table(self) -> Tensor:
        """(n, 7 * layers): one row for each prompt."""
        return self.values.flatten(1)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of ``table``: "layer:feature"."""
        return tuple(f"{layer}:{feature}" for layer in self.layers for feature in FEATURES)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each prompt."""
        return data_frame(dict(zip(self.columns, self.table.T.cpu().numpy(), strict=True)))


def spline_features(
    model: nn.Module,
    ids: Any,
    *,
    attention_mask: Any = None,
    layers: str | Sequence[str] | None = None,
    batch_size: int = 32,
    args: Arguments = (),
) -> SplineFeatures:
    """The seven features of Balestriero et al. 2023 for each MLP layer and prompt.

    h = W x + b are the pre-activations of a layer at one token (those of the gate, if there is one). Two numbers are
    taken for each token: the share of positive entries of h, and min_i |h_i| / ||W_i||, the distance in the layer's
    input space to the nearest hyperplane at which the layer folds. The features are the mean, least, largest and
    standard deviation (n - 1) of the share over the real tokens, and the least, mean and standard deviation of the
    distance. Definitions as in the authors' code. Differs: biases count; padding is left out; the deviation of a single
    token is 0. A unit without weights has no hyperplane. If one layer computes both a gate and its values, the columns
    that the activation reads are the gate.

    model: takes token ids (n, t). ids: (n, t) whole numbers, or (t,). attention_mask: (n, t), 0 at padding.
    layers: names or patterns of the linear layers; by default all those that feed an activation directly and work on
        tokens. batch_size: number of prompts at a time; the result is the same up to rounding.
    Cost: one forward pass over the prompts.
    """
    tokens, mask = read_tokens(ids, attention_mask)
    read_integer("batch_size", batch_size)
    longest_first = reversed([*without_padding(tokens, mask)])
    names: tuple[str, ...] = ()
    rows, parts = [], []
    for group in longest_first:
        view = embedded_with_head(model, group.ids, position=None, head=-1, args=args, output=_first_tensor)
        with untouched(view.model, copy=False) as private:
            names = names or _mlp_layers(private, view.inputs[0], layers)
            observer = _Observer(private, names)
            with observer.watching():
                parts += [observer.features(part) for part in view.inputs.split(batch_size)]
        rows.append(group.rows)
    order = torch.cat(rows).argsort()
    return SplineFeatures(torch.cat(parts)[order.to(parts[0].device)], names, mask.sum(1))


def _first_tensor(result: Any) -> Tensor:
    """The logits or hidden states, whatever a model returns; the features do not depend on them."""
    return next((leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)), torch.empty(0, device="cpu"))


def _mlp_layers(model: nn.Module, example: Tensor, layers: str | Sequence[str] | None) -> tuple[str, ...]:
    """The linear layers, each of which alone feeds an activation at every token."""
    layer_list = list_layers(model, example)
    feeding = [
        layer.fed_by[0] for layer in layer_list.layers if len(layer.fed_by) == 1 and layer.positions == len(example)
    ]
    offered = [name for name in layer_list.linear if name in feeding]
    if not offered:
        raise InputError(
            "Expected a linear layer that feeds an activation at every token, got a model without one. Models that "
            "send tokens to different experts, and layers written with other functions, have no such features."
        )
    choices = ["*"] if layers is None else [layers] if isinstance(layers, str) else list(layers)
    for choice in choices:
        if not any(matching(name, choice) for name in offered):
            raise unknown_name("layers that feed an activation at every token", choice, offered)
    return tuple(name for name in offered if any(matching(name, choice) for choice in choices))


class _Observer(ForwardObserver):
    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__(model)
        self._names = names
        self._found: dict[str, Tensor] = {}
        self._last: tuple[str, Tensor, Tensor] | None = None  # a layer with its output and weight
        self._n = 0

    def features(self, inputs: Tensor) -> Tensor:
        """(n, layers, 7) of the prompts ``inputs`` (n, t, d)."""
        self._n, self._found = len(inputs), {}
        self.forward(inputs)
        self._last = None
        return torch.stack([self._found[name] for name in self._names], 1)

    def at_linear(self, call: ObservedCall) -> Any:
        output: Tensor = call.run()
        if call.name in self._names:
            weight = call.args[1] if len(call.args) > 1 else call.kwargs["weight"]
            self._found[call.name] = features_of(output.reshape(self._n, -1, output.shape[-1]), weight)
            self._last = call.name, output, weight
        return output

    def at_activation(self, call: ObservedCall, folds: Folds) -> Any:
        if self._last is not None:
            linear, output, weight = self._last
            columns = _columns(folds.values, output)
            if columns is not None:
                h = output[..., columns]
                self._found[linear] = features_of(h.reshape(self._n, -1, len(columns)), weight[columns])
        return call.run()


def _columns(values: Tensor, output: Tensor) -> Tensor | None:
    """Which columns of ``output`` the view ``values`` shows; None where it is no view of some of them."""
    some = values.shape[:-1] == output.shape[:-1] and values.shape[-1] < output.shape[-1]
    if not some or values.untyped_storage().data_ptr() != output.untyped_storage().data_ptr():
        return None
    first = int(values.storage_offset()) - int(output.storage_offset())
    return torch.arange(values.shape[-1], device=output.device) * values.stride(-1) + first


def features_of(h: Tensor, weight: Tensor) -> Tensor:
    """The seven features (n, 7) of pre-activations h (n, t, units) and the weight (units, d) that made them."""
    positive = (h > 0).double().mean(2)
    norms = weight.double().norm(dim=1)
    distance = torch.where(norms == 0, torch.inf, h.double().abs() / norms).amin(2)
    columns = [positive.mean(1), positive.amin(1), positive.amax(1), _std(positive)]
    return torch.stack([*columns, distance.amin(1), distance.mean(1), _std(distance)], 1)


def _std(values: Tensor) -> Tensor:
    return values.std(1) if values.shape[1] > 1 else torch.zeros_like(values[:, 0])
