"""Figures 18 and 19: how the layers of trained networks deform the neighbourhood of a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from regionscope.complexity import deformation
from regionscope.measures.statistics import joined
from regionscope.types import Estimate
from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.humayun2023.claims import WithError, larger, ordered
from regionscope_lab.papers.humayun2023.curves import fit_note
from regionscope_lab.papers.humayun2023.settings import cnn, cnn_grid, resnet
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.stored import last_model, training_points
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Place, Workspace

_RADII = (0.0014, 0.014, 0.14, 1.4)  # the paper calls those up to 0.014 reliable
_TRUSTED = 0.014
_POINTS: dict[Size, int] = {"smoke": 4, "desk": 24, "full": 1000}
_DIMS: dict[Size, int] = {"smoke": 5, "desk": 20, "full": 25}

_MEMORY = 1 << 30  # bytes; with less a GPU sees one point at a time
_HEAD = "head."  # the last linear layer; as for LC, only convolutions count

SizeCourse = Sequence[WithError]
Sizes = Mapping[str, Mapping[float, SizeCourse]]  # eccentricity and diameter, by radius


def sizes_at(place: Place, run: str, radius: float, points: int, dims: int) -> dict[str, Any]:
    """Mean eccentricity and diameter of the neighbourhood as each convolution receives it, with standard errors."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    model = last_model(folder).to(place.device)
    deformed = deformation(model, inputs[:points].to(place.device), dims=dims, radius=radius, memory=_MEMORY)
    return {
        name: [
            [one.value, one.stderr]
            for one in (Estimate.of(v) for layer, v in sizes.items() if not layer.startswith(_HEAD))
        ]
        for name, sizes in (("eccentricity", deformed.eccentricity), ("diameter", deformed.diameter))
    }


def cnn_claims(sizes: Sizes) -> tuple[Claim, ...]:
    """Figure 18: growth with depth for large radii, little change for small ones."""
    growing = []
    for kind, by_radius in sizes.items():
        largest = max(by_radius)
        course = by_radius[largest]
        found = {str(i): value for i, value in enumerate(course)}
        what = f"average {kind} from layer to layer, r = {largest:g}"
        growing.append(ordered(what, "grows with depth", list(range(len(course))), found))
    return (*growing, *(claim for kind, by_radius in sizes.items() for claim in calmer(kind, by_radius)))


def resnet_claims(sizes: Sizes) -> tuple[Claim, ...]:
    """Figure 19: the network shrinks the neighbourhood."""
    first_last = [
        larger(f"average {kind}, r = {radius:g}", "reduced by the network",
               ("input", course[0]), ("last layer", course[-1]))
        for kind, by_radius in sizes.items()
        for radius, course in by_radius.items()
    ]  # fmt: skip
    return (*first_last, *(claim for kind, by_radius in sizes.items() for claim in calmer(kind, by_radius)))


def calmer(kind: str, by_radius: Mapping[float, SizeCourse]) -> tuple[Claim, ...]:
    """The largest change by any layer, on average over the trusted radii and over those above them.

    Judged as a share of the input's size, which is the same at every radius for a network that is affine on all
    neighbourhoods. The change itself is shown: it grows with the radius in every network.
    """
    what, paper = f"largest change of average {kind} by any layer", f"lower for r <= {_TRUSTED:g}"
    share = _by_trust({r: _largest(relative(course)) for r, course in by_radius.items()})
    change = _by_trust({r: _largest(course) for r, course in by_radius.items()})
    said = ", ".join(f"{name}: {value:.3g}" for name, (value, _) in change)
    return (larger(f"{what}, as a share of the input's", paper, *share), Claim(what, paper, said, verdict.shown()))


def _largest(course: SizeCourse) -> WithError:
    """The largest distance to the first value, with the error of that layer."""
    return max((abs(v - course[0][0]), e) for v, e in course)


def _by_trust(change: Mapping[float, WithError]) -> tuple[tuple[str, WithError], tuple[str, WithError]]:
    """Mean above the trusted radii and mean up to them; all radii share their points: the errors do not average out."""
    above, below = ([one for r, one in change.items() if (r > _TRUSTED) is large] for large in (True, False))
    (high, high_error), (low, low_error) = (
        (mean(v for v, _ in side), mean(e for _, e in side)) for side in (above, below)
    )
    return (f"r > {_TRUSTED:g}", (high, high_error)), (f"r <= {_TRUSTED:g}", (low, low_error))


def relative(course: SizeCourse) -> list[WithError]:
    """Each size over that of the input."""
    first = course[0][0]
    return [(v / first, e / first) for v, e in course]


def _analysis(
    figure: int, what: str, experiments: Callable[[Size], tuple[Experiment, ...]],
    judge: Callable[[Sizes], tuple[Claim, ...]], *, label: str = "",
) -> Callable[[Workspace, Size], Outcome]:  # fmt: skip
    def analyse(workspace: Workspace, size: Size) -> Outcome:
        runs = workspace.runs(experiments(size))
        options = {"points": _POINTS[size], "dims": _DIMS[size]}
        settings = [{"run": run.path.name, "radius": r, **options} for r in _RADII for run in runs]
        answers = workspace.compute_with_place(sizes_at, settings)
        n = len(runs)
        sizes = {
            kind: {r: over_seeds([one[kind] for one in answers[i * n : (i + 1) * n]]) for i, r in enumerate(_RADII)}
            for kind in ("eccentricity", "diameter")
        }
        charts = tuple(_chart(f"Figure {figure}: {kind} in {what}", kind, one) for kind, one in sizes.items())
        stretch = {r: relative(course) for r, course in sizes["eccentricity"].items()}
        stretched = _chart(f"Eccentricity relative to that of the input, {what}", "stretch", stretch)
        return Outcome(
            claims=judge(sizes),
            charts=(*charts, stretched),
            notes=("Where the network is affine on the neighbourhood the stretch does not depend on the radius, so "
                   "curves that part show where local complexity of deep layers stops being local.",
                   *((fit_note({label: runs}),) if label else ())),
        )  # fmt: skip

    return analyse


def over_seeds(answers: Sequence[Sequence[Sequence[float]]]) -> SizeCourse:
    """Mean over seeds, layer by layer, with the larger of the errors over points and over seeds.

    The first convolution receives the input itself, so that it is left out.
    """
    course = [
        joined([value for value, _ in layer], [error for _, error in layer]) for layer in zip(*answers, strict=True)
    ]
    return [course[0], *course[2:]]


def _chart(title: str, y: str, by_radius: Mapping[float, SizeCourse]) -> Lines:
    series = tuple(
        Series.of(f"r = {r:g}", ((float(layer), *size) for layer, size in enumerate(course)))
        for r, course in by_radius.items()
    )
    return Lines(title=title, x_label="layer (0 is the input)", y_label=y, series=series, y_scale="log")


def _cnn(size: Size) -> tuple[Experiment, ...]:
    return cnn(size, depth=cnn_grid(size).decayed_depth, bn=False)


def _resnet(size: Size) -> tuple[Experiment, ...]:
    return resnet(size, bn=True)


FIGURE18 = read_study(
    "humayun2023-figure18", experiments=_cnn, analyse=_analysis(18, "a CNN", _cnn, cnn_claims, label="CNN")
)
FIGURE19 = read_study(
    "humayun2023-figure19", experiments=_resnet, analyse=_analysis(19, "a ResNet18", _resnet, resnet_claims)
)
