"""Known answers: small networks on slices with verified region counts, for testing this package and others.

``known_answers.json`` is plain data that any tool can read. A network is a list of layers ``[type, *arguments]`` with
the names and arguments of ``torch.nn`` (``["Linear", 2, 16]``), and ``["Residual", [layers]]`` for x + layers(x). Its
weights are written out by parameter name, or they are those of default initialisation in float32 after
``torch.manual_seed(seed)``; small networks have both. A SHA-256 tells whether the right weights were found. A slice is
a segment (two points), a simplex (k + 1 points) or a box (center, directions, radius). Counts are exact: closed forms,
or found by the slow reference in float64.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import unknown_name
from regionscope.errors import InputError
from regionscope.geometry import Box, Segment, Simplex, Slice

LAYERS: Mapping[str, type[nn.Module]] = {
    layer.__name__: layer
    for layer in (nn.Conv2d, nn.Flatten, nn.Hardtanh, nn.LeakyReLU, nn.Linear, nn.MaxPool2d, nn.ReLU)
}

LayerSpec = Sequence[Any]


class _WithSkip(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Add the input to what the body makes of it."""
        return torch.add(x, self.body(x))


@dataclass(frozen=True, kw_only=True)
class KnownAnswer:
    """One entry of the corpus.

    layers: the architecture, ``[type, *arguments]`` for each layer. seed, weights: at least one of them is set.
    dtype: precision of the weights. weights_sha256: of all parameters in order, as little-endian numbers.
    closed_form: the formula of the counts, empty when they were computed.
    by_layer: name of each fold in the built module -> activation regions after it.
    """

    name: str
    layers: tuple[LayerSpec, ...]
    seed: int | None
    weights: Mapping[str, Any] | None
    dtype: str
    weights_sha256: str
    slice_spec: Mapping[str, Any]
    closed_form: str
    n_activation_regions: int
    n_linear_regions: int
    n_decision_regions: int
    by_layer: Mapping[str, int]

    @property
    def slice(self) -> Slice:
        """The slice on which the counts hold."""
        return build_slice(self.slice_spec)

    def build(self) -> nn.Module:
        """The network with its weights, checked; the global random stream is as before.

        Raises InputError when this version of torch draws other numbers from the seed.
        """
        network = build_layers(self.layers, self.seed).to(
            {"float32": torch.float32, "float64": torch.float64}[self.dtype]
        )
        if self.weights is not None:
            network.load_state_dict(
                {k: torch.tensor(v, dtype=torch.float64, device="cpu") for k, v in self.weights.items()}
            )
        if weights_checksum(network) != self.weights_sha256:
            raise InputError(
                f"Expected weights with the stored checksum for known answer {self.name!r}, got others: torch "
                f"{torch.__version__} draws other numbers from seed {self.seed}. Use the entries "
                "whose weights are stored."
            )
        return network


def known_answers() -> Iterator[KnownAnswer]:
    """All entries of the corpus, closed forms first.

    >>> next(known_answers()).name
    '|x|'
    """
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    for entry in json.loads(text)["known_answers"]:
        entry["layers"] = tuple(entry["layers"])
        entry["slice_spec"] = entry.pop("slice")
        yield KnownAnswer(**entry)


def build_layers(layers: Sequence[LayerSpec], seed: int | None = None) -> nn.Sequential:
    """An ``nn.Sequential`` of the described layers; with ``seed``, initialised as after ``torch.manual_seed(seed)``."""
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        return _sequential(layers)


def _sequential(layers: Sequence[LayerSpec]) -> nn.Sequential:
    built: list[nn.Module] = []
    for kind, *arguments in layers:
        if kind == "Residual":
            built.append(_WithSkip(_sequential(arguments[0])))
        elif kind in LAYERS:
            built.append(LAYERS[kind](*arguments))
        else:
            raise unknown_name("a kind of layer", kind, ("Residual", *LAYERS))
    return nn.Sequential(*built)


def build_slice(spec: Mapping[str, Any]) -> Slice:
    """The slice of ``{"kind": "segment" or "simplex", "points": ...}`` or of a box's center, directions and radius."""
    if spec["kind"] == "segment":
        return Segment(*spec["points"])
    if spec["kind"] == "simplex":
        return Simplex(spec["points"])
    if spec["kind"] == "box":
        return Box(spec["center"], spec["directions"], spec["radius"])
    raise unknown_name("a kind of slice", spec["kind"], ("segment", "simplex", "box"))


def weights_checksum(network: nn.Module) -> str:
    """SHA-256 of all parameters in order, as little-endian numbers of their own precision."""
    digest = hashlib.sha256()
    for parameter in network.parameters():
        values = parameter.detach().cpu().numpy()
        digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
