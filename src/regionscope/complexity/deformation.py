"""``deformation``: what the layers do to the neighbourhood on which local complexity is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_module, check_positive, read_number
from regionscope.complexity.forward_observer import ForwardObserver, ObservedCall
from regionscope.complexity.layer_listing import list_layers
from regionscope.complexity.neighbourhoods import Chunk, FrameChoice, Neighbourhoods
from regionscope.errors import InputError
from regionscope.inputs import Inputs, read_examples
from regionscope.network.call.untouched import untouched
from regionscope.network.estimator import as_module
from regionscope.network.output import Arguments, Output, select_output
from regionscope.types import Estimate, Reading


@dataclass(frozen=True, eq=False)
class Deformation:
    """Size of the embedded vertex graph at the input of each linear or convolution layer, and of the inputs themselves.

    eccentricity, diameter: {layer: (b,)}; "input" is the neighbourhood itself, where they are 2·sqrt(2)·radius.
    """

    eccentricity: dict[str, Tensor]
    diameter: dict[str, Tensor]
    dims: int
    radius: float

    def __repr__(self) -> str:
        return f"Deformation(points={len(self.diameter['input'])}, layers={len(self.layers)}, dims={self.dims}, " + (
            f"radius={self.radius:g}, last stretch={float(self.stretch[self.layers[-1]].mean()):.4g})"
        )

    def readings(self) -> tuple[Reading, ...]:
        """The mean eccentricity and diameter at each layer, over the points."""
        sizes = {"eccentricity": self.eccentricity, "diameter": self.diameter}
        return tuple(
            (f"{what}.{name}", estimate.value, estimate.stderr)
            for what, layers in sizes.items()
            for name, estimate in ((name, Estimate.of(value)) for name, value in layers.items())
        )

    @property
    def layers(self) -> list[str]:
        """ "input", then the layers in the order of the forward pass."""
        return list(self.diameter)

    @property
    def stretch(self) -> dict[str, Tensor]:
        """Mean eccentricity of each layer divided by that of the neighbourhood itself (b,)."""
        return {name: value / self.eccentricity["input"] for name, value in self.eccentricity.items()}


def deformation(
    model: nn.Module,
    inputs: Inputs,
    *,
    dims: int | None = None,
    radius: float = 0.005,
    frames: FrameChoice = "shared",
    seed: int = 0,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Deformation:
    """Average eccentricity and diameter of the cross-polytope's vertex graph, as each layer receives it.

    The nodes of the graph are the 2 P vertices x ± r v_p. Its edges join all pairs of nodes except antipodal ones; the
    length of an edge is the distance of the embedded vertices. The eccentricity of a node is its largest shortest-path
    distance, and the diameter is the largest eccentricity. Humayun et al. 2023, appendix C, Figures 18 and 19. By the
    triangle inequality only antipodes need a path of two edges, so no graph search is run.

    inputs, dims, radius, frames, seed, memory, output, args: as in ``local_complexity``, but without token
    ids. Layers cannot be chosen: those that are linear or convolutions are measured, with the vertices of the
    cross-polytope.
    Cost: one forward pass of 2·P·b inputs and P² distances per layer.
    """
    model = check_module(select_output(as_module(model), output, args))
    parts: list[dict[str, Tensor]] = []
    with untouched(model, widened=True) as private:
        where = Neighbourhoods.read(private, inputs, dims=dims, radius=radius, frames=frames, seed=seed)
        if where.dims < 2:
            raise InputError(
                "Expected dims of at least 2, got 1, for which the graph of vertices has no edge. Raise dims."
            )
        layers = list_layers(private, where.points[0].reshape(where.shape))
        watcher = _Embeddings(private, layers.linear)
        with watcher.watching():
            for chunk in where.chunks(3 * layers.row_bytes, memory):  # the float64 copy is twice as large again
                whole = Chunk(chunk.start, chunk.stop, 2 * where.dims)
                (batch,) = where.vertex_batches(whole)
                parts.append(watcher.sizes(batch.make().reshape(-1, *where.shape), chunk.stop - chunk.start))
    sizes = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return Deformation(
        {name: size[:, 0] for name, size in sizes.items()},
        {name: size[:, 1] for name, size in sizes.items()},
        where.dims,
        radius,
    )


def trusted_radius(
    model: nn.Module,
    inputs: Inputs,
    *,
    radii: Sequence[float],
    tolerance: float = 0.1,
    dims: int | None = None,
    frames: FrameChoice = "shared",
    seed: int = 0,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> float:
    """The largest of the radii up to which every layer only scales the neighbourhood.

    Where a network is affine on the neighbourhood, the size of every embedded graph is proportional to the radius.
    The mean stretch of each layer is compared with that at the smallest radius. The search ends at the first radius at
    which one layer deviates by more than the relative ``tolerance``. Above it, local complexity in deep layers counts
    the folds inside a hull that is no longer the image of the neighbourhood. Other arguments as in ``deformation``.
    Cost: one ``deformation`` per radius.
    """
    model = select_output(as_module(model), output, args)
    if not isinstance(radii, Iterable) or len(ordered := sorted(read_number("a radius", r) for r in radii)) < 2:
        raise InputError(
            f"Expected at least two radii to compare, got {radii}. Write radii=(0.005, 0.05), for example."
        )
    check_positive(tolerance=tolerance)
    points = read_examples(inputs).all()  # loaded once for all radii

    def mean_stretch(radius: float) -> dict[str, float]:
        result = deformation(model, points, dims=dims, radius=radius, frames=frames, seed=seed, memory=memory)
        return {name: float(value.mean()) for name, value in result.stretch.items()}

    known = ordered[0]
    first = mean_stretch(known)
    for radius in ordered[1:]:
        stretch = mean_stretch(radius)
        if any(abs(stretch[name] - size) > tolerance * abs(size) for name, size in first.items()):
            break
        known = radius
    return known


def graph_sizes(vertices: Tensor) -> Tensor:
    """Mean eccentricity and diameter (n, 2) of n graphs with vertices (2 P, n, units), +v_p before -v_p."""
    points = vertices.transpose(0, 1).double()
    points = points - points.mean(1, keepdim=True)  # so that the squares below are of the size of the neighbourhood
    gram = points @ points.transpose(1, 2)
    squares = torch.diagonal(gram, dim1=1, dim2=2)
    apart = (squares[:, :, None] + squares[:, None] - 2 * gram).clamp_min(0).sqrt()
    m = apart.shape[1]
    node = torch.arange(m, device=apart.device)
    other = (node + m // 2) % m
    around = apart + apart[:, other]  # [v, w]: from v to w and on to the antipode of v
    around[:, node, node] = around[:, node, other] = torch.inf
    eccentricity = torch.maximum(apart.amax(2), around.amin(2))  # antipodes: the direct way is never the longer one
    return torch.stack([eccentricity.mean(1), eccentricity.amax(1)], 1)


class _Embeddings(ForwardObserver):
    """Sizes of the vertex graphs at the input of every linear or convolution layer."""

    def __init__(self, model: nn.Module, axes: Mapping[str, int | None]) -> None:
        super().__init__(model)
        for name, axis in axes.items():
            if axis is None:
                raise InputError(
                    f"Expected every layer to keep the batch as a dimension of its input, got '{name}', which "
                    "mixes the inputs of a batch. Reshape what this layer takes to (batch, ...) in the forward pass."
                )
        self._axes = axes
        self._n = self._rows = 0
        self._sizes: dict[str, Tensor] = {}

    def sizes(self, vertices: Tensor, n: int) -> dict[str, Tensor]:
        """{layer: (n, 2)} for the vertices (2 P n, *shape) of n points."""
        self._n, self._rows = n, len(vertices)
        self._sizes = {"input": graph_sizes(vertices.reshape(-1, n, vertices[0].numel()))}
        self.forward(vertices)
        return self._sizes

    def at_linear(self, call: ObservedCall) -> Any:
        values = call.args[0] if call.args else call.kwargs["input"]
        if (axis := self._axes.get(call.name)) is not None:  # else it does not depend on the input
            self._sizes[call.name] = graph_sizes(values.movedim(axis, 0).reshape(self._rows // self._n, self._n, -1))
        return call.run()
