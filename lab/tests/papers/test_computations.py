"""What the items of the papers compute beside their runs, and how curves are read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from regionscope.errors import InputError
from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers.declaration import find_items, runs_of
from regionscope_lab.papers.humayun2023.seeds import double_descent, turning_points
from regionscope_lab.papers.li2025 import reparametrisation, theory
from regionscope_lab.papers.qi2023 import decay, paper, theorem1
from regionscope_lab.papers.safran2022 import end_to_end, flows
from regionscope_lab.papers.seed_table import SeedTable
from regionscope_lab.papers.workspace import Place, Workspace
from regionscope_lab.sweep import Sweep, run_sweep

ROOT = Path(__file__).parents[3]
DOUBLE = (5.0, 1.0, 2.0, 4.0, 0.5)


@pytest.mark.parametrize(
    "name",
    [
        "humayun2023-figure14",
        "humayun2023-figure17",
        "humayun2023-figure19",
        "li2025-section3",
        "li2025-section6",
        "qi2023-theorem1",
        "safran2022-example1",
        "safran2022-theorem31",
    ],
)
def test_answers_are_computed_once_at_smoke_size(name: str, tmp_path: Path) -> None:
    (item,) = find_items(name)
    place = Workspace(tmp_path)
    wanted = [one for mine in item.experiments("smoke").values() for one in mine]
    assert run_sweep(wanted, place.runs_folder).count("finished") == len(wanted) if wanted else True
    item.compute(place, "smoke")
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("computed/*.json")}
    assert len(made) == len(place.used) > 0
    item.compute(place, "smoke")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("computed/*.json")} == made


@pytest.mark.parametrize(
    ("name", "file", "runs"),
    [
        ("table1_cifar10", "table1", ["resnet18"]),
        ("table1_cifar10_training", "table1", ["mixup", "crop and flip", "adam", "adagrad"]),
        ("table4_cifar10", "resolution", ["resolutions"]),
    ],
)
def test_the_sweep_file_is_what_is_declared(name: str, file: str, runs: list[str]) -> None:
    declared = [one for block in runs for one in runs_of("li2025", file, "full")[block]]
    keys = {one.key for one in declared if one.network.name == "resnet18"}
    assert set(Sweep.from_toml(ROOT / "examples" / f"{name}.toml").keys) == keys


@pytest.mark.parametrize(("width", "count"), [(16, 206), (32, 1151), (64, 4113)])
def test_the_initial_weights_are_the_papers(width: int, count: int) -> None:
    """Default weights after torch.manual_seed(5), which the networks of the studies have too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        plain = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 2),
        )  # fmt: skip
    ours = zoo.build("mlp", classes=2, input_shape=(2,), seed=5, depth=3, width=width)
    for theirs, mine in zip(plain.parameters(), ours.parameters(), strict=True):
        assert torch.equal(theirs, mine)
    assert linear_regions(ours, Box.between(-1.0, 1.0, (2,))).n_linear_regions == count
    assert abs(count - paper.MOONS[width][0]) <= 1


def test_counts_are_those_of_the_training_loop(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same points, weights, batches and decay as a stored run: the same counts."""
    ours = decay.random_counts(n=60, decay=1e-3, seed=6, epochs=[0, 3])
    when = "start and steps 6"
    theirs = Experiment(
        data=DataSpec(name="random_labels", n_train=60, n_test=1, seed=6),
        network=NetworkSpec(name="mlp", options={"depth": 3, "width": 32}),
        training=Training(epochs=3, optimizer="adam", lr=1e-3, batch_size=32, schedule="constant", weight_decay=1e-3),
        measures=(
            MeasureSpec(instrument="linear_regions", when=when, options={"box": [-1.0, 1.0]}),
            MeasureSpec(instrument="error_rate", when=when, options={"points": "train"}),
        ),
        seed=6,
    )
    place = Workspace(tmp_path_factory.mktemp("decay"))
    assert run_sweep([theirs], place.runs_folder).count("finished") == 1
    (run,) = SeedTable.read(place.folder).of([theirs])
    assert ours["regions"] == run.curve("linear_regions").values.tolist()
    assert [1 - one for one in ours["accuracy"]] == pytest.approx(run.curve("error_rate").values.tolist())


@pytest.mark.parametrize(("biases", "variance"), [("he", 2 / 50), ("small", 1e-6), ("default", 1 / 150)])
def test_he_weights(biases: str, variance: float) -> None:
    model = theorem1.he_weights(zoo.mlp([50, 4000, 2], seed=1), biases=biases, seed=3)
    assert float(model[0].weight.detach().var()) == pytest.approx(2 / 50, rel=0.02)
    assert float(model[0].bias.detach().var()) == pytest.approx(variance, rel=0.1)
    again = theorem1.he_weights(zoo.mlp([50, 4000, 2], seed=1), biases=biases, seed=3)
    assert torch.equal(again[2].weight, model[2].weight)


def test_late_flows_leave_out_what_is_not_classified(tmp_path: Path) -> None:
    """One unit cannot follow three switches; many can."""
    here = Place(runs=tmp_path)
    failed = flows.late_flows(here, r=4, width=1, n=6, seeds=2, max_log_loss=20.0)
    assert set(map(len, failed.values())) == {0}
    found = flows.late_flows(here, r=2, width=20, n=4, seeds=2, max_log_loss=20.0)
    assert set(map(len, found.values())) == {2}
    assert all(1 <= line <= exact <= 21 for line, exact in zip(found["line"], found["exact"], strict=True))
    assert all(0 <= error < 0.5 for error in found["error"])
    assert flows._within([0.01, 0.1, 0.5], [9, 3, 1], 3) == 0.1
    assert flows._within([0.01, 0.1], [1, 4], 3) is None


def test_the_error_of_the_corollary() -> None:
    for r, n in ((1, 10), (2, 100), (8, 5000)):
        epsilon = flows.error_bound(r, n)
        assert (r * math.log(1 / epsilon) + math.log(10)) / epsilon == pytest.approx(n)
    assert flows.error_bound(3, 2) == 1.0


def test_the_asked_scale_is_that_of_the_theorems() -> None:
    """r = 2: one switch in the middle of [-1, 1], so rho = 1; C = 1/2, R = 1, delta = 0.1."""
    first, whole = end_to_end.asked("3.1", 2, 30, 1000), end_to_end.asked("2.3", 2, 30, 1000)
    assert first.k == pytest.approx(6144 * math.log(480))
    assert first.sigma_h == pytest.approx(4200 * 900 * 0.5 * math.sqrt(2000) / 0.1)
    assert whole.k == pytest.approx(6144 * math.log(960))
    assert whole.sigma_h == pytest.approx(2 * first.sigma_h)


def test_flows_at_the_asked_scale_stop_near_the_wanted_loss() -> None:
    """Large hidden weights do not make the steps so long that the flow jumps to the end."""
    found = end_to_end.flows_as_asked(theorem="3.1", r=2, n=8, width=300, first=0, flows=2)
    assert all(math.log(16) <= value < 2 * math.log(16) for value in found["log_loss"])
    assert max(found["hidden"]) < 1e-12
    alone = end_to_end.flows_as_asked(theorem="3.1", r=2, n=8, width=300, first=1, flows=1)
    assert alone["log_loss"] == pytest.approx(found["log_loss"][1:])


@pytest.mark.parametrize("n", [4, 6, 8, 10])
def test_the_zigzag_alternates_at_every_point_of_the_line(n: int) -> None:
    """Mean of |i - j| + 1 over all ordered pairs of points."""
    built = theory.on_a_line(n=n, seed=None, steps=0)
    assert built["accuracy"] == 1
    assert built["regions"] == pytest.approx(1 + (n * n - 1) / (3 * n))
    assert built["radius"] == pytest.approx(math.hypot(1, 1 / (n - 1)))


@pytest.mark.parametrize("kind", ["layers", "neurons", "last"])
def test_rescaling_keeps_every_label(kind: str) -> None:
    model = zoo.mlp([5, 16, 8, 3], seed=0).double()
    inputs = torch.randn(200, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    before = [value.detach().clone() for value in (model(inputs), *model.parameters())]
    reparametrisation.rescale(model, kind)
    with pytest.raises(InputError, match="at least two linear layers"):
        reparametrisation.rescale(torch.nn.Linear(2, 2), kind)
    after = [value.detach() for value in (model(inputs), *model.parameters())]
    torch.testing.assert_close(after[0], (2 if kind == "last" else 1) * before[0])
    moved = [not torch.equal(a, b) for a, b in zip(after[1:], before[1:], strict=True)]
    # weights and biases of three layers; of the second only the weights undo a factor of the first layer
    wanted = {"layers": [True, True, True, False, False, False], "neurons": [True] * 5 + [False],
              "last": [False] * 4 + [True] * 2}  # fmt: skip
    assert moved == wanted[kind]


def test_a_double_descent_has_its_three_phases_and_their_places() -> None:
    shape = double_descent([0, 1, 10, 100, 1000], DOUBLE, [0.1] * 5)
    assert shape.ascent is not None
    assert shape.second_descent is not None
    assert [change.amount for change in (shape.first_descent, shape.ascent, shape.second_descent)] == [4.0, 3.0, 3.5]
    assert shape.clear == (True, True, True)
    assert (shape.valley, shape.peak) == (1, 3)
    assert shape.turns == (1, 3)
    assert shape.peaks == 1
    assert shape.ascent.error == pytest.approx(0.1 * math.sqrt(2))


@pytest.mark.parametrize(
    ("values", "clear"),
    [
        ((5, 4, 3, 2, 1), (True, False, False)),
        ((1, 2, 3, 4, 5), (False, True, False)),
        ((1, 2, 5, 3, 1), (False, True, True)),
        ((5, 3, 1, 2, 4), (True, True, False)),
        ((5, 4, 4.1, 2, 1), (True, False, False)),
        ((3, 3, 3, 3, 3), (False, False, False)),
    ],
)
def test_phases_that_are_missing_are_not_clear(values: tuple[float, ...], clear: tuple[bool, ...]) -> None:
    shape = double_descent(range(5), values, [0.1] * 5)
    assert shape.clear == clear
    assert (shape.ascent is None) == (not clear[1])


def test_two_peaks_are_counted_and_small_ones_are_not() -> None:
    shape = double_descent(range(7), [0, 4, 1, 1.1, 1, 3, 0], [0.1] * 7)
    assert shape.turns == (1, 2, 5)
    assert shape.peaks == 2
    assert turning_points([3, 3.05, 3], [0.1] * 3) == ()
    assert double_descent([0, 1, 2], [1, 0, 1], [0.1] * 3).peaks == 0
    assert double_descent([0, 1, 2], [0, 1, 0], [0.1] * 3).peaks == 1


def test_what_is_no_curve_is_refused() -> None:
    with pytest.raises(InputError, match="two or more steps, values and errors"):
        double_descent([0], [1], [0])
    with pytest.raises(InputError, match="NaN"):
        double_descent([0, 1], [1, math.nan], [0, 0])
