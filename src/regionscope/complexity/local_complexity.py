"""``local_complexity``: how many units fold the neighbourhood of a point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_module
from regionscope.complexity.layer_listing import list_layers
from regionscope.complexity.layers import Layer, LayerChoice, Role, select_layers
from regionscope.complexity.neighbourhoods import FrameChoice, Neighbourhoods
from regionscope.complexity.sign_changes import SignChanges
from regionscope.errors import InputError
from regionscope.extras import data_frame
from regionscope.inputs import Inputs
from regionscope.network import untouched
from regionscope.network.embedded import embedded_with_head
from regionscope.network.estimator import as_module
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.token_ids import TokenGroup, read_tokens, takes_tokens, without_padding
from regionscope.types import Estimate, Reading

_BLOCK = 31 << 20  # bytes


@dataclass(frozen=True, eq=False)
class LocalComplexity:
    """Local complexity of b points.

    total: (b,) number of units that fold the neighbourhood of each point. by_layer: the same for each layer, in the
        order of the forward pass; they add up to ``total``. units: number of units of each layer for one input (the
        longest one, if sequences differ in length).
    dims, radius: dimension and radius of the neighbourhood.
    by_position: (b, t) float64 for each layer that works on tokens: the units at each token; NaN at padding.
    """

    total: Tensor
    by_layer: dict[str, Tensor]
    units: dict[str, int]
    dims: int
    radius: float
    by_position: dict[str, Tensor] = field(default_factory=dict)

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
        return Estimate.of(self.total).stderr

    @property
    def by_block(self) -> dict[str, Tensor]:
        """(b,) for each block: the sum of its layers. "layers.3.mlp.act" belongs to the block "layers.3".

        A block is the part of a layer's name up to its first number; a layer without one is its own block.
        """
        blocks: dict[str, Tensor] = {}
        for name, counts in self.by_layer.items():
            key = _block_of(name)
            blocks[key] = blocks[key] + counts if key in blocks else counts
        return blocks

    @property
    def layer_means(self) -> dict[str, Estimate]:
        """Mean over the points, with its standard error, for each layer."""
        return {name: Estimate.of(counts) for name, counts in self.by_layer.items()}

    @property
    def block_means(self) -> dict[str, Estimate]:
        """Mean over the points, with its standard error, for each block."""
        return {name: Estimate.of(counts) for name, counts in self.by_block.items()}


def _block_of(name: str) -> str:
    parts = name.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), len(parts))
    return ".".join(parts[: number + 1])


def local_complexity(
    model: nn.Module,
    inputs: Inputs,
    *,
    dims: int | None = None,
    radius: float = 0.005,
    frames: FrameChoice = "shared",
    layers: LayerChoice | None = None,
    linear_outputs: bool = False,
    max_pool: bool = False,
    seed: int = 0,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
    attention_mask: Any = None,
) -> LocalComplexity:
    """LC(x, r) = #{units whose pre-activation takes both signs on the vertices x ± r v_p}, p = 1..P, v_p orthonormal.

    Humayun et al. 2023, section 3.2. Differs: a unit folds where its activation does (ReLU6 has two), or at zero if
    it has none; a value of exactly zero has no sign; all points share one frame by default, which is faster and keeps
    curves over training smooth (the same ``seed`` gives the same frame). Works for any ``nn.Module``, in eval mode, on
    the model's device and in its own dtype; one in half precision runs in float32, since rounding would move the
    vertices by more than the radius. The model, its gradients, buffers and hooks, and the random state do not
    change.

    inputs: the points x, (b, *input_shape), as a tensor, an array, a Dataset or a DataLoader. Token ids (b, t) of a
        model with an ``nn.Embedding`` stand for their embeddings (t, d): see ``embedded``.
    dims, radius: number P of directions, by default min(25, d) for inputs of d numbers, and radius r.
    frames: "shared", "per-point", or orthonormal directions of your own, (P, *input_shape) or (b, P, *input_shape), in
        place of ``dims``; see ``orthonormal_frames``.
    layers: names, patterns ("features.*") or module types, of the activation or of the layer that feeds it;
        ``layers=nn.Conv2d`` counts convolutions only.
    linear_outputs: whether to also count zero crossings of linear and convolution layers that no activation follows.
    max_pool: whether to also count max-pooling windows whose largest entry changes.
    seed: of the random frames.
    memory: limit on the bytes of live values, down to one vertex at a time; 28 MiB on a CPU (small batches fit its
        caches), and 1 GiB on a GPU. The result does not depend on it.
    output, args: the part of the model's output to use, and its further arguments; see ``select_output``.
    attention_mask: (b, t) with token ids, 0 at padding. Padding is removed and never counts.

    Cost: one forward pass of 2·P·b inputs. The first linear or convolution layer, W x + b ± r W v, is cheaper: it runs
    on P + b inputs with a shared frame, and on (P + 1) b with a frame for each point. The vertices themselves are
    computed only if something else reads the input.
    """
    model = check_module(as_module(model), otherwise="For an exported program, pass program.module().")

    def count(model: nn.Module, points: Inputs, *, copy: bool) -> _Counts:
        with untouched(model, copy=copy, widened=True) as private:
            where = Neighbourhoods.read(private, points, dims=dims, radius=radius, frames=frames, seed=seed)
            return _counts(private, where, layers, roles, memory)

    asked = {"max_pool": max_pool, "linear": linear_outputs}
    roles: set[Role] = {"activation", *(role for role, wanted in asked.items() if wanted)}  # type: ignore[arg-type]
    if not takes_tokens(model, inputs):
        if attention_mask is not None:
            raise InputError(
                "Expected attention_mask with token ids, got it with inputs that are not ids. Leave attention_mask out."
            )
        counted_units = count(select_output(model, output, args), inputs, copy=True)
        shown = [layer for layer in counted_units.layers if layer.positions > 1]
        by_position = {layer.name: counted_units.counts[layer.name].double() for layer in shown}
        by_layer = {name: counts.sum(1) for name, counts in counted_units.counts.items()}
    else:
        ids, mask = read_tokens(inputs, attention_mask)
        by_layer, by_position = {}, {}
        for group in without_padding(ids, mask):
            head = None if linear_outputs else -1
            view = embedded_with_head(model, group.ids, position=None, head=head, output=output, args=args)
            counted_units = count(view.model, view.inputs, copy=False)
            _place(by_layer, by_position, counted_units, group, mask)
        # A layer after pooling has one position, as a token of a sequence of length one has: the longest one tells.
        per_token = {layer.name for layer in counted_units.layers if layer.positions == group.ids.shape[1]}
        by_position = {name: counts for name, counts in by_position.items() if name in per_token}
    total = torch.stack(list(by_layer.values())).sum(0)
    units = {layer.name: layer.units for layer in counted_units.layers}
    return LocalComplexity(total, by_layer, units, counted_units.dims, radius, by_position)


@contextmanager
def _memory_kept(device: torch.device) -> Iterator[None]:
    """Inside, the C library (glibc) keeps the memory of a batch for the next one. Otherwise it returns much of it to
    the system, and every batch pays for its pages again: 0.05 to 0.1 of a forward pass on a CPU.

    Once a block of almost 32 MiB was freed, blocks up to this size come from the heap, whose free end is returned. The
    last of some blocks stays, beyond what the batches use; nobody touches it, so that it takes no memory of its own.
    """
    if device.type == "cpu":
        torch.empty(_BLOCK, dtype=torch.uint8, device="cpu")
        blocks = [torch.empty(_BLOCK, dtype=torch.uint8, device="cpu") for _ in range(4)]
        del blocks[:-1]
    yield


@dataclass(frozen=True, eq=False)
class _Counts:
    """(b, positions or 1) for each of the chosen layers."""

    counts: dict[str, Tensor]
    layers: tuple[Layer, ...]
    dims: int


def _counts(
    model: nn.Module, where: Neighbourhoods, layers: LayerChoice | None, roles: Set[Role], memory: int | None
) -> _Counts:
    layer_list = list_layers(model, where.points[0].reshape(where.shape))
    chosen = select_layers(layer_list, layers, roles)
    sign_changes = SignChanges(model, chosen)
    points, names = where.points, [layer.name for layer in chosen]
    shapes = [(len(points), layer.positions or 1) for layer in chosen]
    # Made before the batches: what stays of a batch would lie in the gaps that its large tensors leave.
    counted = {name: points.new_empty(shape, dtype=torch.int64) for name, shape in zip(names, shapes, strict=True)}
    with sign_changes.watching(), _memory_kept(points.device):
        for chunk in where.chunks(layer_list.row_bytes, memory):
            rows = slice(chunk.start, chunk.stop)
            for name, counts in sign_changes.counts(points[rows], where.vertex_batches(chunk), where.shape).items():
                counted[name][rows] = counts
    return _Counts(counted, chosen, where.dims)


def _place(
    by_layer: dict[str, Tensor], by_position: dict[str, Tensor], counted_units: _Counts, group: TokenGroup, mask: Tensor
) -> None:
    """Write the counts of a group of sequences to their rows, and to the columns at which their tokens stood."""
    n, t = mask.shape
    everything = tuple(group.ids.shape) == (n, t)  # all sequences, without padding
    device = next(iter(counted_units.counts.values())).device
    rows, columns = group.rows.to(device), group.columns.to(device)
    for layer in counted_units.layers:
        name, counts = layer.name, counted_units.counts[layer.name]
        per_token = layer.positions == columns.shape[1]
        if everything:
            by_layer[name] = counts.sum(1)
            by_position |= {name: counts.double()} if per_token else {}
            continue
        by_layer.setdefault(name, counts.new_zeros(n))[rows] = counts.sum(1)
        if per_token:
            blank = counts.new_full((n, t), math.nan, dtype=torch.float64)
            by_position.setdefault(name, blank)[rows[:, None], columns] = counts.double()
