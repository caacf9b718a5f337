"""Section 6 of Li et al.: sharpness against the dense Hessian, and inequalities that must never fail."""

from __future__ import annotations

import pytest
import torch

from regionscope.errors import InputError
from regionscope_lab.shallow import (
    TwoLayer,
    alternating_line,
    check_bounds,
    descend,
    initial_two_layer,
    random_sphere,
    regions_vs_learning_rate,
    sharpness,
    train_and_check,
)
from regionscope_lab.shallow.two_layer import dense_sharpness, loss_and_gradient, region_counts
from regionscope_lab.shallow.two_layer_rates import Inequality


@pytest.mark.parametrize(("p", "d", "n"), [(1, 1, 2), (1, 3, 4), (7, 2, 5), (12, 4, 9)])
def test_lanczos_is_the_dense_hessian(p: int, d: int, n: int) -> None:
    for seed in range(3):
        network = initial_two_layer(p, d, seed=seed)
        x, y = (
            random_sphere(n, d, seed=seed)
            if d > 1
            else (torch.tensor([[1.0], [-2.0]]).double(), torch.ones(2).double())
        )
        assert sharpness(network, x) == pytest.approx(dense_sharpness(network, x, y), rel=1e-8, abs=1e-10)


def test_the_gradient_is_that_of_autograd() -> None:
    network, (x, y) = initial_two_layer(9, 3, seed=1), random_sphere(6, 3, seed=2)
    weights = network.weights.clone().requires_grad_(True)
    value = (y - torch.relu(x @ weights.T) @ network.signs).square().mean() / 2
    (slope,) = torch.autograd.grad(value, weights)
    loss, mine = loss_and_gradient(network, x, y)
    assert loss == pytest.approx(float(value.detach()))
    torch.testing.assert_close(mine, slope)


def test_counts_match_dense_sampling() -> None:
    network, (x, _) = initial_two_layer(15, 3, seed=5), random_sphere(6, 3, seed=1)
    pairs, counts = region_counts(network, x)
    t = torch.linspace(0, 1, 20_001, dtype=torch.float64)[:, None]
    for (a, b), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        positive = network(x[a] + t * (x[b] - x[a])) > 0
        assert count == 1 + int((positive[1:] != positive[:-1]).sum())
    same = region_counts(network, x, torch.tensor([[2, 2], [0, 1]]))[1]
    assert int(same[0]) == 1


def random_setting(seed: int) -> tuple[TwoLayer, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    p, d, n = (int(torch.randint(1, top, (1,), generator=generator)) for top in (12, 5, 4))
    scale = float(10 ** (2 * torch.rand(1, generator=generator) - 1))
    return initial_two_layer(p, d, seed=seed), torch.randn((n + 1, d), generator=generator, dtype=torch.float64) * scale


def counts_together(settings: list[tuple[TwoLayer, torch.Tensor]]) -> list[torch.Tensor]:
    """Counts of many networks in one walk: without biases, the block-diagonal network is each of them on its axes."""
    joint = TwoLayer(
        torch.block_diag(*(net.weights for net, _ in settings)), torch.cat([net.signs for net, _ in settings])
    )
    pairs = [torch.combinations(torch.arange(len(x)), 2) for _, x in settings]
    first = [0, *torch.tensor([len(x) for _, x in settings]).cumsum(0).tolist()]
    every = torch.cat([pair + start for pair, start in zip(pairs, first[:-1], strict=True)])
    _, counts = region_counts(joint, torch.block_diag(*(x for _, x in settings)), every)
    return list(counts.split([len(pair) for pair in pairs]))


def test_the_inequalities_hold_on_random_networks() -> None:
    """Both lemmas and the chain on 200 random networks of many shapes and scales; a failure would be a finding."""
    settings = [random_setting(seed) for seed in range(200)]
    slack_6_4, slack_6_5 = [], []
    for start in range(0, len(settings), 20):
        part = settings[start : start + 20]
        for seed, ((network, x), counts) in enumerate(zip(part, counts_together(part), strict=True), start):
            n, radius = len(x), float(x.norm(dim=1).min())
            mask = (x @ network.weights.T > 0) * network.signs
            top = float(torch.linalg.eigvalsh((x @ x.T) * (mask @ mask.T))[-1]) / n  # of the Gram matrix of gradients
            active = mask.abs().sum(1)
            rights = active[torch.combinations(torch.arange(n), 2)].sum(1) + 2
            mean = (n + 2 * float(counts.sum())) / n**2
            lemma_6_5 = Inequality(radius**2 / n**2 * float(active.sum()), top)
            first = Inequality(mean, 2 * float((active + 1).mean()))
            second = Inequality(first.right, 2 * n / radius**2 * top + 2)
            assert bool((counts <= rights).all()), seed
            assert lemma_6_5.holds, seed
            assert first.holds, seed
            assert second.holds, seed
            slack_6_4.append(float((rights - counts).min()))
            slack_6_5.append(lemma_6_5.slack / max(top, 1e-12))
            if seed % 20 == 0:  # check_bounds evaluates the same sides
                row = check_bounds(network, x, torch.ones(n, dtype=torch.float64), rate=0.1)
                assert row.holds
                assert row.lemma_6_4.slack == slack_6_4[-1]
                for mine, theirs in ((row.lemma_6_5, lemma_6_5), (row.first, first), (row.second, second)):
                    assert (mine.left, mine.right) == pytest.approx((theirs.left, theirs.right), rel=1e-8, abs=1e-9)
    assert not Inequality(1.0, 0.9).holds
    assert 0 <= min(slack_6_4) <= 1  # the lemma is nearly attained
    assert 0 <= min(slack_6_5) + 1e-9 < 0.5


def test_the_edge_of_stability() -> None:
    """A rate at which descent is unstable at the start drives eta * lambda_max below 2; smaller ones leave it."""
    x, y = alternating_line(8)
    network = initial_two_layer(60, 2, seed=1)
    top = sharpness(network, x)
    calm, _ = train_and_check(network, x, y, rate=0.2 / top, steps=400, record=5)
    wild, _ = train_and_check(network, x, y, rate=2.6 / top, steps=800, record=9)
    assert all(row.holds for row in (*calm, *wild))
    assert abs(calm[-1].sharpness_times_rate - 0.2) < 0.03
    assert all(0.4 < row.sharpness_times_rate < 2.02 for row in wild[4:])


def test_against_rate_matches_the_training_time_and_reports_losses_and_slack() -> None:
    x, y = alternating_line(5)
    rows = regions_vs_learning_rate(x, y, [0.01, 0.02, 50.0], width=10, runs=3, time=0.6, record=3)
    assert [row.steps for row in rows] == [60, 30, 1]
    assert rows[0].lost == 0
    assert rows[2].lost == 3
    assert [row.failures for row in rows] == [0, 0, 0]
    assert min(rows[0].least_slack.values()) >= 0
    assert rows[0].regions == pytest.approx(sum(rows[0].values) / 3)
    assert rows[0].low <= rows[0].regions <= rows[0].high
    # The same time: at small rates, the same point of the flow, so nearly the same loss.
    assert rows[1].loss == pytest.approx(rows[0].loss, rel=0.02)


def test_bad_networks_are_named() -> None:
    line = alternating_line(3)
    for make, words in (
        (lambda: TwoLayer(torch.ones(2, 2).double(), torch.tensor([1.0, 0.5]).double()), "signs"),
        (lambda: next(descend(initial_two_layer(2, 2), *line, rate=0.0, steps=1)), "rate"),
        (lambda: TwoLayer(torch.ones(2, 2), torch.ones(2)), r"weights of float64, got torch\.float32"),
        (lambda: sharpness(initial_two_layer(2, 2), torch.ones(3, 2)), r"float64, got torch\.float32"),
        (lambda: regions_vs_learning_rate(*line, [0.1], width=3, time=0.0), "time"),
    ):
        with pytest.raises(InputError, match=words):
            make()
