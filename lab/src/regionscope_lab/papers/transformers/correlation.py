"""Li's correlation for transformers: region count and generalisation gap, for next tokens of a GPT and for a ViT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.rules import FIT as FITTED
from regionscope_lab.papers.study import Outcome, Size, Study
from regionscope_lab.papers.transformers.claims import correlation_claim, points_table, scatter
from regionscope_lab.papers.transformers.points import Point, fitting, points, stored
from regionscope_lab.papers.transformers.settings import IMAGES, TEXT, TransformerGrid, grid
from regionscope_lab.papers.workspace import Workspace

_LINES = "regions on a line"
_RESNET = 0.98  # Li et al. 2025, Table 2
_EXPECTED = (_RESNET, f"{_RESNET:+.2f} for ResNet18")
_OTHERS = {
    "regions_refined": "regions on a line, refined",
    "regions_test": "regions between test points",
    "regions_2d": "regions on a plane",
}
_COMPARED = {"norm.l2": "norm of the weights", "margin": "mean output margin"}


def outcome(chosen: Sequence[Point], fitted: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """chosen: all settings that trained. fitted: those that fit their data."""
    chosen = [_with_loss_gap(point) for point in chosen]
    name = chosen[0].network
    claims = [correlation_claim(f"{name}: regions against gap", _EXPECTED, chosen, "regions")]
    if len(fitted) < len(chosen):
        what = f"{name}: the same over settings with a training error below {FITTED:g}%"
        claims.append(correlation_claim(what, _EXPECTED, fitted, "regions"))
    claims += [
        correlation_claim(f"{name}: {words} against gap", _EXPECTED, chosen, measure)
        for measure, words in _OTHERS.items()
    ]
    claims += [
        correlation_claim(f"{name}: {words} against gap", None, chosen, measure) for measure, words in _COMPARED.items()
    ]
    what = f"{name}: regions against the gap of the loss"
    claims.append(correlation_claim(what, None, chosen, "regions", "loss_gap"))
    columns = ("regions", "gap", "train_error", "test_error", "loss_gap", *_OTHERS, *_COMPARED)
    return Outcome(
        claims=tuple(claims),
        tables=(points_table("Settings", chosen, columns),),
        charts=(
            *scatter("Region count and generalisation gap", chosen, "regions", _LINES),
            *scatter("Region count and gap of the loss", chosen, "regions", _LINES, "loss_gap",
                     "test loss minus training loss, nats"),
        ),
        notes=notes,
    )  # fmt: skip


def _with_loss_gap(point: Point) -> Point:
    known = {"loss.train", "loss.test"} <= point.values.keys()
    more = {"loss_gap": point.values["loss.test"] - point.values["loss.train"]} if known else {}
    return replace(point, values={**point.values, **more})


def correlation_study(name: str, grids: Mapping[Size, TransformerGrid], note: str) -> Study:
    """The study of Li's correlation over these grids. note: a sentence on what is unusual about them."""

    def analyse(workspace: Workspace, size: Size) -> Outcome:
        runs, notes = stored(workspace, grid(grids[size]))
        fitted, unfitted = fitting(runs, others="a row of its own leaves them out")
        return outcome(points(runs), points(fitted), (note, *notes, *unfitted))

    return read_study(name, experiments=lambda size: grid(grids[size]), analyse=analyse)


NEXT_TOKEN = correlation_study(
    "transformers-next-token",
    TEXT,
    "Lines and planes go through random training sequences in the space of their embeddings, (64, 256) numbers at size "
    "full; the label of a point is the most probable byte after the last position. Errors are those at the last "
    "position of a window; training takes all positions.",
)
VISION = correlation_study(
    "transformers-vision",
    IMAGES,
    "Learning rates are those of AdamW; with the rates of Table 1 for SGD a ViT does not fit CIFAR-10 in this time.",
)
