"""The names users call: those of the design that exist in this version."""

from __future__ import annotations

import dataclasses

import pytest

import regionscope as rs

TOP = [
    "Box",
    "Estimate",
    "Hulls",
    "Monitor",
    "RandomDirections",
    "Segment",
    "Simplex",
    "LinesFromOrigin",
    "count_components",
    "decision_regions",
    "every",
    "linear_regions",
    "local_complexity",
    "log_spaced",
    "region_count",
]
PARTITION = ["by_layer", "check", "load", "n_activation_regions", "n_linear_regions", "save", "slice", "vertices"]
DECISION = ["boundary", "count", "labels"]


def members(kind: type) -> set[str]:
    return set(dir(kind)) | {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("name", TOP)
def test_the_package_offers(name: str) -> None:
    assert name in rs.__all__
    assert hasattr(rs, name)


def test_everything_listed_exists() -> None:
    assert all(hasattr(rs, name) for name in rs.__all__)
    assert sorted(rs.__all__) == sorted(set(rs.__all__))


def test_results_carry_the_promised_names() -> None:
    assert set(PARTITION) <= members(rs.Partition)
    assert set(DECISION) <= members(rs.DecisionRegions)


def test_results_are_frozen() -> None:
    for kind in (rs.Partition, rs.DecisionRegions):
        assert kind.__dataclass_params__.frozen
