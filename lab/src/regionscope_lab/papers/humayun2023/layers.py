"""Figures 15 and 16: local complexity layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import groupby

from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines
from regionscope_lab.papers.humayun2023.claims import (
    NO_ASCENT,
    distance,
    larger,
    ordered,
    rise,
    steepness,
    three_phases,
)
from regionscope_lab.papers.humayun2023.curves import Curve, chart, layers_of, phases_table, read_curve
from regionscope_lab.papers.humayun2023.settings import mlp, mlp_grid, resnet
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Workspace

Layers = Mapping[str, Curve]
_PARTS = ("train", "test", "random")
_LEAST_LOOKS = 2  # consecutive looks that make a while
_LAYERS_SHOWN = 4  # shallowest and deepest layers of a ResNet


def _read(workspace: Workspace, experiments: tuple[Experiment, ...]) -> dict[str, dict[str, Curve]]:
    """Curves by where LC is measured, and by layer."""
    runs = workspace.runs(experiments)
    names = layers_of(runs[0], "lc.train")
    return {part: {name: read_curve(runs, f"lc.{part}.layer.{name}") for name in names} for part in _PARTS}


def layer_claims(train: Layers, test: Layers) -> tuple[Claim, ...]:
    """Shallow layers have the sharper peak, and train and test differ there and not in deep ones."""
    names = list(train)
    first, last = names[0], names[-1]
    falling = list(range(len(names), 0, -1))
    gaps = {name: distance(train[name], test[name], train[first].shape.peak) for name in names}
    return (
        three_phases(f"train LC, {first}", train[first]),
        larger("largest rise of train LC", "sharper in shallow layers; sharpness read as height",
               (first, rise(train[first])), (last, rise(train[last]))),
        larger("largest rise of train LC for each power of ten of steps",
               "sharper in shallow layers; sharpness read as steepness",
               (first, steepness(train[first])), (last, steepness(train[last]))),
        ordered(f"|train - test| LC at the peak of {first}", "distinct in shallow layers, negligible in deep ones",
                falling, gaps),
    )  # fmt: skip


def _figure15(workspace: Workspace, size: Size) -> Outcome:
    by_part = _read(workspace, _layered(size))
    return Outcome(
        claims=layer_claims(by_part["train"], by_part["test"]),
        tables=(phases_table("LC at train points by layer", by_part["train"]),),
        charts=(
            chart("Figure 15: LC by layer at train (solid) and test points", by_part["train"],
                  by_part["test"]),
            chart("Figure 15: LC by layer at random points", by_part["random"]),
        ),
    )  # fmt: skip


def _layered(size: Size) -> tuple[Experiment, ...]:
    return mlp(size, depth=mlp_grid(size).layered_depth, by_layer=True)


def alternation(train: Layers) -> Claim:
    """In the shallow blocks the second descent is missing at the first ReLU and there at the second."""
    shallow = [name for name in train if name.startswith("stage1.")]
    wanted = {name: ".branch." in name for name in shallow}
    found = {name: train[name].shape.clear[2] for name in shallow}
    against = [name for name in shallow if found[name] != wanted[name]]
    return Claim(
        "second descent in the first stage",
        "none at the first ReLU of a block, one at the second",
        ", ".join(f"{name.removeprefix('stage1.')}: {'yes' if found[name] else 'no'}" for name in shallow),
        verdict.holds(len(against), len(shallow)),
    )


def meeting(train: Layers, test: Layers, random: Layers) -> Claim:
    """In a deep layer there is a time before the peak at which train and test LC are that of random points.

    Without an ascent, or with fewer than two looks from the valley on and before the peak, nothing can be said.
    """
    name = list(train)[-1]
    what, paper = f"train and test LC equal to random LC from the valley to the peak, {name}", "for a while"
    ascent = train[name].shape.ascent
    if ascent is None:
        return Claim(what, paper, NO_ASCENT, verdict.shown())
    looks = range(ascent.first, ascent.last)
    if len(looks) < _LEAST_LOOKS:
        return Claim(what, paper, f"{len(looks)} measurement between valley and peak", verdict.shown())
    near = [all(_meets(curve[name], random[name], i) for curve in (train, test)) for i in looks]
    longest = max(len(list(group)) if same else 0 for same, group in groupby(near))
    said = ", ".join(f"{train[name].steps[i]:,}" for i, same in zip(looks, near, strict=True) if same)
    judged = verdict.together(longest, least=_LEAST_LOOKS)
    return Claim(what, paper, f"at steps {said}" if said else "at no step", judged)


def _meets(curve: Curve, other: Curve, place: int) -> bool:
    gap, error = curve.means[place] - other.means[place], math.hypot(curve.pooled[place], other.pooled[place])
    return abs(gap) <= 2 * error


def _figure16(workspace: Workspace, size: Size) -> Outcome:
    by_part = _read(workspace, resnet(size, bn=False))
    train = by_part["train"]
    return Outcome(
        claims=(alternation(train), meeting(train, by_part["test"], by_part["random"])),
        tables=(phases_table("LC at train points by layer", train),),
        charts=(_some(by_part, "shallowest", lambda names: names[:_LAYERS_SHOWN]),
                _some(by_part, "deepest", lambda names: names[-_LAYERS_SHOWN:])),
        notes=("No layer before the first block has an activation; layers are called by their place.",),
    )  # fmt: skip


def _some(by_part: Mapping[str, Layers], which: str, choose: Callable[[list[str]], list[str]]) -> Lines:
    names = choose(list(by_part["train"]))
    train, random = ({name: by_part[part][name] for name in names} for part in ("train", "random"))
    return chart(f"Figure 16: {which} layers, train (solid), random", train, random)


FIGURE15 = read_study("humayun2023-figure15", experiments=_layered, analyse=_figure15)
FIGURE16 = read_study("humayun2023-figure16", experiments=lambda size: resnet(size, bn=False), analyse=_figure16)
