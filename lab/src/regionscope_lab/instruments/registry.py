"""The list of instruments, and ``build``: a spec and data -> a function of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from regionscope.complexity import local_complexity
from regionscope.exact import decision_regions, linear_regions
from regionscope.measures.gap import error_rate, generalisation_gap, output_margin
from regionscope.measures.norms import distance_from, parameter_norms
from regionscope.measures.region_count import linear_region_count, region_count
from regionscope.measures.sharpness import sharpness
from regionscope.points import regions_at
from regionscope_lab.config import MeasureSpec
from regionscope_lab.data import DataSplit
from regionscope_lab.instruments import local, regions, weights
from regionscope_lab.instruments.measurement_context import MeasurementContext
from regionscope_lab.instruments.options import check_option, options_of
from regionscope_lab.registry import Registry

Measure = Callable[[Any], Any]

_POINTS = {"points": "train", "domain": None}
_WHERE = {"where": "auto", "margin": None, "box": None, "seed": None}
_NEAR = {"n": 1000, "dims": None}  # dims: as many as an input has numbers, up to 25


class Instrument:
    """An instrument: one line about it, how it is built from context and options, and its options.

    function: the public function whose parameters are options too. own: further options, with their defaults.
    without: parameters that a run decides.
    """

    def __init__(
        self, about: str, build: Callable[[MeasurementContext, dict[str, Any]], Measure],
        function: Callable[..., Any] | None, fixed: Mapping[str, Any] | None = None, without: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.about, self.build = about, build
        self.options = options_of(function, fixed or {}, without)


_INSTRUMENTS = Registry("an instrument", {
    "region_count": Instrument(
        "mean number of decision regions on random slices", partial(regions.on_slices, region_count), region_count,
        _POINTS, ("path",),
    ),
    "linear_region_count": Instrument(
        "mean exact number of linear regions on random slices", regions.linear_region_counts,
        linear_region_count, _POINTS, ("path",),
    ),
    "linear_regions": Instrument(
        "exact linear and activation regions on the default slice of the training data, a box or a plane",
        regions.linear, linear_regions, {**_WHERE, "by_layer": False}, ("on_limit", "dask"),
    ),
    "decision_regions": Instrument(
        "exact decision regions on the default slice of the training data, a box or a plane", regions.decision,
        decision_regions, _WHERE, ("on_limit", "dask"),
    ),
    "local_complexity": Instrument(
        "mean local complexity at train, test or random points", local.complexity, local_complexity,
        {**_POINTS, **_NEAR, "by_layer": False, "by_position": False, "relative": False},
    ),
    "regions_at": Instrument(
        "number of linear regions in which points lie, and quantiles of the distance to the nearest fold",
        local.point_regions, regions_at, {**_POINTS, "n": 1000, "seed": None},
    ),
    "complexity_gap": Instrument(
        "local complexity at train points minus that at test points, and how well it tells them apart", local.gap,
        local_complexity, _NEAR,
    ),
    "parameter_norms": Instrument(
        "l1 and l2 norm of the parameters", weights.norms, parameter_norms, {"by_layer": False}
    ),
    "distance_from": Instrument("distance of the parameters from their start", weights.distance, distance_from),
    "output_margin": Instrument(
        "mean output margin", partial(weights.on_labelled, output_margin), output_margin, {"points": "train"}
    ),
    "sharpness": Instrument(
        "largest eigenvalue of the Hessian of the loss", weights.sharpest, sharpness, {"points": "train", "loss": None}
    ),
    "error_rate": Instrument(
        "share of wrong labels", partial(weights.on_labelled, error_rate), error_rate,
        {"points": "test", "n": None, "seed": None},
    ),
    "generalisation_gap": Instrument("test error minus train error, and both", weights.gap, generalisation_gap),
    "loss": Instrument(
        "mean loss, of the kind that is trained on", weights.loss, None, {"points": "train", "loss": None}
    ),
})  # fmt: skip


def names() -> dict[str, dict[str, Any]]:
    """All instruments, each with its options and their defaults. None means that the instrument chooses.

    >>> names()["error_rate"]
    {'points': 'test', 'n': None, 'seed': None, 'batch_size': None, 'memory': None}
    """
    return {
        name: {option: entry.default for option, entry in instrument.options.items()}
        for name, instrument in _INSTRUMENTS.entries.items()
    }


def about(name: str) -> str:
    """One-line description of an instrument."""
    return _INSTRUMENTS.find(name).about


def check(spec: MeasureSpec) -> None:
    """Raise ``InputError`` for an unknown instrument, an unknown option or an impossible value."""
    instrument = _INSTRUMENTS.find_with(spec.instrument, spec.options)
    for name, value in spec.options.items():
        check_option(spec.instrument, name, value, instrument.options[name].types)


def build(
    spec: MeasureSpec,
    split: DataSplit,
    *,
    seed: int = 0,
    initial: Mapping[str, Tensor] | None = None,
    loss: str | None = None,
) -> Measure:
    """The function of a model that ``spec`` describes. Its points or slices are drawn once, from ``seed``.

    Options are named as in the Python functions. ``points``: "train", "test" or "random" (uniform in the range of the
    training inputs, or in ``domain``), or a list of them, which gives the rows ``name.train`` and so on. initial: the
    state dict before training, for ``distance_from``. loss: the training loss, "cross_entropy" (the default) or "mse",
    for ``sharpness`` and ``loss`` unless they have an option of that name. Raises ``InputError`` for unknown options
    and impossible values, before training starts.
    """
    check(spec)
    check_option("build", "loss", loss, _INSTRUMENTS.find("loss").options["loss"].types)
    instrument = _INSTRUMENTS.find(spec.instrument)
    context = MeasurementContext(split, seed, initial, loss or "cross_entropy")
    return instrument.build(context, {**names()[spec.instrument], **spec.options})
