"""The fuzz program: its truth on known answers, that it can fail, and a few hundred networks without a mismatch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz.compare as compare_module
from fuzz.compare import TruthFault, compare, outcome, verify
from fuzz.networks import FAMILIES, MIXED, network
from fuzz.report import Record, Report, records_of
from fuzz.truth import Place, truth_of
from regionscope.exact.known_answers import KnownAnswer, known_answers

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
