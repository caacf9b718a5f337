"""The estimate: its mean and errors, its three methods, reproducibility, and what it refuses."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError, NotPiecewiseAffine
from regionscope.measures.over_slices import _RunningMean, bootstrap_interval, over_slices
from regionscope.types import Estimate
from regionscope_lab.zoo import mlp

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * 3
NET = mlp([4, 16, 16, 3], seed=3)


def test_the_numbers_of_an_estimate() -> None:
    est = rs.region_count(NET, DATA, dim=1, slices=80)
    counts = est.counts.double()
    assert est.n == len(est.counts) == 80
    assert est.value == pytest.approx(float(counts.mean()))
    assert est.stderr == pytest.approx(float(counts.std()) / math.sqrt(80))
    low, high = est.interval
    assert low < est.value < high
    assert (high - low) / (2 * 1.96 * est.stderr) == pytest.approx(1.0, abs=0.15)
    assert (est.dim, est.method, est.grid, est.seed) == (1, "grid", 200, 0)
    assert 0 < est.model_seconds <= est.seconds
    assert est.status
    assert est.grid_bias is None
    assert f"{est.value:.4g}" in repr(est)


@pytest.mark.parametrize("dim", [1, *(pytest.param(dim, marks=pytest.mark.slow) for dim in (2, 3, 4))])
def test_the_same_seed_gives_the_same_counts_in_any_batch(dim: int) -> None:
    grid = {1: 30, 2: 9, 3: 5, 4: 4}[dim]
    points = math.comb(grid - 1 + dim, dim)
    wanted = rs.region_count(NET, DATA, dim=dim, slices=9, grid=grid).counts
    for batch in (1, 2, points - 1, points, 9 * points):
        assert torch.equal(rs.region_count(NET, DATA, dim=dim, slices=9, grid=grid, batch_size=batch).counts, wanted)
    assert torch.equal(rs.region_count(NET, DATA, dim=dim, slices=20, grid=grid).counts[:9], wanted)
    others = [rs.region_count(NET, DATA, dim=dim, slices=9, grid=grid, seed=seed).counts for seed in range(1, 6)]
    assert any(not torch.equal(other, wanted) for other in others)


def test_a_generator_is_used_and_the_global_one_is_not() -> None:
    state = torch.get_rng_state()
    one, two, three = (
        rs.region_count(NET, DATA, slices=20, generator=torch.Generator().manual_seed(seed)).counts
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert torch.equal(torch.get_rng_state(), state)


def test_exact_and_refined_agree_and_the_bias_of_the_grid_is_reported() -> None:
    exact = rs.region_count(NET, DATA, slices=40, method="exact")
    refined = rs.region_count(NET, DATA, slices=40, grid=20, method="refined")
    plain = rs.region_count(NET, DATA, slices=40, grid=20)
    slices = [rs.Hulls(DATA, dim=1).draw(i) for i in range(40)]
    assert exact.counts.tolist() == [found.count for found in rs.decision_regions(NET, slices)]
    assert exact.grid is None
    assert torch.equal(refined.plain_counts, plain.counts)
    assert refined.grid_bias.value == pytest.approx(plain.value - refined.value)
    assert (refined.counts != exact.counts).sum() <= 1


def test_unsettled_counts_are_a_status() -> None:
    def noise(x: torch.Tensor) -> torch.Tensor:
        return ((x * 12.9898).sin() * 43758.5453).remainder(1).sum(1).gt(2).long()

    est = rs.region_count(noise, DATA, slices=3, grid=10, method="refined", max_points=100)
    assert not est.status
    assert "3 of 3 slices" in est.status.reason
    assert "incomplete" in repr(est)


def test_the_error_so_far_is_that_of_all_values_and_each_is_looked_at_once() -> None:
    made = torch.Generator().manual_seed(0)
    blocks = [torch.randint(1, 50, (n,), generator=made) for n in (1, 3, 1, 64, 2)]
    so_far = _RunningMean()
    for i, block in enumerate(blocks, 1):
        so_far.add(block)
        wanted = Estimate.of(torch.cat(blocks[:i]))
        assert so_far.estimate.value == pytest.approx(wanted.value)
        assert so_far.estimate.stderr == pytest.approx(wanted.stderr, nan_ok=True)
        assert so_far.estimate.n == wanted.n
    constant = _RunningMean()
    for _ in range(5):
        constant.add(torch.full((3,), 7))
    assert constant.estimate.relative_stderr == 0.0


def test_sampling_goes_on_until_the_error_is_small_enough() -> None:
    est = rs.region_count(NET, DATA, slices=20, grid=40, until=0.04)
    assert est.status
    assert est.stderr / est.value <= 0.04
    assert est.n % 20 == 0
    assert est.n > 20
    before = Estimate.of(est.counts[:-20])
    assert before.relative_stderr > 0.04
    stopped = rs.region_count(NET, DATA, slices=20, grid=40, until=1e-4, max_slices=50)
    assert stopped.n == 50
    assert not stopped.status
    assert "after 50 slices" in stopped.status.reason
    assert rs.region_count(nn.Linear(4, 1), torch.ones(5, 4) * torch.arange(5)[:, None], until=0.5, slices=5).status


def test_a_few_slices_that_agree_by_chance_do_not_end_the_sampling() -> None:
    drawn: list[int] = []

    def measure(slices: Sequence[rs.Slice]) -> torch.Tensor:
        drawn.extend(range(len(drawn), len(drawn) + len(slices)))
        return torch.tensor([1.0 if i < 4 else 1.0 + i % 7 for i in drawn[-len(slices) :]])

    found = over_slices(measure, rs.Hulls(DATA, dim=1), slices=2, until=0.05)
    assert len(found.values) > 30
    assert found.estimate.relative_stderr <= 0.05
    assert (
        len(over_slices(lambda slices: torch.ones(len(slices)), rs.Hulls(DATA, dim=1), slices=2, until=0.05).values)
        == 30
    )


@pytest.mark.parametrize("known", [0, 1, 30, 64, 200])
@pytest.mark.parametrize("block", [1, 7, 64])
def test_values_of_an_earlier_call_are_not_measured_again(known: int, block: int) -> None:
    values = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    hulls, shares = rs.Hulls(DATA, dim=1), list[float]()
    drawn, measured = list[int](), list[int]()

    class Numbered:
        dim, seed, limit = 1, 0, None

        def draw(self, i: int) -> rs.Slice:
            drawn.append(i)
            return hulls.draw(i)

    def measure(slices: Sequence[rs.Slice]) -> torch.Tensor:
        measured.extend(drawn[-len(slices) :])
        return values[torch.tensor(drawn[-len(slices) :])]

    found = over_slices(
        measure, Numbered(), slices=20, until=0.04, slices_per_call=block, finished=values[:known],
        progress=shares.append,
    )  # fmt: skip
    n = len(found.values)
    assert 64 < n < 200
    assert found.status
    assert torch.equal(found.values, values[:n])
    assert drawn == measured == list(range(known, n))
    assert shares[0] == min(known or block, 20) / 20
    checks = [Estimate.of(values[:i]).relative_stderr for i in range(40, n + 1, 20)]
    assert checks[-1] <= 0.04
    assert min(checks[:-1]) > 0.04


def test_a_constant_classifier_has_one_region_and_no_error() -> None:
    est = rs.region_count(lambda x: torch.zeros(len(x), dtype=torch.int64), DATA, dim=2, slices=5)
    assert (est.value, est.stderr, est.interval) == (1.0, 0.0, (1.0, 1.0))
    one = rs.region_count(NET, DATA, slices=1)
    assert math.isnan(one.stderr)
    assert all(math.isnan(end) for end in one.interval)
    assert "±" not in repr(one)


def test_a_hyperplane_cuts_a_hull_in_two_or_not_at_all() -> None:
    plane = nn.Linear(4, 1)
    side = plane(DATA)[:, 0] > 0
    for dim in (1, 2, 3):
        est = rs.region_count(plane.double(), DATA, dim=dim, slices=30, method="exact")
        for i, found in enumerate(est.counts.tolist()):
            corners = rs.Hulls(DATA, dim=dim).draw(i)
            signs = plane(corners.embed(corners.corners))[:, 0] > 0
            assert found == (1 if bool((signs == signs[0]).all()) else 2)
    assert side.any()


def test_directions_ranges_and_given_slices() -> None:
    ray = rs.region_count(NET, DATA, slices=30, through="direction", length=5.0)
    assert torch.equal(
        ray.counts,
        rs.region_count(NET, slices=[rs.RandomDirections(DATA, length=5.0).draw(i) for i in range(30)]).counts,
    )
    narrow = rs.region_count(NET, DATA, slices=30)
    wide = rs.region_count(NET, DATA, slices=30, alpha=(-3, 4), grid=1400)
    assert (wide.counts >= narrow.counts).all()
    assert wide.value > narrow.value
    box = rs.Box(torch.zeros(4), torch.eye(4)[:2], 3.0)
    given = rs.region_count(NET, slices=[box, box], method="exact")
    assert given.counts.tolist() == [rs.decision_regions(NET, box).count] * 2
    assert (given.dim, given.seed) == (2, None)


def test_linear_regions_use_the_same_slices_and_error_bars() -> None:
    fold = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        fold[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        fold[0].bias.zero_()
        fold[2].weight.fill_(1.0)
    points = torch.tensor([[-1.0], [1.0], [2.0], [-2.0]])
    est = rs.linear_region_count(fold, points, slices=60)
    slices = [rs.Hulls(points, dim=1).draw(i) for i in range(60)]
    crossing = [bool(slice.embed(slice.corners).prod() < 0) for slice in slices]
    assert est.counts.tolist() == [2 if crosses else 1 for crosses in crossing]
    assert est.stderr > 0
    folds = rs.linear_region_count(NET, DATA, dim=1, slices=10, pieces="activation")
    assert folds.counts.tolist() == [
        rs.linear_regions(NET, rs.Hulls(DATA, dim=1).draw(i)).n_activation_regions for i in range(10)
    ]
    with pytest.raises(InputError, match="pieces"):
        rs.linear_region_count(NET, DATA, pieces="convex")


def test_any_classifier_and_any_shape_of_input() -> None:
    images = torch.randn(20, 1, 6, 6, generator=torch.Generator().manual_seed(2))
    silu = nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3))
    wanted = rs.region_count(silu, images, slices=15).counts
    with torch.no_grad():
        assert torch.equal(rs.region_count(lambda x: silu(x), images, slices=15).counts, wanted)
    numpy_model = lambda x: silu(torch.from_numpy(x)).detach().numpy().argmax(1)  # noqa: E731
    assert torch.equal(rs.region_count(numpy_model, images.numpy(), slices=15).counts, wanted)
    with pytest.raises(NotPiecewiseAffine, match="refined"):
        rs.region_count(silu, images, slices=15, method="exact")


@pytest.mark.slow
def test_a_scikit_learn_estimator() -> None:
    tree = pytest.importorskip("sklearn.tree")
    points = DATA.numpy()
    model = tree.DecisionTreeClassifier(random_state=0).fit(points, (points[:, 0] > 0).astype(int))
    est = rs.region_count(model, points, slices=50)
    assert set(est.counts.tolist()) <= {1, 2}
    slices = [rs.Hulls(points, dim=1).draw(i) for i in range(50)]
    crosses = [float(slice.embed(slice.corners)[:, 0].prod()) < 0 for slice in slices]
    assert est.counts.tolist() == [2 if c else 1 for c in crosses]


@pytest.mark.slow
def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for trial in range(200):
        values = torch.poisson(torch.full((60,), 3.0), generator=generator).long()
        low, high = bootstrap_interval(values, seed=trial)
        hits += low <= 3.0 <= high
    assert 0.90 <= hits / 200 <= 0.98


def test_any_measure_can_be_averaged_over_slices() -> None:
    done: list[float] = []
    found = over_slices(
        lambda block: torch.tensor([slice.size for slice in block]),
        rs.Hulls(DATA, dim=1),
        slices=300,
        progress=done.append,
    )
    assert found.estimate.value == pytest.approx(float(torch.pdist(DATA.double()).mean()), rel=0.1)
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 60}, "60 input"),
        ({"dim": 0}, "dim to be a whole number of at least 1, got 0"),
        ({"inputs": None}, "inputs to draw slices through, got None"),
        ({"inputs": DATA[:1]}, "1 input"),
        ({"inputs": [rs.Segment(DATA[0], DATA[1])]}, r"got Segment\. Pass slices=\[\.\.\.\]"),
        ({"slices": 0}, "slices to be a whole number of at least 1, or a list of slices, got 0"),
        ({"slices": "10"}, "slices to be a whole number of at least 1, or a list of slices, got '10'"),
        ({"slices": 3.0}, r"slices to be a whole number of at least 1, or a list of slices, got 3\.0"),
        ({"batch_size": 0}, "batch_size to be a whole number of at least 1, got 0"),
        ({"memory": 5}, r"memory to be a whole number of bytes, at least 1 MiB \(1048576\), got 5"),
        ({"memory": 2e9}, "whole number of bytes"),
        ({"grid": 1}, "at least 2"),
        ({"method": "best"}, "a valid method, got .best.. Choose from grid, refined, exact"),
        ({"through": "walls"}, "a valid through, got .walls.. Choose from inputs, direction, origin"),
        ({"length": 1.0}, 'length only with through="direction"'),
        ({"through": "direction", "alpha": (-1, 2)}, 'alpha only with through="inputs"'),
        *(({"until": value}, "between 0 and 1, got") for value in (0.0, 1, 2, -0.1)),
        *(({"until": value}, "finite number for until, got") for value in (True, "0.1", math.nan)),
        ({"max_slices": 0}, "max_slices"),
        *(({"seed": value}, f"seed to be a whole number .* got {value!r}") for value in (-1, 2**70, 1.5, "1")),
        ({"generator": 3}, "a Generator for generator, got int"),
        *(({"alpha": value}, "alpha") for value in (1, "ab", (0.0, "1"), (0.0, 1.0, 2.0))),
        ({"through": "direction", "length": "1"}, "finite number for length, got '1'"),
        ({"progress": 3}, "Expected progress to be a function"),
        ({"autocast": "half"}, "Expected autocast to be a torch dtype"),
        ({"method": "refined", "max_points": "9"}, "max_points to be a whole number of at least 1, got '9'"),
        ({"model": lambda x: x * math.nan}, "NaN"),
        ({"model": lambda x: x[:, 0]}, r"the function to return integer .*got float32 of shape \(8000,\)"),
        ({"model": lambda x: x[None]}, "shape"),
        ({"model": nn.Linear(3, 2)}, "failed on inputs"),
        ({"model": lambda x: x, "method": "exact"}, "Expected a torch module"),
        ({"method": "exact", "autocast": torch.bfloat16}, "float64"),
        ({"slices": []}, "empty"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        rs.region_count(**{"model": NET, "inputs": DATA, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", ["grid", "refined"])
def test_a_model_in_half_precision_has_the_regions_of_its_weights(dtype: torch.dtype, method: Any) -> None:
    torch.manual_seed(0)
    half = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)).to(dtype)
    nn.init.zeros_(half[2].bias)
    half[0].bias.data = -100 * half[0].weight.data.sum(1)  # the regions meet where half precision is coarse
    inputs = 100 + torch.randn(20, 4, generator=torch.Generator().manual_seed(3))
    found, wanted = (
        rs.region_count(model, inputs, dim=2, slices=10, grid=12, method=method)
        for model in (half, copy.deepcopy(half).float())
    )
    assert torch.equal(found.counts, wanted.counts)
    assert wanted.value > 1
    assert next(half.parameters()).dtype == dtype


@pytest.mark.parametrize("option", [{"grid": 50}, {"batch_size": 8}, {"autocast": torch.bfloat16}])
def test_an_exact_count_refuses_the_options_of_a_lattice(option: dict[str, Any]) -> None:
    with pytest.raises(rs.InputError, match=f'{next(iter(option))}=None with method="exact"'):
        rs.region_count(NET, DATA, slices=2, method="exact", **option)


@pytest.mark.parametrize("method", ["grid", "refined"])
@pytest.mark.parametrize("simplices", [1, 64])  # as many as are counted in one call
def test_simplices_and_boxes_are_refused_in_any_order(method: Any, simplices: int) -> None:
    mixed: list[rs.Slice] = [rs.Simplex(list(DATA[:3]))] * simplices
    mixed.append(rs.Box(DATA[0], torch.eye(4)[:2], 1.0))
    with pytest.raises(InputError, match="only simplices or only boxes, got both"):
        rs.region_count(NET, slices=mixed, method=method, grid=3)
