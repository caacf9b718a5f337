"""The list of instruments, and ``build``: a spec and data -> a function of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regionscope.errors import InputError
from regionscope.lab.config import MeasureSpec
from regionscope.lab.data import DataSplit
from regionscope.lab.instruments import counts, local, regions, weights
from regionscope.lab.instruments.measurement_context import MeasurementContext, check_option

__all__ = ["about", "build", "check", "names"]

Measure = Callable[[Any], Any]

_SLICES = {
    "points": "train", "dim": 1, "slices": 100, "through": "inputs", "alpha": [0.0, 1.0], "length": None,
    "until": None, "max_slices": 100_000, "memory": None, "domain": None, "seed": None,
}  # fmt: skip
_WHERE = {
    "where": "auto", "margin": 0.0, "box": None, "max_regions": None, "memory": None, "by_layer": False,
    "seed": None,
}  # fmt: skip


@dataclass(frozen=True)
class _Instrument:
    """about: one line. options: with their defaults. build: context and options -> function of a model."""

    about: str
    build: Callable[[MeasurementContext, dict[str, Any]], Measure]
    options: Mapping[str, Any] = field(default_factory=dict)


_INSTRUMENTS = {
    "region_count": _Instrument(
        "mean number of decision regions on random slices",
        counts.region_counts,
        {**_SLICES, "method": "grid", "grid": None, "batch_size": None, "max_points": 100_000},
    ),
    "linear_region_count": _Instrument(
        "mean exact number of linear regions on random slices",
        counts.linear_region_counts,
        {**_SLICES, "pieces": "linear"},
    ),
    "linear_regions": _Instrument(
        "exact linear and activation regions on the box of the data or a plane through three training points",
        regions.linear,
        _WHERE,
    ),
    "decision_regions": _Instrument(
        "exact decision regions on the box of the data or a plane through three training points",
        regions.decision,
        {name: default for name, default in _WHERE.items() if name != "by_layer"},
    ),
    "local_complexity": _Instrument(
        "mean local complexity at train, test or random points",
        local.complexity,
        {
            "points": "train", "n": 1000, "dims": None, "radius": 0.005, "frames": "shared", "hull": "cross-polytope",
            "layers": None, "linear_outputs": False, "max_pool": False, "by_layer": False, "domain": None,
            "memory": None, "seed": None,
        },
    ),
    "complexity_gap": _Instrument(
        "local complexity at train points minus that at test points, and how well it tells them apart",
        local.gap,
        {"n": 1000, "dims": None, "radius": 0.005, "memory": None, "seed": None},
    ),
    "parameter_norms": _Instrument(
        "l1 and l2 norm of the parameters", weights.norms, {"which": "all", "by_layer": False}
    ),
    "distance_from": _Instrument("distance of the parameters from their start", weights.distance, {"which": "all"}),
    "output_margin": _Instrument(
        "mean output margin", weights.margin, {"points": "train", "batch_size": 256}
    ),
    "sharpness": _Instrument(
        "largest eigenvalue of the Hessian of the loss",
        weights.sharpest,
        {
            "points": "train", "loss": None, "samples": 1000, "batch_size": 256, "dtype": None,
            "tolerance": 1e-3, "max_products": 1000, "seed": None,
        },
    ),
    "error_rate": _Instrument("share of wrong labels", weights.error, {"points": "test", "n": None, "seed": None}),
    "generalisation_gap": _Instrument("test error minus train error, and both", weights.gap),
    "loss": _Instrument("mean loss, of the kind that is trained on", weights.loss, {"points": "train", "loss": None}),
}  # fmt: skip


def names() -> dict[str, dict[str, Any]]:
    """All instruments, each with its options and their defaults; None leaves the choice to the instrument.

    >>> names()["error_rate"]
    {'points': 'test', 'n': None, 'seed': None}
    """
    return {name: dict(instrument.options) for name, instrument in _INSTRUMENTS.items()}


def about(name: str) -> str:
    """One line on what an instrument reads."""
    return _find(name).about


def check(spec: MeasureSpec) -> None:
    """Raise ``InputError`` where there is no such instrument or option, or where the value of one can never work."""
    instrument = _find(spec.instrument)
    for name, value in spec.options.items():
        if name not in instrument.options:
            accepted = ", ".join(instrument.options) or "none"
            raise InputError(f"{spec.instrument} has the unknown option {name!r}; it accepts: {accepted}.")
        check_option(spec.instrument, name, value)


def build(
    spec: MeasureSpec,
    split: DataSplit,
    *,
    seed: int = 0,
    initial: Mapping[str, Tensor] | None = None,
    loss: str | None = None,
) -> Measure:
    """The function of a model that ``spec`` describes; what it looks at is drawn once, from ``seed``.

    Options are named as in the Python functions. ``points``: "train", "test" or "random" (uniform in the range of the
    training inputs, or in ``domain``), or a list of them, which gives the rows ``name.train`` and so on. initial: the
    state dict before training, for ``distance_from``. loss: what is trained on, "cross_entropy" (also where it is not
    given) or "mse", for ``sharpness`` and ``loss`` where their option of that name leaves it open. Unknown options and
    impossible values are an ``InputError`` now and not after hours of training.
    """
    check(spec)
    check_option("build", "loss", loss)
    instrument = _find(spec.instrument)
    context = MeasurementContext(split, seed, initial, loss or "cross_entropy")
    return instrument.build(context, {**instrument.options, **spec.options})


def _find(name: str) -> _Instrument:
    if name not in _INSTRUMENTS:
        raise InputError(f"There is no instrument called {name!r}; choose from {', '.join(_INSTRUMENTS)}.")
    return _INSTRUMENTS[name]
