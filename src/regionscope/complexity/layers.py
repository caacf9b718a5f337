"""The places of a forward pass where units can be counted, and the choice among them.

``layer_listing`` finds them by running the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from torch import Tensor, nn

from regionscope.complexity.activations import nothing_to_count
from regionscope.errors import InputError

Role = Literal["activation", "max_pool", "linear"]
LayerChoice = str | type[nn.Module] | Sequence[str | type[nn.Module]]


@dataclass(frozen=True)
class Layer:
    """A place in the forward pass where units can be counted.

    name: as in ``by_layer``. role: an activation, a max-pooling, or a linear output that no activation follows.
    units: entries for one input. axis: which axis of the tensor runs over the batch (None: it cannot be told).
    kinds: the type of the module itself, and of the linear or convolution layers that feed it directly.
    positions: number of tokens, where a linear layer made a tensor (b, t, width); 1 for (b, width), 0 for
    others.
    fed_by: names of the linear layers that feed an activation directly.
    """

    name: str
    role: Role
    units: int
    axis: int | None
    kinds: frozenset[type[nn.Module]]
    positions: int = 0
    fed_by: tuple[str, ...] = ()

    def rows(self, values: Tensor, n: int) -> Tensor:
        """The units of each of the n inputs: (n, units)."""
        return values.movedim(self.axis or 0, 0).reshape(n, -1)


@dataclass(frozen=True)
class LayerList:
    """All layers in the order of the forward pass, and the bytes for one input around its widest operation.

    linear: for every linear or convolution layer, also those that an activation follows, the axis of the batch.
    others: names of the other functions that the forward pass calls.
    """

    layers: tuple[Layer, ...]
    row_bytes: int
    linear: Mapping[str, int | None]
    others: Set[str] = frozenset()


def select_layers(layer_list: LayerList, layers: LayerChoice | None, roles: Set[Role]) -> tuple[Layer, ...]:
    """The chosen layers of these roles; an ``InputError`` names what there is when a choice matches nothing."""
    offered = [layer for layer in layer_list.layers if layer.role in roles]
    if not offered:
        raise InputError(nothing_to_count(layer_list.others, _with_other_options(layer_list, roles)))
    if layers is not None:
        if not isinstance(layers, str | type | Iterable):
            raise InputError(
                f"Expected layers to be names, patterns or module types, got {layers!r}. "
                "Pass a list such as ['layer1', 'layer2.*'] or [torch.nn.ReLU]."
            )
        choices = [layers] if isinstance(layers, str | type) else list(layers)
        chosen: set[str] = set()
        for choice in choices:
            matched = _matched(offered, choice)
            if not matched:
                names = ", ".join(layer.name for layer in offered)
                feeding = list(dict.fromkeys(name for layer in offered for name in layer.fed_by))
                fed = f", or from the layers that feed them, {_first_names(feeding)}" if feeding else ""
                raise InputError(
                    f"Expected a name or pattern of a layer, got {choice!r}. "
                    f"Choose from {names}{fed}{_with_other_options(layer_list, roles)}."
                )
            chosen |= matched
        offered = [layer for layer in offered if layer.name in chosen]
    for layer in offered:
        if layer.axis is None:
            raise InputError(
                f"Expected every layer to keep the batch as a dimension of its input, got '{layer.name}', which "
                "mixes the inputs of a batch. Select other layers with layers=[...]."
            )
    return tuple(offered)


def matching(name: str, choice: str) -> bool:
    """Whether a layer of this name is meant by a name or pattern."""
    return name == choice or fnmatchcase(name, choice)


def _matched(offered: Sequence[Layer], choice: str | type[nn.Module]) -> set[str]:
    """The names of the layers that are meant: a name or pattern that fits no activation is that of layers which feed
    them.
    """
    if not isinstance(choice, str):
        kinds = {layer.name: layer.kinds for layer in offered if isinstance(choice, type)}
        return {name for name, bases in kinds.items() if any(issubclass(kind, choice) for kind in bases)}
    named = [layer for layer in offered if matching(layer.name, choice)]
    if not any(layer.role == "activation" for layer in named):
        named += [layer for layer in offered if any(matching(name, choice) for name in layer.fed_by)]
    return {layer.name for layer in named}


def _with_other_options(layer_list: LayerList, roles: Set[Role]) -> str:
    """The end of a sentence that names the layers which other options would add."""
    options = {"linear": "linear_outputs", "max_pool": "max_pool"}
    more = []
    for role, option in options.items():
        names = [layer.name for layer in layer_list.layers if layer.role == role]
        if role not in roles and names:
            more.append(f"; with {option}=True also {_first_names(names)}")
    return "".join(more)


def _first_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
