"""``regionscope bounds``: what an architecture could do, what random weights do, and what the theorems say."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli import options, output
from regionscope.cli.running import work_bar
from regionscope.errors import InputError
from regionscope.exact import linear_regions
from regionscope.geometry import Box, Segment
from regionscope.measures.bounds import layer_widths, region_bounds
from regionscope.measures.expected_counts import Init, hanin_rolnick, kac_rice, qi_wei_neurons, random_network
from regionscope.types import Estimate

_LARGEST = sys.float_info.max


def bounds(
    architecture: Annotated[
        str, typer.Argument(help="Widths of all layers, including input and output, such as 2-32-32-32-2.")
    ],
    init: Annotated[Init, options.option("--init", "Initialisation of the random networks.")] = "he",
    networks: Annotated[
        int, options.option("--networks", "Number of random networks; 0 for the bounds alone.", least=0)
    ] = 10,
    radius: Annotated[float, options.option("--radius", "Radius R of the box [-R, R]^d.", least=1e-06)] = 1.0,
    target: Annotated[
        int, options.option("--target", "Number Q of regions on the segment in the theorem of Qi and Wei.", least=1)
    ] = 100,
    seed: Annotated[int, options.option("--seed", "Seed of the first network.", least=0)] = 0,
    json_file: options.JsonOption = None,
) -> None:
    """Compare bounds and estimates of the number of linear regions with exact counts of random networks.

    In JSON, a bound that is too large for a float is a string, such as "2.5e+2001".

    Exact counts of planes of wide networks can take hours; --networks 0 leaves them out.

    Example: regionscope bounds 2-32-32-32-2
    """
    if networks == 1:
        raise InputError("Expected --networks 0, or 2 and more for a standard error, got 1. Pass --networks 2.")
    n_0, *widths, n_out = layer_widths(architecture)
    output.check_json(json_file)
    end = torch.full((n_0,), radius, dtype=torch.float64)
    segment = Segment(-end, end)
    slices: dict[int, Any] = {1: segment}
    if n_0 >= 2:
        slices[2] = Box(torch.zeros(n_0), torch.eye(n_0)[:2], radius)
    counts: dict[int, list[int]] = {k: [] for k in slices}
    with work_bar("Networks") as progress:
        for i in range(networks):
            model = random_network(n_0, widths, n_out, init=init, seed=seed + i)
            for k, where in slices.items():
                counts[k].append(linear_regions(model, where).n_linear_regions)
            progress((i + 1) / networks)
    rows: list[dict[str, Any]] = []
    for k in slices:
        found = Estimate.of(torch.tensor(counts[k])) if networks else None
        place = "segment" if k == 1 else "plane"
        rows += [_row(place, b.name, b.kind, b.value, b.reference) for b in region_bounds(k, widths)]
        if k == 1:
            rows += _estimates(widths, segment, init=init, target=target, mean=None if found is None else found.value)
        if found is not None:
            kind = f"mean of {networks} networks ± {found.stderr:.2g}"
            rows.append(_row(place, "measured, exact", kind, found.value, "linear_regions"))
    if n_0 > 2:
        rows += [_row("inputs", b.name, b.kind, b.value, b.reference) for b in region_bounds(n_0, widths)]
    if json_file != "-":
        _print(architecture, rows, radius, segment.size)
    if json_file is not None:
        plain = [row if row["value"] < _LARGEST else {**row, "value": _text(row["value"])} for row in rows]
        output.write_result({"architecture": architecture, "rows": plain}, json_file)


def _estimates(
    widths: list[int], segment: Segment, *, init: Init, target: int, mean: float | None
) -> list[dict[str, Any]]:
    """mean: measured number of regions; without it, the estimate that needs it is left out."""
    ends, length = segment.embed(segment.corners), segment.size
    units, paper = sum(widths), "Qi & Wei 2023, Theorem 1"
    rows = [
        _row("segment", "Hanin & Rolnick", "estimate: 1 + length × units", hanin_rolnick(units, length), "ICML 2019"),
        _row(
            "segment", "Kac–Rice at initialisation", "estimate", kac_rice(ends.shape[1], widths, *ends, init=init),
            "Hanin & Rolnick 2019, Theorem 3",
        ),
        _row(
            "segment", f"units for Q = {target} regions", "estimate: Q / length", qi_wei_neurons(target, length),
            f"{paper}, equation 18",
        ),
    ]  # fmt: skip
    if mean is not None:
        kind, less = f"estimate: (Q − I) / length, I = {mean - 1:.3g}", qi_wei_neurons(target, length, extra=mean - 1)
        rows.append(_row("segment", f"units for Q = {target} regions", kind, less, f"{paper}, equation 22"))
    return rows


def _row(place: str, name: str, kind: str, value: float, reference: str) -> dict[str, Any]:
    return {"on": place, "name": name, "kind": kind, "value": value, "reference": reference}


def _print(architecture: str, rows: list[dict[str, Any]], radius: float, length: float) -> None:
    where = f"a segment of length {length:.3g} and on the plane [-{radius:g}, {radius:g}]²"
    value = Column("value", justify="right")
    table = Table("on", "", "kind", value, "reference", title=f"{architecture}: linear regions on {where}")
    before = rows[0]["on"]
    for row in rows:
        if row["on"] != before:
            table.add_section()
            before = row["on"]
        table.add_row(row["on"], row["name"], row["kind"], _text(row["value"]), row["reference"])
    Console().print(table)


def _text(value: float) -> str:
    """A number for reading; bounds of wide networks are larger than any float.

    >>> _text(1234), _text(0.5), _text(10**20), _text(25 * 10**2000)
    ('1,234', '0.5', '1.000e+20', '2.500e+2001')
    """
    if value < 1e12:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return f"{Decimal(value):.3e}"
