"""Margins: in the outputs over a data set, and in the inputs on a slice, exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from regionscope.checks import check_instance, check_labels, read_integer
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions
from regionscope.geometry import Slice
from regionscope.geometry.slices import isometry, on_slice
from regionscope.inputs import Inputs, Labels, read_array
from regionscope.measures.gap import read_labels, some_examples
from regionscope.network import device_and_dtype, untouched
from regionscope.network.call.forward import call_model
from regionscope.network.estimator import as_module
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.token_ids import input_dtype, to_model
from regionscope.sampled.labels import refuse_batch_statistics
from regionscope.types import Array, Estimate


def output_margin(
    model: nn.Module,
    inputs: Inputs,
    labels: Labels | None = None,
    *,
    batch_size: int = 256,
    output: Output | None = None,
    args: Arguments = (),
) -> Estimate:
    """gamma(W) = mean over (x, y) of f(x)_y - max over i != y of f(x)_i. Li et al. 2025, Example 1.

    inputs, labels, output, args: as in ``error_rate``. A single logit f stands for the pair (0, f): the margin is f
    where y = 1 and -f where y = 0. Not invariant to reparametrisation: doubling the last layer doubles it. Cost: one
    forward pass.
    """
    model = select_output(as_module(model, counted=True), output, args)
    read_integer("batch_size", batch_size)
    examples = some_examples(inputs, labels)
    refuse_batch_statistics(model)
    margins = []
    with untouched(model) as private:
        device, dtype = device_and_dtype(private)[0], input_dtype(private, examples)
        for rows, given in examples.pairs(batch_size):
            logits = call_model(private, to_model(rows, device, dtype))  # it may write into them
            margins.append(_margins(logits, read_labels(given).to(device)).cpu())
    values = torch.cat(margins)
    if bool(values.isnan().any()):
        raise InputError(
            f"Expected finite outputs, got NaN for {int(values.isnan().sum())} of {len(values)} inputs. Check the "
            "weights."
        )
    return Estimate.of(values)


def slice_margin(dec: DecisionRegions, point: Tensor | Array) -> float:
    """Exact Euclidean distance in input space from ``point`` to the nearest decision boundary on the slice of ``dec``.

    point: an input that lies on the slice. The distance is infinite if the slice has no boundary. It is an upper bound
    of the input-space margin of the whole network, which is NP-hard to compute, and invariant to reparametrisation (Li
    et al. 2025, section 3). Cost: one distance for each boundary wall; in 3 or more dimensions, a small least-squares
    problem for each.
    """
    advice = "Compute it with regionscope.decision_regions(model, slice)"
    slice = check_instance("slice_margin()", dec, DecisionRegions, advice=advice).partition.slice
    if len(dec.boundary_walls) == 0:
        _coordinates(slice, point)
        return math.inf
    frame = isometry(slice).cpu().numpy()
    coords = _coordinates(slice, point) @ frame
    walls = dec.partition.walls
    offsets = walls.offsets.cpu().numpy()
    corners = dec.partition.vertices[walls.vertices].cpu().numpy() @ frame - coords
    chosen = dec.boundary_walls.cpu().numpy()
    if slice.dim == 1:
        return float(np.abs(corners[offsets[chosen]]).min())
    if slice.dim == 2:
        return float(_to_segments(corners[offsets[chosen]], corners[offsets[chosen] + 1]).min())
    return min(_to_hull(corners[offsets[i] : offsets[i + 1]]) for i in chosen.tolist())


def _margins(logits: Any, labels: Tensor) -> Tensor:
    n = len(labels)
    if (
        not isinstance(logits, Tensor)
        or logits.ndim not in (1, 2)
        or len(logits) != n
        or not logits.is_floating_point()
    ):
        got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise InputError(f"Expected logits ({n}, c) for {n} inputs, got {got}. Choose the logits with output=.")
    rows = logits.reshape(n, -1).double()
    if rows.shape[1] == 1:
        rows = torch.cat([torch.zeros_like(rows), rows], 1)
    check_labels(labels, rows.shape[1])
    labelled = rows.gather(1, labels[:, None])
    others = rows.scatter(1, labels[:, None], -math.inf)
    return labelled[:, 0] - others.amax(1)


def _coordinates(slice: Slice, point: Tensor | Array) -> Array:
    """The coordinates (k,) of an input that lies on the slice."""
    read = read_array(point).detach()
    if tuple(read.shape) != slice.input_shape:
        raise InputError(
            f"Expected a point of shape {slice.input_shape}, got {tuple(read.shape)}. Pass one input of the network."
        )
    coords, on = on_slice(slice, read[None])
    if not on:
        raise InputError(
            "Expected a point of the slice, got one that does not lie on it. Use a slice through the point."
        )
    return np.asarray(coords[0].cpu())


def _to_segments(a: Array, b: Array) -> Array:
    """Distance of the origin from each segment a b (m,)."""
    along = b - a
    share = np.clip(-(a * along).sum(1) / np.maximum((along * along).sum(1), np.finfo(np.float64).tiny), 0.0, 1.0)
    return np.asarray(np.linalg.norm(a + share[:, None] * along, axis=1))


def _to_hull(corners: Array) -> float:
    """Distance D of the origin from the convex hull of corners (m, k).

    Non-negative weights w that minimise |w @ corners|^2 + (sum w - 1)^2 are, up to their sum, those of the nearest
    point: with w = t u and sum u = 1 the minimum over t is D(u)^2 / (1 + D(u)^2), which grows with D(u).
    """
    scale = float(np.abs(corners).max()) or 1.0
    system = np.vstack([corners.T / scale, np.ones(len(corners))])
    weights, _ = nnls(system, np.append(np.zeros(corners.shape[1]), 1.0))
    return float(np.linalg.norm(weights / weights.sum() @ corners))
