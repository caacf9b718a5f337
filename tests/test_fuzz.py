"""The fuzz program: its truth on known answers, that it can fail, networks without a mismatch, and threads."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regionscope as rs
from fuzz.compare import TruthFault, compare, verify
from fuzz.networks import LONG, MIXED, SCALED, network
from fuzz.program import WideMatrix, integers
from fuzz.report import Record, Report, outcome, records_of
from fuzz.smooth import LARGE, SMOOTH, differences, random_network
from fuzz.threads import run
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


def test_a_wide_matrix_has_the_exact_product() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.uniform(-1, 1, (3, 300)) * 2.0 ** rng.integers(-30, 3, (3, 300))
    numbers[:, ::7] = 0.0
    columns = np.array([[int(x) << 60, -int(x) - 1] for x in rng.integers(-(2**40), 2**40, 300)], dtype=object)
    whole, exponent = integers(numbers)
    assert (WideMatrix.of(numbers, exponent + 2).dot(columns) == (whole << 2).dot(columns)).all()


@pytest.mark.parametrize("seed", range(LONG, LONG + 6))
def test_long_dot_products_have_the_pieces_they_are_made_of(seed: int) -> None:
    net = network(seed)
    truth = truth_of(net.layers, net.weights, net.place)
    verify(truth, net, net.module())
    assert 1024 <= net.layers[0][1] <= 16384
    most = {"affine": 1, "constant": 1}.get(net.weights_kind, 4 if net.dim == 1 else 7)
    assert truth.linear <= most


@pytest.mark.slow
def test_networks_of_every_family_agree() -> None:
    """``make fuzz`` does the same for as many as one likes."""
    seeds = [*range(80), *range(MIXED + 150, MIXED + 160)]
    wrong = {seed: [each for each in outcome(seed).differences if not each.close] for seed in seeds}
    assert not any(wrong.values())


@pytest.mark.parametrize(
    "seed",
    [
        *range(SMOOTH, SMOOTH + 4),
        SMOOTH + 5,  # the count cut cells of folds and ties until they had no size: LinAlgError
        SMOOTH + 35,  # 17,000 open cells of a segment, each known through its neighbour
        SMOOTH + 1435,  # RMSNorm of a float64 network has another default eps
        SMOOTH + 13556,  # torch's softplus jumps at its threshold: 4 regions for 2
    ],
)
def test_smooth_networks_agree(seed: int) -> None:
    assert not outcome(seed).differences


def test_another_network_contradicts_a_map() -> None:
    case = random_network(SMOOTH + 55)
    assert case.has_folds_only  # so that exact regions are compared too
    result = rs.decision_map(case.net, case.slice)
    assert not differences(case, result, 1000)
    with torch.no_grad():
        case.net[-1].bias.add_(torch.tensor([0.0, 0.2, 0.3, 0.5]))
    kinds = {difference.what for difference in differences(case, result, 1000)}
    assert kinds >= {"labels", "regions", "area of label 0"}


@pytest.mark.slow
def test_a_smooth_network_agrees_at_a_million_points() -> None:
    assert not outcome(LARGE).differences


def test_thin_cells_that_lie_askew_are_no_fault_of_the_truth() -> None:
    """Cells thinner than rounding: the middle of their corners is in a neighbour."""
    net = network(12852)
    verify(truth_of(net.layers, net.weights, net.place), net, net.module())


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
        899,  # near copies in max-pool networks: slopes from differences of outputs gave 49, 4 and 176 regions
        987,  # for 33, 5 and 116
        1339,
    ],
)
def test_rounding_makes_no_regions(seed: int) -> None:
    assert not outcome(seed).differences


@pytest.mark.slow
def test_eight_threads_beside_a_training_loop() -> None:
    found = run(30)
    assert found.faults == ()
    assert found.calls == 240
    assert found.steps > 50


def test_the_number_of_threads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that starts while torch has another number keeps that number for good."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 2)
        patch.delattr(torch, "set_num_threads")
        rs.linear_regions(model, rs.Segment([-1, -1], [1, 1]))
        rs.decision_regions(model, rs.Box.between(-1, 1, (2,)))


@pytest.mark.parametrize(
    "seed",
    [
        SCALED + 1082,  # classes that change within 1e-11 of a corner: a piece without area was lost, 18 pieces for 21
        SCALED + 2516,
        SCALED + 1553,  # a triple point at a corner was found a second time inside the cell: 14 vertices for 13
        SCALED + 2531,  # maxima that tie within 1e-9 of a corner: 13 regions for 18
        SCALED + 4187,  # values that vary by 1e-11 of their size: folds 1e-5 of the slice from their places
        SCALED + 9923,  # and 6e-7 of it, on a line
    ],
)
def test_folds_of_scaled_layers_are_right(seed: int) -> None:
    assert not outcome(seed).differences
