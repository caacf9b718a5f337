"""Gap, norms, margins and sharpness against closed forms, and what section 3 of Li et al. says about them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import TensorDataset

import regionscope as rs
from regionscope.errors import InputError, LimitReached
from regionscope.lab.zoo import mlp
from regionscope.measures.gap import Gap

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()


def hidden_rescaled(net: nn.Sequential) -> nn.Sequential:
    """{2 W1, 2 b1, W2 / 2}: another set of weights of the same function."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        other[0].weight *= 2
        other[0].bias *= 2
        other[2].weight /= 2
    return other


def last_doubled(net: nn.Sequential) -> nn.Sequential:
    other = copy.deepcopy(net)
    with torch.no_grad():
        other[-1].weight *= 2
        other[-1].bias *= 2
    return other


@pytest.mark.slow
def test_section_3_norms_and_margins_see_the_parameters_region_counts_the_function() -> None:
    start, net = mlp([3, 16, 3], seed=1), mlp([3, 16, 3], seed=2)
    data = X * 4
    same, doubled = hidden_rescaled(net), last_doubled(net)
    assert torch.allclose(same(data), net(data), atol=1e-6)
    assert rs.distance_from(same, start) != pytest.approx(rs.distance_from(net, start), rel=1e-2)
    assert torch.equal(doubled(data).argmax(1), net(data).argmax(1))
    margin = rs.output_margin(net, data, Y).value
    assert rs.output_margin(doubled, data, Y).value == pytest.approx(2 * margin, rel=1e-5)
    assert rs.output_margin(same, data, Y).value == pytest.approx(margin, rel=1e-5)
    for method in ("grid", "exact"):
        for dim in (1, 2):
            counts = rs.region_count(net, data, dim=dim, slices=12, method=method).counts
            assert counts.max() > 1
            for other in (same, doubled):
                assert torch.equal(rs.region_count(other, data, dim=dim, slices=12, method=method).counts, counts)


def test_errors_and_the_gap() -> None:
    guess = lambda x: (x[:, 0] > 0).long()  # noqa: E731
    wrong = float((guess(X) != Y).double().mean())
    error = rs.error_rate(guess, X, Y)
    assert error.value == pytest.approx(wrong)
    assert error.stderr == pytest.approx(math.sqrt(wrong * (1 - wrong) / 39))
    perfect = (X, guess(X))
    gap = rs.generalisation_gap(guess, perfect, (X, Y), batch_size=7)
    assert (gap.train_error.value, gap.test_error.value, gap.value) == (0.0, wrong, wrong)
    assert gap.stderr == pytest.approx(error.stderr)
    net = mlp([3, 8, 3])
    assert rs.error_rate(net, X.numpy(), Y.numpy()).value == pytest.approx(
        float((net(X).argmax(1) != Y).double().mean())
    )


def test_norms_by_hand() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
        net[0].bias.copy_(torch.tensor([1.0, 0.0]))
        net[1].weight.copy_(torch.tensor([[0.0, 2.0]]))
    norms = rs.parameter_norms(net)
    assert norms.l1 == 10.0
    assert norms.l2 == pytest.approx(math.sqrt(9 + 16 + 1 + 4))
    assert norms.frobenius == {"0.weight": 5.0, "0.bias": 1.0, "1.weight": 2.0}
    assert norms.spectral == pytest.approx({"0.weight": 4.0, "1.weight": 2.0})
    assert rs.parameter_norms(net, which="weights").l1 == 9.0
    zero = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
    assert rs.distance_from(net, zero) == pytest.approx(norms.l2)
    assert rs.distance_from(net, zero, which="weights") == pytest.approx(math.sqrt(29))
    assert rs.distance_from(net, net) == 0.0


def test_output_margin_by_hand() -> None:
    logits = torch.tensor([[2.0, 5.0, 1.0], [0.0, 1.0, 4.0]])
    found = rs.output_margin(nn.Identity(), logits, torch.tensor([1, 0]))
    assert (found.value, found.n) == ((3.0 - 4.0) / 2, 2)
    single = rs.output_margin(nn.Identity(), torch.tensor([[2.0], [3.0]]), torch.tensor([1, 0]))
    assert single.value == -0.5
    net = mlp([3, 8, 3])
    assert rs.output_margin(net, X, Y, batch_size=7).value == pytest.approx(rs.output_margin(net, X, Y).value)


def absolute(inner: nn.Linear) -> nn.Sequential:
    """|w x + b| - 1 as one logit."""
    net = nn.Sequential(nn.Linear(inner.in_features, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.cat([inner.weight, -inner.weight]))
        net[0].bias.copy_(torch.cat([inner.bias, -inner.bias]))
        net[2].weight.fill_(1.0)
        net[2].bias.fill_(-1.0)
    return net


def band() -> nn.Sequential:
    """Label 0 exactly where |3 x + 4 y| <= 1: the boundary is at distance (1 - |3 x + 4 y|) / 5 from a point inside."""
    inner = nn.Linear(2, 1)
    with torch.no_grad():
        inner.weight.copy_(torch.tensor([[3.0, 4.0]]))
        inner.bias.zero_()
    return absolute(inner)


def test_the_distance_to_the_boundary_on_a_plane_and_on_a_line() -> None:
    skewed = rs.Box([0.0, 0.0], [[2.0, 1.0], [0.0, 3.0]], 2.0)
    dec = rs.decision_regions(band(), skewed)
    for point in ([0.0, 0.0], [0.1, 0.05], [-0.3, 0.2], [0.7, -0.4]):
        wanted = abs(1 - abs(3 * point[0] + 4 * point[1])) / 5
        assert rs.slice_margin(dec, torch.tensor(point)) == pytest.approx(wanted, abs=1e-7)
    line = rs.Segment([-1.0, 0.0], [1.0, 0.0])
    assert rs.slice_margin(rs.decision_regions(band(), line), torch.tensor([0.1, 0.0])) == pytest.approx(1 / 3 - 0.1)
    far = rs.Segment([1.0, 1.0], [2.0, 2.0])
    assert rs.slice_margin(rs.decision_regions(band(), far), torch.tensor([1.0, 1.0])) == math.inf


@pytest.mark.parametrize("angle", [3e-8, 2e-9])
def test_the_distance_to_the_boundary_with_directions_that_are_almost_parallel(angle: float) -> None:
    thin = rs.Box([0.0, 0.0], torch.tensor([[1.0, 0.0], [1.0, angle]], dtype=torch.float64), 1.0)
    model = nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, 1.0]]))
        model.bias.fill_(-0.3 * angle)
    found = rs.slice_margin(rs.decision_regions(model, thin), torch.zeros(2))
    assert found == pytest.approx(0.3 * angle, rel=1e-6)


def test_the_distance_to_the_boundary_in_three_dimensions() -> None:
    inner = nn.Linear(3, 1)
    with torch.no_grad():
        inner.weight.copy_(torch.tensor([[1.0, 2.0, 2.0]]))
        inner.bias.zero_()
    cube = rs.Box(torch.zeros(3), torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), 2.0)
    dec = rs.decision_regions(absolute(inner), cube)
    assert rs.slice_margin(dec, torch.zeros(3)) == pytest.approx(1 / 3)
    assert rs.slice_margin(dec, torch.tensor([0.1, 0.1, 0.2])) == pytest.approx((1 - 0.7) / 3)


def test_a_slice_margin_agrees_with_a_fine_grid() -> None:
    net = mlp([2, 12, 12, 3], seed=4)
    square = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3.0)
    dec = rs.decision_regions(net, square)
    assert dec.count > 1
    ticks = torch.linspace(-3, 3, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(ticks, ticks)
    labels = net.double()(grid).argmax(1)
    for point in (torch.tensor([0.3, 0.2], dtype=torch.float64), torch.tensor([-2.0, 1.0], dtype=torch.float64)):
        other = grid[labels != net(point[None]).argmax(1)]
        nearest = float((other - point).norm(dim=1).min())
        assert nearest - 0.015 <= rs.slice_margin(dec, point) <= nearest


def dense_hessian(net: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    names = [name for name, _ in net.named_parameters()]
    shapes = [value.shape for value in net.parameters()]
    sizes = [value.numel() for value in net.parameters()]

    def loss(flat: torch.Tensor) -> torch.Tensor:
        parts = {n: p.reshape(s) for n, p, s in zip(names, flat.split(sizes), shapes, strict=True)}
        return functional.cross_entropy(torch.func.functional_call(net, parts, (inputs,)), targets)

    flat = torch.cat([value.detach().reshape(-1) for value in net.parameters()])
    return torch.autograd.functional.hessian(loss, flat)


@pytest.mark.slow
def test_sharpness_is_the_largest_eigenvalue_of_the_hessian() -> None:
    net = mlp([3, 6, 3], seed=3).double()
    inputs = X.double()
    wanted = float(torch.linalg.eigvalsh(dense_hessian(net, inputs, Y))[-1])
    for batch in (1, 7, 39, 40, 1000):
        found = rs.sharpness(net, inputs, Y, batch_size=batch, tolerance=1e-8)
        assert found.value == pytest.approx(wanted, rel=1e-6)
        assert found.residual < 1e-5
    assert found.n == 40
    assert rs.sharpness(mlp([3, 6, 3], seed=3), X, Y).value == pytest.approx(wanted, rel=1e-2)
    assert rs.sharpness(mlp([3, 6, 3], seed=3), X, Y, dtype=torch.float64).value == pytest.approx(wanted, rel=1e-3)


def test_sharpness_of_a_quadratic_and_of_a_single_logit() -> None:
    line = nn.Linear(2, 1, bias=False).double()
    points = torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    square = lambda out, target: 0.5 * (out[:, 0] - target).square().mean()  # noqa: E731
    assert rs.sharpness(line, points, torch.zeros(2), loss=square).value == pytest.approx(4.5)
    with torch.no_grad():
        line.weight.zero_()
    assert rs.sharpness(line, points, torch.tensor([0, 1])).value == pytest.approx(9 / 8)
    wide = nn.Linear(30, 1, bias=False).double()
    row = torch.arange(30.0, dtype=torch.float64)[None]
    assert rs.sharpness(wide, row, torch.zeros(1), loss=square).value == pytest.approx(float(row.square().sum()))


@pytest.mark.parametrize("tokens", [(), (4,)])
def test_ignored_labels_have_no_weight_in_any_batch(tokens: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 3) if not tokens else nn.Conv1d(3, 3, 1)
    net, x = layer.double(), torch.randn(12, 3, *tokens, dtype=torch.float64)
    y = torch.randint(3, (12, *tokens))
    y[2:7] = -100  # whole batches of them, and parts of others
    y[9:, ...] = torch.where(torch.rand(3, *tokens) < 0.5, -100, y[9:])
    names, sizes = list(dict(net.named_parameters())), [value.numel() for value in net.parameters()]

    def loss(flat: Tensor) -> Tensor:
        parts = zip(flat.split(sizes), net.parameters(), strict=True)
        state = dict(zip(names, (part.reshape(value.shape) for part, value in parts), strict=True))
        return functional.cross_entropy(functional_call(net, state, (x,)), y)

    start = torch.cat([value.detach().reshape(-1) for value in net.parameters()])
    wanted = float(torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, start))[-1])
    for batch in (1, 2, 5, 11, 12, 100):
        assert rs.sharpness(net, x, y, batch_size=batch, tolerance=1e-9).value == pytest.approx(wanted, rel=1e-7)
    with pytest.raises(InputError, match="Expected labels other than -100, got none"):
        rs.sharpness(net, x[2:7], y[2:7])


def test_a_loss_that_depends_on_the_batches_needs_a_single_one() -> None:
    net, ignored = mlp([3, 4, 3], seed=1).double(), torch.where(torch.arange(40) < 9, -100, Y)
    x, weights = X.double(), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    wanted = rs.sharpness(net, x, ignored)
    losses: list[tuple[Any, Tensor]] = [
        (functional.cross_entropy, ignored), (nn.CrossEntropyLoss(weight=weights), Y),
        (nn.CrossEntropyLoss(reduction="sum"), Y), (nn.CrossEntropyLoss(ignore_index=2), Y),
    ]  # fmt: skip
    for loss, labels in losses:
        rs.sharpness(net, x, labels, loss=loss, batch_size=40)
        for batch in (13, 20, 39):
            with pytest.raises(InputError, match=r"the mean over the rows of a batch, got .* batch_size=40\."):
                rs.sharpness(net, x, labels, loss=loss, batch_size=batch)
    assert rs.sharpness(net, x, ignored, loss=functional.cross_entropy).value == pytest.approx(wanted.value)
    for dtype in (torch.float32, torch.float64):
        values = [
            rs.sharpness(net, x, Y, loss=functional.cross_entropy, batch_size=batch, dtype=dtype).value
            for batch in (1, 7, 13, 40)
        ]
        assert values == pytest.approx([values[0]] * 4, rel=1e-3)


def test_sharpness_is_found_among_many_close_eigenvalues() -> None:
    sizes = torch.linspace(1.0, 2.0, 200, dtype=torch.float64)  # the Hessian is diagonal: the square of these, over 200
    net = nn.Linear(200, 1, bias=False, dtype=torch.float64)
    loss = lambda outputs, _: outputs.square().sum() / 2  # noqa: E731
    found = rs.sharpness(net, torch.diag(sizes), torch.zeros(200), loss=loss, batch_size=200, tolerance=1e-6)
    assert found.value == pytest.approx(4.0, rel=1e-6)
    assert found.residual < 1e-5
    assert 40 < found.products < 400  # several restarts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sharpness_does_not_stop_at_the_bulk_of_the_spectrum(dtype: torch.dtype) -> None:
    """The start has a share of 0.003 in the largest eigenvalue, so that its residual is small from the beginning."""

    class Quadratic(nn.Module):
        def __init__(self, sizes: Tensor) -> None:
            super().__init__()
            self.sizes, self.weights = nn.Buffer(sizes), nn.Parameter(torch.zeros_like(sizes))

        def forward(self, x: Tensor) -> Tensor:
            return (self.sizes * self.weights**2).sum() / 2 * x

    many = 100_000
    bulk = torch.full((many,), 0.9, dtype=dtype)
    spread = 0.9 - 1e-3 * torch.rand(many, generator=torch.Generator().manual_seed(0), dtype=dtype)
    for sizes in (bulk, spread, -spread):
        sizes[many // 3] = 1.0
        for seed in range(3):
            found = rs.sharpness(
                Quadratic(sizes), torch.ones(1, 1), torch.zeros(1), loss=lambda out, _: out.mean(), seed=seed
            )
            assert found.value == pytest.approx(1.0, rel=1e-3)
            assert found.residual < 2e-3


def test_a_flat_loss_has_no_sharpness() -> None:
    found = rs.sharpness(mlp([3, 4, 3]), X, Y, loss=lambda outputs, _: 0 * outputs.sum())
    assert (found.value, found.residual) == (0.0, 0.0)


def test_sharpness_draws_a_subset_and_leaves_no_trace() -> None:
    net = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
    net[0].bias.requires_grad_(False)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    state = copy.deepcopy(net.state_dict())
    random = torch.get_rng_state()
    one, two, other = (rs.sharpness(net, X, Y, samples=20, seed=seed) for seed in (0, 0, 1))
    assert one.value == two.value != other.value
    assert one.n == 20
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    assert net[4].weight.grad is None
    assert net.training
    assert net[3].training


def without_statistics() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, track_running_stats=False))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rs.error_rate(mlp([3, 3]), X, Y.double()), r"got float64 of shape \(40,\)\. Pass labels\.long\(\)"),
        (lambda: rs.error_rate(mlp([3, 3]), X, torch.eye(3)[Y]), r"Pass labels\.argmax\(1\), if they are one-hot"),
        (lambda: rs.error_rate(mlp([3, 3]), X, ["cat"] * 40), "got strings such as 'cat'. If they are labels, number"),
        (lambda: rs.error_rate(mlp([3, 3]), X, Y[:3]), "one label for each of 40"),
        (lambda: rs.error_rate(mlp([3, 3]), X[:0], Y[:0]), "at least one input, got 0"),
        (lambda: rs.error_rate(lambda x: x * math.nan, X, Y), "NaN for 40 of 40"),
        (lambda: rs.output_margin(nn.Flatten(0), X, Y), "shape"),
        (lambda: rs.output_margin(nn.Identity(), X * math.nan, Y), "NaN"),
        (lambda: rs.output_margin(nn.Identity(), X, Y + 2), "3 classes"),
        (lambda: rs.distance_from(mlp([3, 3]), mlp([3, 4])), "linear1.weight"),
        (lambda: rs.distance_from(mlp([3, 3]), {}), "missing"),
        (lambda: rs.parameter_norms(mlp([3, 3]), which="biases"), "which"),
        (lambda: rs.sharpness(nn.Flatten(), X, Y), "a model with trainable parameters, got none, so there is"),
        (lambda: rs.sharpness(mlp([3, 4, 3]), X * math.nan, Y), "finite"),
        (lambda: rs.sharpness(mlp([3, 4, 3]), X, Y[:2]), "40 inputs, got 2 labels"),
        (lambda: rs.sharpness(mlp([3, 4, 3]), X[:0], Y[:0]), "at least one input, got 0"),
        (lambda: rs.sharpness(mlp([3, 4, 3]), X, Y, samples=0), "samples"),
        (lambda: rs.sharpness(mlp([3, 4, 3]), X, Y, max_products=0), "max_products to be a whole .*got 0"),
        (lambda: rs.sharpness(mlp([3, 4, 3]), X, Y, batch_size=0), "batch_size .*, got 0"),
        (lambda: rs.output_margin(mlp([3, 3]), X, Y, batch_size=0), "batch_size .*, got 0"),
        (lambda: rs.sharpness(without_statistics(), X, Y), "running statistics"),
        (lambda: rs.output_margin(without_statistics(), X, Y), "running statistics"),
    ],
)
def test_bad_input_is_one_sentence(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_points_off_the_slice_are_refused() -> None:
    dec = rs.decision_regions(band(), rs.Segment([-1.0, 0.0], [1.0, 0.0]))
    with pytest.raises(InputError, match="does not lie"):
        rs.slice_margin(dec, torch.tensor([0.0, 0.1]))
    with pytest.raises(InputError, match="does not lie"):
        rs.slice_margin(dec, torch.tensor([1.1, 0.0]))
    with pytest.raises(InputError, match="shape"):
        rs.slice_margin(dec, np.zeros(3))


def test_an_eigenvalue_that_does_not_settle_is_an_error() -> None:
    with pytest.raises(LimitReached, match="The largest eigenvalue needs more than max_products = 1 Hess"):
        rs.sharpness(mlp([3, 40, 40, 3]), X, Y, tolerance=1e-15, max_products=1)


def test_no_more_products_are_made_than_allowed() -> None:
    made: list[int] = []

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        made.append(len(outputs))
        return functional.cross_entropy(outputs, targets)

    net = mlp([3, 8, 3], seed=2).double()
    needed = rs.sharpness(net, X, Y, loss=loss, tolerance=1e-8).products
    assert needed == len(made)
    assert rs.sharpness(net, X, Y, tolerance=1e-8, max_products=needed).products == needed
    for most in (1, 5, 20, needed - 1):
        made.clear()
        with pytest.raises(LimitReached, match=f"more than max_products = {most} "):
            rs.sharpness(net, X, Y, loss=loss, tolerance=1e-8, max_products=most)
        assert len(made) == most


def test_frozen_parameters_count_as_well() -> None:
    net, start = nn.Linear(2, 3), nn.Linear(2, 3)
    wanted = rs.parameter_norms(net), rs.distance_from(net, start)
    net.requires_grad_(False)
    assert (rs.parameter_norms(net), rs.distance_from(net, start)) == wanted


@pytest.mark.parametrize(
    "wrap",
    [torch.compile, nn.DataParallel, lambda net: torch.compile(nn.DataParallel(net))],
    ids=["compile", "parallel", "both"],
)
def test_wrappers_of_torch_do_not_count(wrap: Callable[[nn.Module], nn.Module]) -> None:
    net, start = mlp([3, 4, 3], seed=0), mlp([3, 4, 3], seed=1)
    wanted = rs.distance_from(net, start)
    assert wanted > 0
    for model in (net, wrap(net)):
        for initial in (start, start.state_dict(), wrap(start), wrap(start).state_dict()):
            assert rs.distance_from(model, initial) == wanted
    assert rs.parameter_norms(wrap(net)) == rs.parameter_norms(net)
    with pytest.raises(InputError, match=r"'linear1\.weight', of shape \(4, 3\), is missing there"):
        rs.distance_from(net, {f"other.{name}": value for name, value in wrap(start).state_dict().items()})


def test_a_gap_takes_pairs() -> None:
    with pytest.raises(InputError, match="Expected labels, got inputs alone"):
        rs.generalisation_gap(nn.Linear(6, 2), torch.randn(3, 6), torch.tensor([0, 1, 1]))


def test_sharpness_says_what_does_not_fit() -> None:
    net, inputs = nn.Linear(3, 2), torch.randn(4, 3)
    with pytest.raises(InputError, match=r"failed on inputs of shape \(4, 5\)"):
        rs.sharpness(net, torch.randn(4, 5), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(InputError, match=r"loss failed on outputs of shape \(4, 2\) and labels"):
        rs.sharpness(net, inputs, torch.full((4,), 0.5))


def test_a_gap_prints_itself() -> None:
    found = Gap(rs.Estimate(0.25, 0.03, 100), rs.Estimate(0.5, 0.04, 100))
    assert str(found) == "0.25 ± 0.05 (train error 0.25 ± 0.03 (n = 100), test error 0.5 ± 0.04 (n = 100))"


@pytest.mark.slow
def test_sharpness_of_attention() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = nn.Sequential(nn.Unflatten(1, (3, 4)), layer, nn.Flatten(), nn.Linear(12, 2)).double()
    x, y = torch.randn(8, 12).double(), torch.arange(8) % 2
    weights = dict(model.eval().named_parameters())

    def loss(*values: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            outputs = functional_call(model, dict(zip(weights, values, strict=True)), (x,))
        return functional.cross_entropy(outputs, y)

    blocks = torch.autograd.functional.hessian(loss, tuple(weights.values()))
    sizes = [value.numel() for value in weights.values()]
    rows = [
        torch.cat([block.reshape(n, m) for block, m in zip(row, sizes, strict=True)], 1)
        for row, n in zip(blocks, sizes, strict=True)
    ]
    expected = float(torch.linalg.eigvalsh(torch.cat(rows)).max())
    assert rs.sharpness(model, x, y, tolerance=1e-6).value == pytest.approx(expected, rel=1e-4)


def test_sharpness_of_a_model_that_returns_several_values() -> None:
    class Two(nn.Linear):
        def forward(self, input: Tensor) -> Any:
            return super().forward(input), input

    with pytest.raises(InputError, match="loss failed on outputs of tuple"):
        rs.sharpness(Two(4, 2), torch.randn(5, 4), torch.zeros(5, dtype=torch.int64))


def test_weights_without_numbers_are_named_and_infinite_ones_have_no_spectral_norm() -> None:
    sparse, empty = nn.Linear(2, 2), nn.Linear(2, 2, device="meta")
    sparse.weight = nn.Parameter(sparse.weight.detach().to_sparse())
    for model, words in (
        (sparse, "Call to_dense"),
        (empty, "without values"),
        (nn.Linear(2, 2, dtype=torch.complex64), "complex"),
    ):
        for measure in (rs.parameter_norms, lambda each: rs.distance_from(each, nn.Linear(2, 2))):
            with pytest.raises(InputError, match=f"parameter 'weight' .*{words}"):
                measure(model)
    for value in (math.inf, math.nan):
        model = nn.Linear(2, 2)
        nn.init.constant_(model.weight, value)
        assert math.isnan(rs.parameter_norms(model).spectral["weight"])


class _TokenClassifier(nn.Module):
    """Classes of token ids (n, t), which bfloat16 does not hold: above 256, it rounds to other tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.out = nn.Embedding(3000, 8), nn.Linear(8, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.tokens(ids.long()).mean(1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_token_ids_are_not_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, ids = _TokenClassifier().to(dtype).eval(), torch.randint(1000, 2000, (50, 6))
    logits = model(ids).detach().double()
    labels = logits.argmax(1)
    assert rs.error_rate(model, ids, labels).value == 0
    assert rs.generalisation_gap(model, (ids, labels), TensorDataset(ids, labels)).value == 0
    top = logits.topk(2, dim=1).values
    assert rs.output_margin(model, ids, labels).value == pytest.approx(float((top[:, 0] - top[:, 1]).mean()))
    sharp = [rs.sharpness(model, given, labels, dtype=torch.float64).value for given in (ids, ids.double())]
    assert sharp[0] == pytest.approx(sharp[1])


def test_whole_numbers_that_half_precision_does_not_hold_are_refused() -> None:
    model, table = nn.Linear(3, 2).bfloat16(), torch.tensor([[1, 2, 256], [3, 4, 5]])
    labels = torch.tensor([0, 1])
    assert rs.error_rate(model, table, labels).n == 2
    for measure in (rs.error_rate, rs.output_margin, rs.sharpness):
        with pytest.raises(InputError, match=r"whole numbers up to 256, which torch\.bfloat16 holds, got 257"):
            measure(model, table + (table == 256), labels)


def test_an_embedding_of_positions_takes_no_tokens() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions, self.features, self.out = nn.Embedding(6, 4), nn.Linear(6, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(torch.relu(self.features(x) + self.positions(torch.arange(6)).mean(0)))

    torch.manual_seed(0)
    model, table = Positions(), torch.randint(0, 9, (30, 6))
    labels = model(table.float()).argmax(1)
    assert rs.error_rate(model, table, labels).value == 0
    for measure in (rs.output_margin, rs.sharpness):
        assert measure(model, table, labels).value == measure(model, table.float(), labels).value


@pytest.mark.parametrize("dim", [0, None])
def test_the_sharpness_of_weight_normalised_networks(dim: int | None) -> None:
    """Torch's own second derivative of weight normalisation is not symmetric."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 5).double(), torch.randint(0, 3, (30,))
    normed = weight_norm(nn.Linear(5, 6), dim=dim)
    model = nn.Sequential(normed, nn.GELU(), nn.Linear(6, 3)).double().eval()
    found = rs.sharpness(model, x, y, tolerance=1e-6)
    weights = dict(model.named_parameters())
    sizes = [value.numel() for value in weights.values()]

    def slope(flat: torch.Tensor) -> torch.Tensor:
        flat = flat.requires_grad_(True)
        own = {n: p.reshape(weights[n].shape) for n, p in zip(weights, flat.split(sizes), strict=True)}
        loss = nn.functional.cross_entropy(torch.func.functional_call(model, own, (x,)), y)
        return torch.autograd.grad(loss, flat)[0]

    flat = torch.cat([value.detach().reshape(-1) for value in weights.values()])
    steps = 1e-5 * torch.eye(len(flat), dtype=torch.float64)
    hessian = torch.stack([(slope(flat + step) - slope(flat - step)) / 2e-5 for step in steps])
    assert found.value == pytest.approx(float(torch.linalg.eigvalsh((hessian + hessian.T) / 2)[-1]), rel=1e-5)


def test_a_hessian_that_is_not_symmetric_is_refused() -> None:
    class Wrong(torch.autograd.Function):
        """x^3, whose second derivative is that of another function for half of the entries."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return slope * 3 * x.detach() * x.roll(1)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(-1, 2, 40, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ Wrong.apply(self.weight)[:, None]

    x, y = torch.rand(20, 40, dtype=torch.float64), torch.arange(20) % 2
    with pytest.raises(rs.CheckFailed, match="not symmetric"):
        rs.sharpness(Model(), x, y)
