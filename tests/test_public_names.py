"""The names users call: those of the design that exist in this version."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import regionscope as rs
from regionscope import complexity, exact, measures, points, smooth
from regionscope.exact.questions.quadrature_steps import RULES
from regionscope.types import Readable
from regionscope_lab import shallow
from regionscope_lab.shallow.pieces import EffectiveRegions
from regionscope_lab.zoo import mlp

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
Y = torch.arange(6) % 2
NET = mlp([2, 4, 2], seed=1)
NO_RESULT = {"MeasurePoints", "Walls", "ComplexityWatch", "FinishedRegions", "SizeHistogram"}
NO_RESULT |= {"AffineMaps", "Faces", "RegionExtremes", "NearestFold"}
NO_RESULT |= {"HalfSpaces", "Neighbours", "PointMap", "RegionBounds"}  # parts of results
RESULTS: set[Any] = {
    kind
    for chapter in (complexity, exact, measures, points, smooth)
    for name in chapter.__all__
    if inspect.isclass(kind := getattr(chapter, name)) and name not in NO_RESULT
} | {rs.Estimate, rs.Verification, shallow.KKT, shallow.Flow, EffectiveRegions}


def test_everything_listed_exists() -> None:
    assert all(hasattr(rs, name) for name in rs.__all__)
    assert sorted(rs.__all__) == sorted(set(rs.__all__))
    assert len(rs.__all__) <= 52  # the rest lives in its chapter


@pytest.mark.parametrize("kind", sorted(RESULTS, key=str), ids=lambda kind: kind.__name__)
def test_results_are_frozen_and_have_readings(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert issubclass(kind, Readable)


def test_no_repr_prints_tensors() -> None:
    """Every public dataclass with tensors writes its own repr."""
    found = [importlib.import_module(each.name) for each in pkgutil.walk_packages(rs.__path__, "regionscope.")]
    public = [getattr(one, name) for one in found if hasattr(one, "__path__") for name in getattr(one, "__all__", [])]
    kinds = {kind for kind in public if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    assert len(kinds) > 50
    for kind in kinds:
        shown = [field for field in dataclasses.fields(kind) if field.repr and "Tensor" in str(field.type)]
        assert not shown or not hasattr(kind.__repr__, "__wrapped__"), kind


def test_readings_are_names_values_and_errors() -> None:
    box = rs.Box(torch.zeros(2), torch.eye(2), 1.0)
    gap = measures.generalisation_gap(NET, (X, Y), (X[:3], Y[:3]))
    lc = rs.local_complexity(NET, X, dims=2)
    found: dict[Any, list[str]] = {
        rs.linear_regions(NET, box): ["", "activation"],
        exact.stream_regions(NET, box): ["activation"],
        rs.decision_regions(NET, box): [""],
        rs.integrated_gradients(NET, X, target=0): ["", "gap"],
        rs.integrated_gradients(NET, X, target=0).steps_needed(0.1, k_max=9): list(RULES),
        rs.linear_regions(NET, box).extremes(0): ["", "min"],
        rs.linear_regions(NET, box).lipschitz(): [""],
        rs.flips(NET, rs.Segment(X[0], X[1])): [""],
        rs.regions_at(NET, X): ["", "distance", "distance.p10", "distance.p90", "label_distance"],
        rs.decision_regions(NET, box).topology()[0]: ["", "holes", "boundary_length"],
        rs.level_set(NET, box, classes=(0, 1)): ["", "area", "euler", "components", "boundary_edges", "nonmanifold"],
        rs.region_count(NET, X, slices=3): [""],
        lc: [""],
        complexity.complexity_gap(lc, lc): ["", "auc"],
        gap: ["", "train_error", "test_error"],
        measures.sharpness(NET, X, Y): [""],
        complexity.deformation(NET, X, dims=2): [
            f"{what}.{name}"
            for what in ("eccentricity", "diameter")
            for name in complexity.deformation(NET, X, dims=2).layers
        ],
    }  # fmt: skip
    for result, names in found.items():
        assert [name for name, _, _ in result.readings()] == names
        assert "\n" not in repr(result)
        assert "tensor(" not in repr(result)
        for _, value, error in result.readings():
            assert isinstance(value, int | float)
            assert error is None or isinstance(error, float)
    assert [name for name, _, _ in measures.parameter_norms(NET).readings()] == ["l1", "l2"]
    assert gap.readings()[0] == ("", gap.value, gap.stderr)


INSTRUMENTS = [
    function
    for name in rs.__all__
    if inspect.isfunction(function := getattr(rs, name)) and "model" in inspect.signature(function).parameters
] + [complexity.draw_points, complexity.complexity_gap]
MEASURED = {"model", "slice", "inputs", "labels", "train", "test", "initial", "dec", "point", "direction", "features"}
MEASURED |= {"property", "input_shape", "count", "ids", "ids_a", "ids_b", "ids_c", "name", "context"}
INSTRUMENTS.remove(rs.select_output)  # wraps a model and measures nothing


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda instrument: instrument.__name__)
def test_options_are_keyword_only_and_none_is_hidden(instrument: object) -> None:
    for name, parameter in inspect.signature(instrument).parameters.items():
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD
        assert (parameter.kind is inspect.Parameter.KEYWORD_ONLY) == (name not in MEASURED), name


def test_the_documented_table_lists_every_name_once() -> None:
    text = (Path(__file__).parents[1] / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    table = text.split("## All names")[1].split("The same argument")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(rs.__all__)


def test_versions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rs.show_versions()
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["regionscope"] == rs.__version__
    assert shown["torch"] == torch.__version__
    assert {"python", "numpy", "scipy", "matplotlib", "safetensors"} <= set(shown)
