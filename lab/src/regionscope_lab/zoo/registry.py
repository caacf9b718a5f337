"""The list of networks, and ``build``: a name and sizes -> a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from regionscope.checks import check_shape, read_integer
from regionscope.network.output import select_output
from regionscope.user_code import as_module, call_function, check_call
from regionscope_lab.registry import Registry
from regionscope_lab.zoo.cnn import cnn, vgg19
from regionscope_lab.zoo.convnext import convnext
from regionscope_lab.zoo.dense import dense
from regionscope_lab.zoo.dla import simpledla
from regionscope_lab.zoo.inverted import efficientnetb0, mobilenetv2, shufflenetv2
from regionscope_lab.zoo.layers import seeded
from regionscope_lab.zoo.resnet import preactresnet18, regnetx200mf, resnet18, resnet34, senet18
from regionscope_lab.zoo.transformer import gpt, vit

_SIZES = ("classes", "input_shape")


@dataclass(frozen=True)
class Architecture:
    """A network: the function of ``classes``, ``input_shape`` and options, all keyword arguments, that builds it."""

    build: Callable[..., nn.Module]

    @property
    def options(self) -> Mapping[str, Any]:
        """Names and defaults."""
        parameters = inspect.signature(self.build).parameters
        return {name: parameter.default for name, parameter in parameters.items() if name not in _SIZES}


_NETWORKS = Registry("a network", {
    "resnet18": Architecture(resnet18),
    "resnet34": Architecture(resnet34),
    "preactresnet18": Architecture(preactresnet18),
    "vgg19": Architecture(vgg19),
    "mobilenetv2": Architecture(mobilenetv2),
    "senet18": Architecture(senet18),
    "shufflenetv2": Architecture(shufflenetv2),
    "efficientnetb0": Architecture(efficientnetb0),
    "regnetx200mf": Architecture(regnetx200mf),
    "simpledla": Architecture(simpledla),
    "convnext": Architecture(convnext),
    "mlp": Architecture(dense),
    "cnn": Architecture(cnn),
    "vit": Architecture(vit),
    "gpt": Architecture(gpt),
}, more="your own is FILE.py:FUNCTION", title="the network {name!r}")  # fmt: skip


def names() -> tuple[str, ...]:
    """The names that ``build`` takes."""
    return _NETWORKS.names()


def check_options(name: str, options: Iterable[str]) -> None:
    """Raise ``InputError`` for an unknown network or option, without building the network."""
    if isinstance(name, str) and ".py:" in name:
        check_call(name, options, what="network", offered=_SIZES)
    else:
        _NETWORKS.find_with(name, options)


def build(
    name: str, *, classes: int = 10, input_shape: Sequence[int] = (3, 32, 32), seed: int = 0, output: str = "",
    **options: Any,
) -> nn.Module:  # fmt: skip
    """The network ``name`` for inputs of ``input_shape`` (without the batch), with PyTorch's default initial weights.

    The weights depend on the seed alone, and the global random state is untouched. The module is on the CPU, in
    training mode. Convolutional networks take images of any size and end with a mean over the whole image.
    options: those of the network; a wrong one raises ``InputError`` with the list. name: ``FILE.py:FUNCTION`` is your
    own network; the function gets the options, and ``classes`` and ``input_shape`` if it has parameters of these names.
    output: name or index of the logits, if your network returns several outputs.

    >>> sum(p.numel() for p in build("resnet18").parameters())
    11173962
    >>> build("mlp", input_shape=(2,), classes=2, depth=1, width=8, activation="tanh")
    Sequential(
      (linear1): Linear(in_features=2, out_features=8, bias=True)
      (tanh1): Tanh()
      (linear2): Linear(in_features=8, out_features=2, bias=True)
    )
    """
    check_options(name, options)
    sizes = {"classes": read_integer("classes", classes), "input_shape": check_shape(input_shape)}
    with seeded(seed):
        if ".py:" in name:
            network = as_module(call_function(name, options, what="network", offered=sizes), name)
            index = int(output) if output.removeprefix("-").isdigit() else output
            return select_output(network, index) if output else network
        return _NETWORKS.find(name).build(**sizes, **options)
