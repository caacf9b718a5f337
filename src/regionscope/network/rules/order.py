"""Rules for what depends on the order of entries: sort, topk, median, kthvalue, cummax.

Sorting is a network of comparators (Batcher's odd-even merge sort): each takes two entries to the smaller and the
larger one, a minimum and a maximum. Comparators on which no wanted entry depends are left out. m entries need about
m log(m)^2 / 4 comparators in log(m)^2 / 2 stages. Reference: Batcher 1968, "Sorting networks and their applications".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regionscope.network.operations import Fixed
from regionscope.network.record import Call, Data, Refused, rule
from regionscope.network.refuse import INDICES
from regionscope.network.rules.activations import MaxResult, extreme_along, larger, largest_of
from regionscope.network.rules.arithmetic import sum_of
from regionscope.network.rules.choices import top
from regionscope.network.rules.indexing import cat, index_select, select

Comparator = tuple[int, int]
"""The wires of the smaller and of the larger entry."""


def stages(n: int) -> Iterator[list[Comparator]]:
    """The comparators that sort n wires, those of a stage side by side."""
    width = 1
    while width < n:
        step = width
        while step:
            firsts = [i + j for j in range(step % width, n - step, 2 * step) for i in range(min(step, n - step - j))]
            yield [(i, i + step) for i in firsts if i // (2 * width) == (i + step) // (2 * width)]
            step //= 2
        width *= 2


def _entries_in_order(call: Call, x: Data, dim: int, wanted: Sequence[int]) -> Data:
    """The entries of these ranks (from 0, the smallest) along a dimension, in this order."""
    n = x.shape[call.row_dim(x, dim)]
    needed, plan = set(wanted), list[tuple[list[Comparator], list[Comparator]]]()
    for stage in reversed(list(stages(n))):
        smaller, bigger = ([pair for pair in stage if pair[end] in needed] for end in (0, 1))
        needed |= {wire for pair in (*smaller, *bigger) for wire in pair}
        plan.append((smaller, bigger))
    place = list(range(n))  # where the entry of each wire lies
    for smaller, bigger in reversed(plan):
        x, place = _compared(call, x, dim, place, smaller, bigger)
    return _taken(call, x, dim, [place[rank] for rank in wanted])


def _compared(
    call: Call, x: Data, dim: int, place: list[int], smaller: list[Comparator], bigger: list[Comparator]
) -> tuple[Data, list[int]]:
    """One stage: the entries after it, and where that of each wire lies."""
    both = [pair for pair in smaller if pair in bigger]
    touched = {pair[0] for pair in smaller} | {pair[1] for pair in bigger}
    if not touched:
        return x, place
    kept = [wire for wire in range(len(place)) if wire not in touched]
    parts = [_taken(call, x, dim, [place[wire] for wire in kept])] if kept else []
    wires = list(kept)
    for pairs, ends in (
        (both, (1, 0)),
        ([pair for pair in smaller if pair not in both], (0,)),
        ([pair for pair in bigger if pair not in both], (1,)),
    ):
        if pairs:
            first, second = (_taken(call, x, dim, [place[pair[i]] for pair in pairs]) for i in (0, 1))
            parts.append(larger(call, first, second, largest=ends[0] == 1))
            wires += [pair[ends[0]] for pair in pairs]
            if len(ends) > 1:  # the smaller is what is left of the sum: a minimum would fold at the same places again
                parts.append(sum_of(call, sum_of(call, first, second, 1.0), parts[-1], -1.0))
                wires += [pair[0] for pair in pairs]
    order = {wire: i for i, wire in enumerate(wires)}
    return cat(call, parts, dim), [order[wire] for wire in range(len(place))]


def _taken(call: Call, x: Data, dim: int, places: list[int]) -> Data:
    return index_select(call, x, dim, torch.tensor(places, dtype=torch.int64, device="cpu"))


@rule("sort", when="the values")
def _sort(call: Call, x: Data, dim: Any = -1, descending: bool = False, *, stable: Any = False) -> MaxResult:
    ranks = range(x.shape[call.row_dim(x, dim)])
    return _values(_entries_in_order(call, x, dim, [*(reversed(ranks) if descending else ranks)]))


@rule("topk", when="the values, sorted")
def _topk(call: Call, x: Data, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> MaxResult:
    if call.recorder.jumps and largest and call.row_dim(x, dim) == len(x.shape) - 1:
        ranks = [*reversed(range(x.shape[-1]))][:k]
        return MaxResult(*top(call, x, k, lambda: _entries_in_order(call, x, -1, ranks)))
    if not sorted and k > 1:
        call.refuse("the order of its values is open; pass sorted=True")
    order = range(x.shape[call.row_dim(x, dim)])
    values = _entries_in_order(call, x, dim, [*(reversed(order) if largest else order)][:k])
    return MaxResult(values, Refused("it jumps: its indices do, its values do not"))


@rule("kthvalue", when="the values")
def _kthvalue(call: Call, x: Data, k: int, dim: int = -1, keepdim: bool = False) -> MaxResult:
    entry = _entries_in_order(call, x, dim, [k - 1])
    return _values(entry if keepdim else select(call, entry, dim, 0))


@rule("median", "nanmedian", when="the values, along a dimension")
def _median(call: Call, x: Data, dim: int | None = None, keepdim: bool = False) -> MaxResult:
    """The lower of two middle values, as torch takes it."""
    if dim is None:
        call.refuse_row_mixing()
    return _kthvalue(call, x, (x.shape[call.row_dim(x, dim)] + 1) // 2, dim, keepdim)


@rule("cummax", any_axis=True, when="the values")
def _cummax(call: Call, x: Data, dim: int) -> MaxResult:
    row = call.row_dim(x, dim)
    n, index = x.shape[row], torch.arange(x.numel, device="cpu").reshape(x.shape).movedim(row, -1)
    prefix = torch.arange(n, device="cpu").expand(n, n).tril()  # behind its end, a prefix repeats its first entry
    groups = index[..., prefix].movedim(-2, row).reshape(-1, n)
    return _values(largest_of(call, x, groups, Fixed(_running_maximum, (row + 1,)), axis=x.axis))


def _running_maximum(x: Tensor, dim: int) -> Tensor:
    return torch.cummax(x, dim).values


@rule("cummin", any_axis=True, when="the values")
def _cummin(call: Call, x: Data, dim: int) -> MaxResult:
    opposite = call.affine(torch.neg, x)
    return _values(call.affine(torch.neg, _cummax(call, opposite, dim).values))


class Extremes(NamedTuple):
    """What ``torch.aminmax`` returns."""

    min: Any
    max: Any


@rule("aminmax", any_axis=True)
def _aminmax(call: Call, x: Data, *, dim: Any = None, keepdim: bool = False) -> Extremes:
    return Extremes(*(extreme_along(call, x, dim, keepdim, largest=largest) for largest in (False, True)))


def _values(values: Data) -> MaxResult:
    return MaxResult(values, Refused(INDICES))
