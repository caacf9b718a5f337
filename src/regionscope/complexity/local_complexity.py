"""``local_complexity``: how many units fold the neighbourhood of a point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.complexity.layers import LayerChoice, list_layers, select_layers
from regionscope.complexity.neighbourhoods import FrameChoice, Neighbourhoods, Shape
from regionscope.complexity.sign_changes import SignChanges
from regionscope.errors import InputError
from regionscope.extras import data_frame
from regionscope.inputs import Inputs
from regionscope.network import untouched
from regionscope.network.output import Arguments, Output, select_output
from regionscope.types import Reading


@dataclass(frozen=True, eq=False)
class LocalComplexity:
    """Local complexity of b points.

    total: (b,) units that fold the neighbourhood of each point. by_layer: the same for each layer, in the order of the
        forward pass; they add up to ``total``. units: how many units each layer has (for one input).
    dims, radius: of the neighbourhood.
    """

    total: Tensor
    by_layer: dict[str, Tensor]
    units: dict[str, int]
    dims: int
    radius: float

    def __repr__(self) -> str:
        error = f" ± {self.stderr:.2g}" if len(self) > 1 else ""
        return f"LocalComplexity(points={len(self)}, mean={self.mean:.6g}{error}, units={sum(self.units.values())})"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each point: the total, and the number of units of each layer."""
        return data_frame(
            {name: column.cpu().numpy() for name, column in {"total": self.total, **self.by_layer}.items()}
        )

    def __len__(self) -> int:
        return len(self.total)

    def readings(self) -> tuple[Reading, ...]:
        """The mean over the points."""
        return (("", self.mean, self.stderr),)

    @property
    def mean(self) -> float:
        """Mean over the points."""
        return float(self.total.double().mean())

    @property
    def std(self) -> float:
        """Standard deviation over the points; NaN for a single one."""
        return float(self.total.double().std()) if len(self) > 1 else math.nan

    @property
    def stderr(self) -> float:
        """Standard error of the mean over the points; NaN for a single one."""
        return self.std / math.sqrt(len(self))


def local_complexity(
    model: nn.Module,
    inputs: Inputs,
    *,
    dims: int | None = None,
    radius: float = 0.005,
    frames: FrameChoice = "shared",
    hull: Shape = "cross-polytope",
    layers: LayerChoice | None = None,
    linear_outputs: bool = False,
    max_pool: bool = False,
    seed: int = 0,
    generator: torch.Generator | None = None,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> LocalComplexity:
    """LC(x, r) = #{units whose pre-activation takes both signs on the vertices x ± r v_p}, p = 1..P, v_p orthonormal.

    Humayun et al. 2023, section 3.2. Differs: the fold of a unit is where its activation has its kink (ReLU6 has
    two), or else zero; a value of exactly zero has no sign; all points share one frame unless asked otherwise, which
    is faster and keeps curves over training smooth (the same ``seed`` is the same frame). Works for any
    ``nn.Module``, in eval mode and the model's own dtype and device; the model, its gradients, buffers and hooks and
    the random state are as before.

    inputs: the points x, (b, *input_shape), as a tensor, an array, a Dataset or a DataLoader.
    dims, radius: P, by default min(25, d) for inputs of d numbers, and r.
    frames: "shared", "per-point", or orthonormal directions of your own, (P, *input_shape) or (b, P, *input_shape), in
        place of ``dims``; see ``orthonormal_frames``.
    hull: "cross-polytope" (2 P vertices) or "hypercube" (2^P vertices x + r / sqrt(P) sum ± v_p, up to P = 12).
    layers: names, patterns ("features.*") or module types, of the activation or of the layer that feeds it;
        ``layers=nn.Conv2d`` counts convolutions only.
    linear_outputs: also count outputs of linear and convolution layers that no activation follows, at zero.
    max_pool: also count windows of max-pooling whose largest entry changes.
    seed, generator: where the frames come from; a generator gives new ones at each call.
    memory: bytes of live values to stay within, down to one vertex at a time; 16 MiB on a CPU, whose caches like small
        pieces, and 1 GiB on a GPU. The result is the same.
    output, args: which part of the model's output counts, and its further arguments; see ``select_output``.

    Cost: one forward pass of 2·P·b inputs; with a shared frame less, as the first linear or convolution layer is
    W x + b ± r W v.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected a torch module, got {type(model).__name__}.")
    model = select_output(model, output, args)
    where = Neighbourhoods.read(
        model, inputs, dims=dims, radius=radius, frames=frames, hull=hull, seed=seed, generator=generator
    )
    with untouched(model) as private:
        found = list_layers(private, where.points[0].reshape(where.shape))
        chosen = select_layers(found, layers, max_pool=max_pool, linear_outputs=linear_outputs)
        sign_changes = SignChanges(private, chosen)
        with sign_changes.watching():
            counted = [
                sign_changes.counts(where.points[chunk.start : chunk.stop], where.vertex_batches(chunk), where.shape)
                for chunk in where.chunks(found.row_bytes, memory)
            ]
    by_layer = {layer.name: torch.cat([counts[layer.name] for counts in counted]) for layer in chosen}
    for name, counts in by_layer.items():
        if bool((counts < 0).any()):
            raise InputError(f"'{name}' receives NaN; look for NaN or infinite weights in the layers before it.")
    total = torch.stack(list(by_layer.values())).sum(0)
    return LocalComplexity(total, by_layer, {layer.name: layer.units for layer in chosen}, where.dims, radius)
