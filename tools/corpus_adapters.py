"""Adapters of ``run_corpus``: one function for each tool, from a case to the counts that the tool knows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch
from torch import nn

from run_corpus import Case


def regionscope(case: Case) -> dict[str, Any]:
    """All counts, from regionscope."""
    import regionscope as rs

    model, place = case.model(), place_of(case)
    part, found = rs.linear_regions(model, place), rs.decision_regions(model, place)
    counts: dict[str, Any] = {
        "activation_by_layer": list(part.by_layer.values()),
        "activation": part.n_activation_regions,
        "linear": part.n_linear_regions,
        "decision": found.count,
        "labels": sorted(found.labels.tolist()),
    }
    if case.dim == 2:
        shapes = {str(label): shape for label, shape in sorted(found.topology().items())}
        counts["topology"] = {key: {"components": s.components, "holes": s.holes} for key, s in shapes.items()}
    return counts


def place_of(case: Case) -> Any:
    """The slice of a case, for regionscope."""
    import regionscope as rs

    where = case.slice
    if where["kind"] == "box":
        return rs.Box(where["origin"], where["basis"], where["radius"])
    origin, basis = (torch.tensor(where[name], dtype=torch.float64) for name in ("origin", "basis"))
    points = [origin, *(origin + direction for direction in basis)]
    return rs.Segment(*points) if where["kind"] == "segment" else rs.Simplex(points)


def relucent(case: Case) -> dict[str, Any] | None:
    """Activation regions of plain ReLU networks, from relucent (``pip install relucent``), which searches all inputs.

    The slice goes into the first layer, and each side of the slice is one more unit there, whose output nothing reads:
    the regions inside are those with all of these units on. Cases for which the new first layer would be rounded are
    left out, because relucent would count another network.
    """
    import relucent as tool

    if not all(layer[0] in ("Linear", "ReLU") for layer in case.layers) or case.layers[0][0] != "Linear":
        return None
    network = on_slice(case)
    if network is None:
        return None
    model, n_sides, start = network
    complex_ = tool.Complex(model)
    complex_.bfs(start, nworkers=1, verbose=0)
    first = len(case.weights["0.bias"])
    inside = [cell for cell in complex_ if all(sign > 0 for sign in cell.ss_np.ravel()[first : first + n_sides])]
    return {"activation": len(inside)}


def on_slice(case: Case) -> tuple[nn.Sequential, int, torch.Tensor] | None:
    """The network as a function of the slice coordinates, with its sides as units; None if that would be rounded."""
    where, dim = case.slice, case.dim
    model = case.model()
    origin = [Fraction(x) for x in where["origin"]]
    basis = [[Fraction(x) for x in row] for row in where["basis"]]
    rows, shifts = [], []
    for weights, shift in zip(case.weights["0.weight"], case.weights["0.bias"], strict=True):
        exact = [Fraction(w) for w in weights]
        rows.append([sum((w * b for w, b in zip(exact, axis, strict=True)), Fraction(0)) for axis in basis])
        shifts.append(sum((w * x for w, x in zip(exact, origin, strict=True)), Fraction(shift)))
    axes = [[Fraction(i == j) for j in range(dim)] for i in range(dim)]
    if where["kind"] == "box":
        sides = [
            (sign * Fraction(1), axis, Fraction(r))
            for axis, r in zip(axes, where["radius"], strict=True)
            for sign in (1, -1)
        ]
        start = [Fraction(r) / 7 for r in where["radius"]]
    else:
        sides = [(Fraction(1), axis, Fraction(0)) for axis in axes] + [(Fraction(-1), [Fraction(1)] * dim, Fraction(1))]
        start = [Fraction(1, 3 + i) for i in range(dim)]
    rows += [[sign * a for a in axis] for sign, axis, _ in sides]
    shifts += [shift for _, _, shift in sides]
    if any(Fraction(float(number)) != number for row in [*rows, shifts] for number in row):
        return None
    first = nn.Linear(dim, len(rows)).double()
    layers = list(model)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[float(a) for a in row] for row in rows], dtype=torch.float64))
        first.bias.copy_(torch.tensor([float(a) for a in shifts], dtype=torch.float64))
        if len(layers) > 2 and isinstance(layers[2], nn.Linear):
            second = nn.Linear(len(rows), layers[2].out_features).double()
            second.weight.zero_()
            second.weight[:, : layers[2].in_features] = layers[2].weight
            second.bias.copy_(layers[2].bias)
            layers[2] = second
    return nn.Sequential(first, *layers[1:]), len(sides), torch.tensor([[float(x) for x in start]], dtype=torch.float64)
