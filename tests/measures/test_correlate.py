"""Correlations against SciPy, their intervals, and tables over runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import regionscope as rs
from regionscope.errors import InputError
from regionscope.measures.correlate import _kendall, _pearson, _spearman
from regionscope.measures.fit import linear_fit

RNG = np.random.default_rng(0)
CASES = {
    "noise": (RNG.normal(size=30), RNG.normal(size=30)),
    "related": (x := RNG.normal(size=30), x + RNG.normal(size=30)),
    "ties": (RNG.integers(0, 4, 40), RNG.integers(0, 3, 40)),
    "three": (np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])),
    "large numbers": (1e9 + RNG.normal(size=20), 1e-9 * RNG.normal(size=20)),
}


@pytest.fixture(scope="module")
def stats() -> Any:
    """Imported by the first test, not while tests are collected: it takes a second."""
    from scipy import stats

    return stats


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_three_coefficients_are_those_of_scipy(name: str, stats: Any) -> None:
    x, y = CASES[name]
    found = rs.correlate(x, y)
    assert found.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.kendall.value == pytest.approx(stats.kendalltau(x, y).statistic)
    for one in (found.pearson, found.spearman, found.kendall):
        assert -1 <= one.interval[0] <= one.interval[1] <= 1
        assert one.n == len(x)


@pytest.mark.slow
def test_a_resample_is_counted_as_scipy_would(stats: Any) -> None:
    x, y = CASES["ties"]
    rows = np.random.default_rng(3).integers(0, 40, 40)
    times = np.bincount(rows, minlength=40).astype(float)[None]
    a, b = x.astype(float), y.astype(float)
    assert _pearson(a, b, times)[0] == pytest.approx(stats.pearsonr(x[rows], y[rows]).statistic)
    assert _spearman(a, b, times)[0] == pytest.approx(stats.spearmanr(x[rows], y[rows]).statistic)
    assert _kendall(a, b, times)[0] == pytest.approx(stats.kendalltau(x[rows], y[rows]).statistic)


@pytest.mark.slow
def test_the_interval_is_that_of_a_plain_bootstrap(stats: Any) -> None:
    x, y = CASES["related"]
    low, high = rs.correlate(x, y).pearson.interval
    plain = stats.bootstrap(
        (x, y), lambda a, b: stats.pearsonr(a, b).statistic, paired=True, vectorized=False, n_resamples=2000,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert (low, high) == pytest.approx((plain.low, plain.high), abs=0.05)
    narrow = rs.correlate(x, y, level=0.5).pearson.interval
    assert low < narrow[0] < narrow[1] < high
    assert rs.correlate(x, y, seed=1) == rs.correlate(x, y, seed=1)


def test_constant_resamples_are_left_out_whatever_the_numbers() -> None:
    """A third of the resamples miss the last pair; of 0.1 a mean is off by rounding, of 1 it is not."""
    y = [1.3, 1.1, 1.2, 1.15, 1.18, 7.2]
    rough, whole = (rs.correlate([low] * 5 + [9 * low], y).pearson for low in (0.1, 1.0))
    assert rough.interval == pytest.approx(whole.interval, abs=1e-9)
    assert rough.interval[0] > 0.99


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-155, 1e-90, 1e-77, 1e77, 1e90, 1e155, 1e300])
def test_the_scale_of_the_numbers_has_no_effect(scale: float) -> None:
    x, y = np.array([1.0, 2.0, 3.0, 4.0, 7.0, -8.0]), np.array([1.0, 4.0, 2.0, 5.0, 9.0, -7.0])
    wanted, apart = rs.correlate(x, y), rs.correlation_difference(x, y[::-1], y)
    for a, b in ((x * scale, y), (x, y * scale), (x * scale, y * scale)):
        found = rs.correlate(a, b)
        for one, other in zip(
            (found.pearson, found.spearman, found.kendall),
            (wanted.pearson, wanted.spearman, wanted.kendall),
            strict=True,
        ):
            assert one.value == pytest.approx(other.value, abs=1e-14)
            assert one.interval == pytest.approx(other.interval, abs=1e-14)
        difference = rs.correlation_difference(a, y[::-1], b)
        assert difference.value == pytest.approx(apart.value, abs=1e-14)
        assert difference.interval == pytest.approx(apart.interval, abs=1e-14)
        (row,) = rs.correlation_table({"x": a, "y": b}, "y")
        assert row.correlation == found


def test_one_huge_number_does_not_hide_the_others() -> None:
    """Resamples without it are those of ordinary numbers; in the others, it decides."""
    x, y = np.array([1.0, 2.0, 3.0, 4.0, 1e300]), np.array([1.0, 3.0, 2.0, 4.0, 5.0])
    times = np.array([[1.0, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    assert _pearson(x, y, times) == pytest.approx([0.8, np.corrcoef([0, 0, 0, 0, 1.0], y)[0, 1]])
    largest = np.finfo(np.float64).max
    assert rs.correlate([-largest, 0.0, largest], [1, 2, 3]).pearson.value == pytest.approx(1.0)


def test_perfect_agreement() -> None:
    found = rs.correlate([1, 2, 3, 4, 5], [1, 8, 27, 64, 125])
    assert found.spearman.value == found.kendall.value == 1.0
    assert found.pearson.value < 1.0
    assert rs.correlate([1, 2, 3], [3, 2, 1]).pearson.value == pytest.approx(-1.0)
    assert "Pearson" in str(found)


def test_a_table_over_runs() -> None:
    gap = np.arange(12.0)
    columns = {"gap": gap, "regions": gap * 2 + 1, "norm": -gap, "constant": np.ones(12)}
    rows = rs.correlation_table(columns, "gap", by=["cnn"] * 6 + ["mlp"] * 4 + ["tiny"] * 2)
    found = {(row.measure, row.group): row for row in rows}
    assert set(found) == {(m, g) for m in ("regions", "norm", "constant") for g in ("all", "cnn", "mlp", "tiny")}
    assert found["regions", "all"].correlation.pearson.value == pytest.approx(1.0)
    assert found["norm", "cnn"].correlation.kendall.value == pytest.approx(-1.0)
    assert found["regions", "cnn"].correlation.pearson.n == 6
    assert found["constant", "all"].correlation is None
    assert "12 equal ones" in found["constant", "all"].reason
    assert "3 to" in found["regions", "tiny"].reason
    assert len(rs.correlation_table(columns, "gap")) == 3


def test_the_difference_of_two_correlations_is_sharper_than_either() -> None:
    """Two measures that share most of their noise: their intervals overlap, that of the difference is far from 0."""
    rng = np.random.default_rng(0)
    gap, shared = rng.normal(size=40), rng.normal(size=40)
    good, worse = gap + shared, gap + shared + 0.3 * rng.normal(size=40)
    found = rs.correlation_difference(good, worse, gap, resamples=500)
    first, second = rs.correlate(good, gap).pearson, rs.correlate(worse, gap).pearson
    assert found.value == pytest.approx(first.value - second.value)
    assert found.interval[0] < found.value < found.interval[1]
    assert first.interval[0] < second.value < first.interval[1]
    assert found.interval[1] - found.interval[0] < 0.5 * (first.interval[1] - first.interval[0])
    assert rs.correlation_difference(good, good, gap).interval == (0.0, 0.0)
    swapped = rs.correlation_difference(worse, good, gap, resamples=500)
    assert swapped.value == pytest.approx(-found.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rs.correlate([1, 2], [1, 2]), "3 to 5,000 pairs, got 2"),
        (lambda: rs.correlate([1, 2, 3], [1, 2]), "3 of x, 2 of y"),
        (lambda: rs.correlate([1, 1, 1], [1, 2, 3]), "x to have different numbers, got 3 equal ones, for which no"),
        (lambda: rs.correlate([1, 2, 3], [1, np.nan, 3]), "y to be finite, got None, NaN or infinite values"),
        (lambda: rs.correlate([[1, 2, 3]], [1, 2, 3]), "flat list"),
        (lambda: rs.correlate(["a", "b", "c"], [1, 2, 3]), "list of numbers"),
        (lambda: rs.correlate([1, 2, 3], [1, 2, 4], level=1.5), "level"),
        (lambda: rs.correlate([1, 2, 3], [1, 2, 4], clusters=["a", "b"]), "clusters to have one group .*got 2"),
        (lambda: rs.correlate([1, 2, 3], [1, 2, 4], clusters=["a", "a", "b"]), "at least 3 clusters for .*got 2"),
        (lambda: rs.correlation_difference([1, 2, 3], [1, 2], [1, 2, 3]), "2 of other"),
        (lambda: rs.correlation_table([1, 2, 3], "gap"), r"Expected a mapping .*got list.*table\.column"),
        (lambda: rs.correlation_table({"a": [1, 2, 3]}, "gap"), r"target to be a column, got 'gap'\. Choose from a"),
        (lambda: rs.correlation_table({"a": [1, 2], "gap": [1, 2, 3]}, "gap"), "'a' to have 3 numbers, .*got 2"),
        (lambda: rs.correlation_table({"gap": [1, 2, 3]}, "gap", by=["x"]), "by to have one group .*got 1"),
        (
            lambda: rs.correlation_table({"a": [1, 2, 3], "gap": [1, 2, 3]}, "gap", by=["mlp", "all", "all"]),
            'Expected names of groups other than "all"',
        ),
        (
            lambda: rs.correlate([1, 2, 3], [1, 2, 4], clusters=[["a"], ["b"], ["c"]]),
            r"clusters to .* names.*\['a'\]",
        ),
        (
            lambda: rs.correlation_table({"a": [1, 2, 3], "gap": [1, 2, 3]}, "gap", by=np.eye(3)),
            r"by to have names of groups, such as texts or numbers, got \[1",
        ),
    ],
)
def test_bad_input_is_one_sentence(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_copies_in_clusters_do_not_narrow_the_interval() -> None:
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 2.0, 5.0, 4.0]
    alone = rs.correlate(x, y)
    copies = rs.correlate(x * 4, y * 4, clusters=list("abcde") * 4)
    assert copies.pearson.interval == pytest.approx(alone.pearson.interval)
    assert copies.spearman.interval == pytest.approx(alone.spearman.interval)
    assert rs.correlate(x * 4, y * 4).pearson.interval[0] > alone.pearson.interval[0] + 0.1


def test_results_with_a_value_are_taken_as_they_are() -> None:
    x, y = [3.0, 1.0, 2.0, 5.0], [1.0, 2.0, 4.0, 3.0]
    results = [rs.Estimate(value, 0.1, 9) for value in x]
    assert rs.correlate(results, y) == rs.correlate(x, y)


def test_tensors_that_require_gradients_are_read() -> None:
    x, y = torch.tensor([3.0, 1.0, 2.0, 5.0], requires_grad=True), [1.0, 2.0, 4.0, 3.0]
    plain = rs.correlate(x.tolist(), y)
    assert rs.correlate(x, y) == rs.correlate(list(x), y) == plain
    assert rs.correlation_table({"x": x, "y": y}, "y")[0].correlation == plain
    assert linear_fit(x, y) == linear_fit(x.tolist(), y)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["u", "v", "w"] * 4), torch.arange(12) % 3, [None, "v", 1.5] * 4, [math.nan, "v", 1.5] * 4,
        np.array([math.nan, 1.0, 2.0] * 4),
    ],
)  # fmt: skip
def test_groups_may_be_arrays_tensors_and_names_of_several_types(names: Any) -> None:
    source = np.random.default_rng(0)
    a = source.normal(size=12)
    b = a + 0.3 * source.normal(size=12)
    plain = ["uvw"[i % 3] for i in range(12)]
    found, expected = (rs.correlation_table({"a": a, "b": b}, "b", by=by) for by in (names, plain))
    assert {row.correlation.pearson.value for row in found} == {row.correlation.pearson.value for row in expected}
    intervals = [rs.correlate(a, b, clusters=clusters).pearson.interval for clusters in (names, plain)]
    assert intervals[0] == intervals[1]


def test_a_table_of_correlations_can_be_read() -> None:
    row, none = rs.correlation_table({"a": [1, 2, 3, 4], "same": [1, 1, 1, 1], "b": [1, 4, 9, 16]}, "b")
    start = "CorrelationRow(measure='a', group='all', Correlation(pearson=+0.98 ["
    assert repr(row).startswith(start)
    assert repr(row).endswith(", n=4))")
    assert repr(none) == f"CorrelationRow(measure='same', group='all', reason={none.reason!r})"
    assert repr(row.correlation.spearman) == "Coefficient(+1.00 [+1.00, +1.00], n=4)"
