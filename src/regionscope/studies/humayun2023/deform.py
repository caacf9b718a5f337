"""Figures 18 and 19: how the layers of trained networks deform the neighbourhood of a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regionscope.lab.config import Experiment
from regionscope.measures import deformation
from regionscope.studies.charts import Lines, Series
from regionscope.studies.humayun2023.claims import larger, ordered
from regionscope.studies.humayun2023.scaled import RESIDUAL, SMALL_IMAGES
from regionscope.studies.humayun2023.settings import cnn, cnn_grid, resnet
from regionscope.studies.stored import last_model, training_points
from regionscope.studies.study import Claim, Outcome, Size, Study
from regionscope.studies.workspace import Place, Workspace

__all__ = ["FIGURE18", "FIGURE19", "cnn_claims", "resnet_claims", "sizes_at"]

_RADII = (0.0014, 0.014, 0.14, 1.4)  # the paper calls those up to 0.014 reliable
_TRUSTED = 0.014
_POINTS: dict[Size, int] = {"smoke": 4, "desk": 24, "full": 1000}
_DIMS: dict[Size, int] = {"smoke": 5, "desk": 20, "full": 25}

_HEAD = "head."  # the last linear layer sees means over the image; as for LC, only convolutions count

Value = tuple[float, float]
Course = Sequence[Value]


def sizes_at(place: Place, run: str, radius: float, points: int, dims: int) -> dict[str, Any]:
    """Mean eccentricity and diameter of the neighbourhood as each convolution receives it, with standard errors."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    found = deformation(last_model(folder), inputs[:points], dims=dims, radius=radius)
    return {
        name: [
            [float(v.mean()), float(v.std()) / len(v) ** 0.5]
            for layer, v in sizes.items()
            if not layer.startswith(_HEAD)
        ]
        for name, sizes in (("eccentricity", found.eccentricity), ("diameter", found.diameter))
    }


def cnn_claims(by_radius: Mapping[float, Course]) -> tuple[Claim, ...]:
    """Figure 18: growth with depth for large radii, little change for small ones."""
    largest = max(by_radius)
    course = by_radius[largest]
    return (
        ordered(f"average eccentricity from layer to layer, r = {largest:g}", "grows with depth",
                list(range(len(course))), {str(i): value for i, value in enumerate(course)}),
        _calmer(by_radius),
    )  # fmt: skip


def resnet_claims(by_radius: Mapping[float, Course]) -> tuple[Claim, ...]:
    """Figure 19: the network shrinks the neighbourhood."""
    first_last = [
        larger(f"average eccentricity, r = {radius:g}", "reduced by the network",
               ("input", *course[0]), ("last layer", *course[-1]))
        for radius, course in by_radius.items()
    ]  # fmt: skip
    return (*first_last, _calmer(by_radius))


def _calmer(by_radius: Mapping[float, Course]) -> Claim:
    """The largest change of eccentricity by any layer, at the trusted radii and above them."""
    change = {radius: max((abs(v - course[0][0]), e) for v, e in course) for radius, course in by_radius.items()}
    below, above = (
        max(change[r] for r in by_radius if r <= _TRUSTED),
        min(change[r] for r in by_radius if r > _TRUSTED),
    )
    return larger("largest change of average eccentricity by any layer", f"lower for r <= {_TRUSTED:g}",
                  (f"r > {_TRUSTED:g}", *above), (f"r <= {_TRUSTED:g}", *below))  # fmt: skip


def _analysis(
    figure: int, what: str, experiments: Callable[[Size], tuple[Experiment, ...]],
    judge: Callable[[Mapping[float, Course]], tuple[Claim, ...]],
) -> Callable[[Workspace, Size], Outcome]:  # fmt: skip
    def analyse(workspace: Workspace, size: Size) -> Outcome:
        runs = workspace.runs(experiments(size))
        own = {"points": _POINTS[size], "dims": _DIMS[size]}
        settings = [{"run": run.path.name, "radius": r, **own} for r in _RADII for run in runs]
        answers = workspace.compute_on_runs(sizes_at, settings)
        n = len(runs)
        found = {
            kind: {r: _joined([one[kind] for one in answers[i * n : (i + 1) * n]]) for i, r in enumerate(_RADII)}
            for kind in ("eccentricity", "diameter")
        }
        charts = tuple(_chart(f"Figure {figure}: {kind} in {what}", kind, one) for kind, one in found.items())
        stretch = {r: [(v / course[0][0], e / course[0][0]) for v, e in course]
                   for r, course in found["eccentricity"].items()}  # fmt: skip
        relative = _chart(f"Eccentricity relative to that of the input, {what}", "stretch", stretch)
        return Outcome(
            claims=judge(found["eccentricity"]),
            charts=(*charts, relative),
            notes=("Where the network is affine on the neighbourhood the stretch does not depend on the radius, so "
                   "curves that part show where local complexity of deep layers stops being local.",),
        )  # fmt: skip

    return analyse


def _joined(answers: Sequence[Sequence[Sequence[float]]]) -> Course:
    """Mean over seeds, layer by layer."""
    n = len(answers)
    return [
        (sum(v for v, _ in layer) / n, sum(e**2 for _, e in layer) ** 0.5 / n)
        for layer in zip(*answers, strict=True)
    ]  # fmt: skip


def _chart(title: str, y: str, by_radius: Mapping[float, Course]) -> Lines:
    series = tuple(
        Series(label=f"r = {r:g}", x=tuple(map(float, range(len(course)))), y=tuple(v for v, _ in course),
               spread=tuple(e for _, e in course))
        for r, course in by_radius.items()
    )  # fmt: skip
    return Lines(title=title, x_label="layer (0 is the input)", y_label=y, series=series, y_scale="log")


def _cnn(size: Size) -> tuple[Experiment, ...]:
    return cnn(size, depth=cnn_grid(size).decayed_depth, bn=False)


def _resnet(size: Size) -> tuple[Experiment, ...]:
    return resnet(size, bn=True)


FIGURE18 = Study(
    name="humayun2023-figure18",
    paper="humayun2023",
    source="Figure 18, appendix C",
    claim="In a trained CNN large neighbourhoods are deformed more and more with depth; for r <= 0.014 the "
    "deformation is low.",
    experiments=_cnn,
    analyse=_analysis(18, "a CNN", _cnn, cnn_claims),
    scaled=SMALL_IMAGES,
)
FIGURE19 = Study(
    name="humayun2023-figure19",
    paper="humayun2023",
    source="Figure 19, appendix C",
    claim="A trained ResNet18 reduces eccentricity and diameter of the neighbourhood; for r <= 0.014 the deformation "
    "is low.",
    experiments=_resnet,
    analyse=_analysis(19, "a ResNet18", _resnet, resnet_claims),
    scaled=RESIDUAL,
)
