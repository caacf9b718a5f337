"""Figures 15 and 16: local complexity layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regionscope.lab.config import Experiment
from regionscope.studies import verdict
from regionscope.studies.charts import Lines
from regionscope.studies.humayun2023.claims import difference, larger, ordered, rise, three_phases
from regionscope.studies.humayun2023.curves import Curve, chart, curve, layers_of, phases_table
from regionscope.studies.humayun2023.scaled import DENSE, RESIDUAL
from regionscope.studies.humayun2023.settings import mlp, mlp_grid, resnet
from regionscope.studies.study import Claim, Outcome, Size, Study
from regionscope.studies.workspace import Workspace

__all__ = ["FIGURE15", "FIGURE16", "layer_claims"]

Layers = Mapping[str, Curve]
_PARTS = ("train", "test", "random")
_SHOWN = 4  # shallowest and deepest layers of a ResNet


def _read(workspace: Workspace, experiments: tuple[Experiment, ...]) -> dict[str, dict[str, Curve]]:
    """Curves by where LC is measured, and by layer."""
    runs = workspace.runs(experiments)
    names = layers_of(runs[0], "lc.train")
    return {part: {name: curve(runs, f"lc.{part}.layer.{name}") for name in names} for part in _PARTS}


def layer_claims(train: Layers, test: Layers) -> tuple[Claim, ...]:
    """Shallow layers have the sharper peak, and train and test differ there and not in deep ones."""
    names = list(train)
    first, last = names[0], names[-1]
    falling = list(range(len(names), 0, -1))
    gaps = {name: difference(train[name], test[name], train[first].shape.peak) for name in names}
    return (
        three_phases(f"train LC, {first}", train[first]),
        larger("ascent of train LC", "sharper in shallow layers", (first, *rise(train[first])),
               (last, *rise(train[last]))),
        ordered("train minus test LC at the peak", "distinct in shallow layers, negligible in deep ones", falling,
                gaps),
    )  # fmt: skip


def _figure15(workspace: Workspace, size: Size) -> Outcome:
    found = _read(workspace, _layered(size))
    return Outcome(
        claims=layer_claims(found["train"], found["test"]),
        tables=(phases_table("LC at train points by layer", found["train"]),),
        charts=(
            chart("Figure 15: LC by layer at train (solid) and test points", found["train"],
                  found["test"]),
            chart("Figure 15: LC by layer at random points", found["random"]),
        ),
    )  # fmt: skip


def _layered(size: Size) -> tuple[Experiment, ...]:
    return mlp(size, depth=mlp_grid(size).layered_depth, by_layer=True)


def alternation(train: Layers) -> Claim:
    """In the shallow blocks the second descent is missing at the first ReLU and there at the second."""
    shallow = [name for name in train if name.startswith("stage1.")]
    wanted = {name: ".branch." in name for name in shallow}
    found = {name: train[name].shape.second_descent.clear for name in shallow}
    against = [name for name in shallow if found[name] != wanted[name]]
    return Claim(
        "second descent in the first stage",
        "none at the first ReLU of a block, one at the second",
        ", ".join(f"{name.removeprefix('stage1.')}: {'yes' if found[name] else 'no'}" for name in shallow),
        verdict.holds(len(against), len(shallow)),
    )


def meeting(train: Layers, random: Layers) -> Claim:
    """In a deep layer there is a time before the ascent at which train LC is that of random points."""
    name = list(train)[-1]
    one, other = train[name], random[name]
    before = range(one.shape.peak + 1)
    gaps = [difference(one, other, i) for i in before]
    near = [i for i in before if abs(gaps[i][0]) <= 2 * gaps[i][1]]
    at = ", ".join(f"{one.steps[i]:,}" for i in near[:6])
    return Claim(
        f"train LC equal to random LC before the peak, {name}",
        "for a while",
        f"at steps {at}" if near else "at no step",
        verdict.holds(0 if near else 1, 1),
    )


def _figure16(workspace: Workspace, size: Size) -> Outcome:
    found = _read(workspace, resnet(size, bn=False))
    train = found["train"]
    return Outcome(
        claims=(alternation(train), meeting(train, found["random"])),
        tables=(phases_table("LC at train points by layer", train),),
        charts=(_some(found, "shallowest", lambda names: names[:_SHOWN]),
                _some(found, "deepest", lambda names: names[-_SHOWN:])),
        notes=("No layer before the first block has an activation; layers are called by their place.",),
    )  # fmt: skip


def _some(found: Mapping[str, Layers], which: str, choose: Callable[[list[str]], list[str]]) -> Lines:
    names = choose(list(found["train"]))
    train, random = ({name: found[part][name] for name in names} for part in ("train", "random"))
    return chart(f"Figure 16: {which} layers, train (solid), random", train, random)


FIGURE15 = Study(
    name="humayun2023-figure15",
    paper="humayun2023",
    source="Figure 15",
    claim="In an MLP of depth 6 shallow layers have a sharper peak, with a clear difference between train and test "
    "points; in deep layers it is negligible.",
    experiments=_layered,
    analyse=_figure15,
    scaled=DENSE,
)
FIGURE16 = Study(
    name="humayun2023-figure16",
    paper="humayun2023",
    source="Figure 16",
    claim="In the shallow blocks of a ResNet18 without BN the second descent alternates between layers; in deep "
    "layers train and test meet random local complexity before the ascent.",
    experiments=lambda size: resnet(size, bn=False),
    analyse=_figure16,
    scaled=RESIDUAL,
)
