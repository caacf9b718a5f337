"""The fuzz program: its truth on known answers, that it can fail, and a few hundred networks without a mismatch."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz.compare as compare_module
import regionscope as rs
from fuzz.compare import Difference, TruthFault, compare, outcome, strict_differences, verify
from fuzz.networks import FAMILIES, LONG, MIXED, SCALED, network
from fuzz.program import integers
from fuzz.report import Record, Report, records_of
from fuzz.truth import Place, truth_of
from twins.known_answers import KnownAnswer, known_answers

SMALL = [answer for answer in known_answers() if answer.n_activation_regions <= 60]


def place_of(spec: dict[str, Any]) -> Place:
    if spec["kind"] == "box":
        directions = np.array(spec["directions"], dtype=float)
        radius = np.broadcast_to(np.array(spec["radius"], dtype=float), len(directions)).tolist()
        return Place("box", np.array(spec["center"], dtype=float), directions, tuple(radius))
    points = np.array(spec["points"], dtype=float)
    return Place(spec["kind"], points[0], points[1:] - points[0])


@pytest.mark.parametrize("answer", SMALL, ids=lambda answer: answer.name)
def test_the_truth_finds_the_known_answers(answer: KnownAnswer) -> None:
    weights = {name: tensor.double().numpy() for name, tensor in answer.build().state_dict().items()}
    truth = truth_of(answer.layers, weights, place_of(dict(answer.slice_spec)))
    assert truth.by_layer == list(answer.by_layer.values())
    assert truth.linear == answer.n_linear_regions
    assert len(truth.labels) == answer.n_decision_regions


def test_a_network_depends_on_its_seed_only() -> None:
    first, again, other = network(5), network(5), network(13)
    assert first.layers == again.layers
    assert all(np.array_equal(first.weights[name], again.weights[name]) for name in first.weights)
    assert first.family == other.family
    assert [network(seed).family for seed in range(len(FAMILIES))] == list(FAMILIES)


def test_other_weights_are_a_fault_of_the_truth_or_a_mismatch() -> None:
    net = network(0)
    truth = truth_of(net.layers, net.weights, net.place)
    assert not compare(net.module(), net, truth)
    moved = replace(net, weights={name: 1.5 * numbers - 0.1 for name, numbers in net.weights.items()})
    with pytest.raises(TruthFault, match="Seed 0"):
        verify(truth, net, moved.module())
    assert compare(net.module(), net, replace(truth, linear=truth.linear + 1)) == [
        ("linear regions", truth.linear, truth.linear + 1)
    ]


def test_floats_become_integers_over_one_power_of_two() -> None:
    numbers = [0.0, -0.75, 3.0, 2.0**70, 5e-324, 1 / 3]
    whole, exponent = integers(numbers)
    assert exponent == 1074
    assert whole.tolist() == [int(Fraction(number) * 2**exponent) for number in numbers]


@pytest.mark.parametrize("seed", range(LONG, LONG + 6))
def test_long_dot_products_have_the_pieces_they_are_made_of(seed: int) -> None:
    net = network(seed)
    truth = truth_of(net.layers, net.weights, net.place)
    verify(truth, net, net.module())
    assert 1024 <= net.layers[0][1] <= 16384
    most = {"affine": 1, "constant": 1}.get(net.weights_kind, 4 if net.dim == 1 else 7)
    assert truth.linear <= most


@pytest.mark.parametrize("seed", [LONG, SCALED])
def test_a_difference_counts_unless_the_result_warns_or_is_refused(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flint")
    net = network(seed)
    truth, module = truth_of(net.layers, net.weights, net.place), net.module()
    assert not outcome(seed).differences
    wrong = replace(truth, linear=truth.linear + 1)
    assert strict_differences(module, net, wrong) == [
        Difference("linear regions", truth.linear, truth.linear + 1, close=False)
    ]
    monkeypatch.setattr(rs.Partition, "n_undecided", 3)
    with_warning = strict_differences(module, net, wrong)
    assert [(each.what, each.found, each.close) for each in with_warning] == [
        ("warned", 6, True), ("linear regions", truth.linear, True),
    ]  # fmt: skip

    def refuse(*_: object) -> None:
        raise rs.CheckFailed("Expected gentle slopes.")

    monkeypatch.setattr(rs, "linear_regions", refuse)
    assert [(each.what, each.close) for each in strict_differences(module, net, wrong)] == [("refused", True)]


@pytest.mark.slow
def test_300_networks_agree() -> None:
    seeds = [*range(280), *range(MIXED + 150, MIXED + 170)]
    wrong = {seed: [each for each in outcome(seed).differences if not each.close] for seed in seeds}
    assert not any(wrong.values())


def test_a_report_resumes_and_comes_back(tmp_path: Path) -> None:
    records = records_of([0, 1, 4])
    report = Report()
    report.add(records, "1")
    report.add(
        [replace(records[0], seed=9, found=[{"what": "labels", "found": 1, "expected": 2, "close": False}])], "2"
    )
    assert report.missing(0, 6) == [2, 3, 5]
    report.save(tmp_path / "fuzz.json")
    kept = Report.load(tmp_path / "fuzz.json")
    assert kept.seeds == [(0, 2, "1"), (4, 5, "1"), (9, 10, "2")]
    assert kept.networks == report.networks
    assert [record.seed for record in kept.lists()[0]] == [9]
    kept.replace([Record(9, records[0].key, 0.0, [])], "3")
    kept.save(tmp_path / "fuzz.json")
    kept = Report.load(tmp_path / "fuzz.json")
    assert kept.lists() == ([], [])
    assert kept.rechecked == "3"
    assert "MLP" in kept.table()


def test_a_table_counts_warnings_walls_and_refusals() -> None:
    key, report = ("scaled", 1, "float64", "all layers"), Report()
    warned, refused, label = (
        {"what": what, "found": found, "expected": 0, "close": True}
        for what, found in (("warned", 5), ("refused", "Expected less."), ("labels", 1))
    )
    report.add([Record(seed, key, 0.5, found) for seed, found in enumerate(([warned, label], [refused], []))], "1")
    assert report.table().splitlines()[-1].split() == ["all", "3", "0", "2", "1", "5", "1", "500.0"]


def test_a_fault_of_the_truth_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> None:
        raise TruthFault("Seed 0: different.")

    monkeypatch.setattr("fuzz.compare.verify", fault)
    assert [(each.what, each.found) for each in outcome(0).differences] == [("truth", "Seed 0: different.")]
    assert records_of([0])[0].found[0]["what"] == "truth"


@pytest.mark.parametrize("seed", [899, 987, 1339])
def test_thin_cells_of_max_pool_networks_have_their_linear_regions(seed: int) -> None:
    """Near copies of neurons: slopes from differences of outputs gave 49 for 33, 4 for 5 and 176 for 116."""
    net = network(seed)
    assert (net.family, net.dtype) == ("max-pool", "float64")
    assert not outcome(seed).differences


@pytest.mark.parametrize(
    "seed",
    [
        4477,  # LeakyReLU: the slope and the jump of a unit cancel up to rounding, which made 2 linear regions of 1
        19461,
        11736,  # outputs that are 0 on all probe points: rounding at a fold won a label, and 2 decision regions were 3
        29001,
        12483,  # outputs that are nothing but rounding: the map of a region was said to differ from the network
        75455,
        MIXED + 4347,  # steep outputs: the values at a triple point differed by more than a tie, 5 regions for 4
        MIXED + 14484,
    ],
)
def test_rounding_makes_no_regions(seed: int) -> None:
    assert not outcome(seed).differences


def test_slopes_are_compared_where_cells_are_wide_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 12852 has cells thinner than rounding that lie askew: the middle of their corners is in a neighbour."""
    net = network(12852)
    truth, module = truth_of(net.layers, net.weights, net.place), net.module()
    verify(truth, net, module)
    exact = compare_module._derivatives
    monkeypatch.setattr(compare_module, "_derivatives", lambda *args: exact(*args) * (1 + 1e-6))
    with pytest.raises(TruthFault, match="the exact slopes differ"):
        verify(truth, net, module)
