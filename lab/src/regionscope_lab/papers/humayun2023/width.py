"""Figure 6 (width), Figures 10 and 11 (number of training samples, true and random labels)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from regionscope_lab.config import Experiment
from regionscope_lab.papers.humayun2023.claims import end_of_ascent, ordered, peak, rise, start_of_ascent, three_phases
from regionscope_lab.papers.humayun2023.curves import accuracy, at_points, charts, final_accuracy, phases_table
from regionscope_lab.papers.humayun2023.settings import mlp, mlp_grid
from regionscope_lab.papers.papers import grid_study
from regionscope_lab.papers.study import Outcome, Size
from regionscope_lab.store import RunFolder

_PEAK_FALLS_FROM = 1000  # from this width on the paper's peak falls
_DEPTH = 3
_Runs = Mapping[str, list[RunFolder]]


def _widths(size: Size) -> dict[str, tuple[Experiment, ...]]:
    return {f"width {width:,}": mlp(size, depth=_DEPTH, width=width) for width in mlp_grid(size).widths}


def _samples(size: Size, *, random_labels: bool) -> dict[str, tuple[Experiment, ...]]:
    return {f"{n:,} samples": mlp(size, depth=_DEPTH, n=n, random_labels=random_labels) for n in mlp_grid(size).samples}


def _figure6(runs: _Runs, size: Size) -> Outcome:
    train = at_points(runs, "train")
    widths = mlp_grid(size).widths
    claims = [
        ordered("train LC before training", "more with width", widths,
                {label: (curve.means[0], curve.errors[0]) for label, curve in train.items()}),
        ordered("largest train LC of the ascent", _paper_peak(widths),
                [width if width <= _PEAK_FALLS_FROM else _PEAK_FALLS_FROM / 2 for width in widths],
                {label: peak(curve) for label, curve in train.items()}),
        ordered("start of the ascent, power of ten of the step", "earlier with width", [-width for width in widths],
                {label: start_of_ascent(curve) for label, curve in train.items()}),
    ]  # fmt: skip
    claims += [three_phases(f"train LC, {label}", curve) for label, curve in list(train.items())[1:]]
    note = "At the smallest width the paper's first descent is imperceptible, so its shape is not judged."
    more = "The paper's turn at width 2,000 needs the full size." if max(widths) <= _PEAK_FALLS_FROM else ""
    return Outcome(
        claims=tuple(claims),
        tables=(phases_table("LC at train points", train),),
        charts=charts("Figure 6: width", runs),
        notes=tuple(text for text in (note, more) if text),
    )


def _paper_peak(widths: Sequence[int]) -> str:
    """What the paper says of the widths that are there."""
    turn = [f"less at {width:,}" for width in widths if width > _PEAK_FALLS_FROM]
    return ", ".join([f"more with width up to {min(_PEAK_FALLS_FROM, max(widths)):,}", *turn])


def _figure10(runs: _Runs, size: Size) -> Outcome:
    train = at_points(runs, "train")
    falling = [-n for n in mlp_grid(size).samples]
    first = next(iter(train))
    known = {label: accuracy(mine, "test") for label, mine in runs.items()}
    final = {label: (curve.means[-1], curve.errors[-1]) for label, curve in known.items()}
    claims = (
        three_phases(f"train LC, {first}", train[first]),
        ordered(
            "largest rise of train LC",
            "more samples remove it",
            falling,
            {k: rise(curve) for k, curve in train.items()},
        ),
        ordered("test accuracy at the end", "more with samples", mlp_grid(size).samples, final),
    )
    return Outcome(
        claims=claims,
        tables=(phases_table("LC at train points, true labels", train),),
        charts=charts("Figure 10: true labels", runs),
    )


def _figure11(runs: _Runs, size: Size) -> Outcome:
    train, test = at_points(runs, "train"), at_points(runs, "test")
    samples = mlp_grid(size).samples
    claims = [
        ordered(f"largest {part} LC of the ascent", "more with samples", samples,
                {label: peak(curve) for label, curve in found.items()})
        for part, found in (("train", train), ("test", test))
    ]  # fmt: skip
    ends = {label: end_of_ascent(curve) for label, curve in train.items()}
    claims.append(ordered("end of the ascent of train LC, power of ten of the step", "later", samples, ends))
    return Outcome(
        claims=tuple(claims),
        tables=(phases_table("LC at train points, random labels", train),),
        charts=charts("Figure 11: random labels", runs),
        notes=(
            "A share of the random labels, one in ten, is right by chance.",
            f"{final_accuracy(runs)} Where the labels are not all memorised the ascent has not ended, and its peak is "
            "a lower bound.",
        ),
    )


FIGURE6 = grid_study("humayun2023-figure6", _widths, _figure6)
FIGURE10 = grid_study("humayun2023-figure10", partial(_samples, random_labels=False), _figure10)
FIGURE11 = grid_study("humayun2023-figure11", partial(_samples, random_labels=True), _figure11)
