"""The names users call: those of the design that exist in this version."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import regionscope as rs
import regionscope_lab
from regionscope import complexity, errors, exact, measures
from regionscope.exact.questions.quadrature_steps import RULES
from regionscope.types import Readable
from regionscope_lab import shallow
from regionscope_lab.shallow.pieces import EffectiveRegions
from regionscope_lab.zoo import mlp

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
Y = torch.arange(6) % 2
NET = mlp([2, 4, 2], seed=1)
NO_RESULT = {"MeasurePoints", "Walls", "ComplexityWatch", "FinishedRegions", "SizeHistogram"}
NO_RESULT |= {"AffineMaps", "Faces", "RegionExtremes"}  # parts of results
RESULTS: set[Any] = {
    kind
    for chapter in (complexity, exact, measures)
    for name in chapter.__all__
    if inspect.isclass(kind := getattr(chapter, name)) and name not in NO_RESULT
} | {rs.Estimate, rs.Verification, shallow.KKT, shallow.Flow, EffectiveRegions}

PARTITION = ["by_layer", "check", "load", "n_activation_regions", "n_linear_regions", "save", "slice", "vertices"]
PARTITION += ["extremes", "lipschitz", "graph", "to_networkx", "to_geojson", "svg_paths", "polygon_table"]
DECISION = ["boundary", "count", "labels", "volumes", "topology", "to_geojson", "svg_paths", "polygon_table"]


def members(kind: type) -> set[str]:
    return set(dir(kind)) | {field.name for field in dataclasses.fields(kind)}


def test_everything_listed_exists() -> None:
    assert all(hasattr(rs, name) for name in rs.__all__)
    assert sorted(rs.__all__) == sorted(set(rs.__all__))
    assert len(rs.__all__) <= 50  # the rest lives in its chapter


def test_results_carry_the_promised_names() -> None:
    assert set(PARTITION) <= members(rs.Partition)
    assert set(DECISION) <= members(rs.DecisionRegions)


@pytest.mark.parametrize("kind", sorted(RESULTS, key=str), ids=lambda kind: kind.__name__)
def test_results_are_frozen(kind: Any) -> None:
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen


def test_public_dataclasses_are_frozen() -> None:
    chapters: list[Any] = [rs, complexity, exact, measures]
    kinds: list[Any] = [
        kind
        for chapter in chapters
        for name in chapter.__all__
        if dataclasses.is_dataclass(kind := getattr(chapter, name))
    ]
    assert exact.SizeHistogram in kinds
    assert [kind for kind in kinds if not kind.__dataclass_params__.frozen] == []


@pytest.mark.parametrize("kind", sorted(RESULTS, key=str), ids=lambda kind: kind.__name__)
def test_every_result_has_readings(kind: type) -> None:
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
        rs.decision_regions(NET, box).topology()[0]: ["", "holes", "boundary_length"],
        rs.level_set(NET, box, classes=(0, 1)): ["", "area", "euler", "components", "boundary_edges", "nonmanifold"],
        rs.region_count(NET, X, slices=3): [""],
        lc: [""],
        complexity.complexity_gap(lc, lc): ["", "auc"],
        gap: ["", "train_error", "test_error"],
        measures.sharpness(NET, X, Y): [""],
        complexity.fold_migration(NET, box, X, resolution=9): [
            "to_data.ratio", "to_data.near", "to_boundary.ratio", "to_boundary.near", "folds",
        ],
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


def test_every_public_error_lives_in_errors() -> None:
    for path in [path for package in (rs, regionscope_lab) for path in Path(package.__file__).parent.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            bases = {base.id for base in getattr(node, "bases", []) if isinstance(base, ast.Name)}
            if isinstance(node, ast.ClassDef) and bases & set(errors.__all__):
                assert path.name == "errors.py", f"{node.name} in {path}"


INSTRUMENTS = [
    function
    for name in rs.__all__
    if inspect.isfunction(function := getattr(rs, name)) and "model" in inspect.signature(function).parameters
] + [complexity.draw_points, complexity.complexity_gap, measures.slice_margin, measures.linear_probe]
MEASURED = {"model", "slice", "inputs", "labels", "train", "test", "initial", "dec", "point", "direction", "features"}
MEASURED |= {"property", "input_shape", "ids", "ids_a", "ids_b", "ids_c", "name", "context"}
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


DOCS = Path(__file__).parents[1] / "docs"
UNDOCUMENTED = {
    "Examples": "a sampler reads the inputs that you give it",
    "Instruction": "a step between two kinks of a program, for those who write rules",
    "Paths": "what Attributions.steps_needed starts from",
}


def named_in(kind: Any) -> dict[str, str]:
    """What a public function or class hands out, by name: the annotations of results, fields and properties."""
    if not inspect.isclass(kind):
        return {"()": str(getattr(kind, "__annotations__", {}).get("return", ""))}
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("regionscope."):
            continue
        found |= {name: str(hint) for name, hint in inspect.get_annotations(base).items()}
        for name, member in vars(base).items():
            if isinstance(member, functools.cached_property):
                member = member.func
            elif isinstance(member, property):
                member = member.fget
            member = getattr(member, "__func__", member)  # of a classmethod or staticmethod
            if inspect.isfunction(member):
                found[name] = str(member.__annotations__.get("return", ""))
    return {name: hint for name, hint in found.items() if not name.startswith("_")}


def classes_by_name() -> dict[str, type]:
    """Every class of the package, but for those that belong to a file."""
    skipped = "regionscope.__main__"  # runs the command line
    modules = [each.name for each in pkgutil.walk_packages(rs.__path__, "regionscope.") if each.name != skipped]
    return {
        name: value
        for module in map(importlib.import_module, modules)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }


def test_what_a_public_name_hands_out_is_public_too() -> None:
    """A class in the annotation of a result is offered by ``regionscope``, or is on an API page of its chapter."""
    pages = runpy.run_path(str(DOCS / "build_pages.py"))
    text = "".join(pages["list_names"](page.read_text(encoding="utf-8")) for page in (DOCS / "api").glob("*.md"))
    documented = set(re.findall(r"autoclass:: regionscope\.(?:\w+\.)+(\w+)", text))
    own = classes_by_name()
    assert {"Partition", "Paths", "AffineMaps", "Case"} <= set(own)
    assert {"Case", "Kink", "FoldProfile"} <= documented
    hidden: dict[str, list[str]] = {}
    looked_at = 0
    for public in rs.__all__:
        for member, hint in named_in(getattr(rs, public)).items():
            for name in set(re.findall(r"\w+", hint)) & set(own):
                looked_at += 1
                if name not in {*rs.__all__, *documented}:
                    hidden.setdefault(name, []).append(f"{public}.{member}")
    assert looked_at > 60
    assert hidden.keys() == UNDOCUMENTED.keys(), hidden
