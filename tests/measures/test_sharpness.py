"""Sharpness against dense Hessians: batches, losses, limits, and networks that need a correct second derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.parametrizations import weight_norm

import regionscope as rs
from measures.labelled_points import X, Y
from regionscope import measures
from regionscope.errors import InputError, LimitReached
from small_slices import mlp


def flat_loss(net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """All parameters in one vector, and the loss as a function of it."""
    weights = dict(net.named_parameters())
    sizes = [value.numel() for value in weights.values()]

    def loss(flat: Tensor) -> Tensor:
        parts = {n: p.reshape(weights[n].shape) for n, p in zip(weights, flat.split(sizes), strict=True)}
        return functional.cross_entropy(torch.func.functional_call(net, parts, (x,)), y)

    return torch.cat([value.detach().reshape(-1) for value in weights.values()]), loss


def dense_hessian(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    flat, loss = flat_loss(net, x, y)
    return torch.autograd.functional.hessian(loss, flat)


@pytest.mark.slow
def test_sharpness_is_the_largest_eigenvalue_of_the_hessian() -> None:
    net = mlp(3, 6, 3, seed=3).double()
    inputs = X.double()
    wanted = float(torch.linalg.eigvalsh(dense_hessian(net, inputs, Y))[-1])
    for batch in (1, 7, 39, 40, 1000):
        found = measures.sharpness(net, inputs, Y, batch_size=batch, tolerance=1e-8)
        assert found.value == pytest.approx(wanted, rel=1e-6)
        assert found.residual < 1e-5
    assert found.n == 40
    assert measures.sharpness(mlp(3, 6, 3, seed=3), X, Y).value == pytest.approx(wanted, rel=1e-2)
    assert measures.sharpness(mlp(3, 6, 3, seed=3), X, Y, dtype=torch.float64).value == pytest.approx(wanted, rel=1e-3)


def test_sharpness_of_a_quadratic_and_of_a_single_logit() -> None:
    line = nn.Linear(2, 1, bias=False).double()
    points = torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    square = lambda out, target: 0.5 * (out[:, 0] - target).square().mean()  # noqa: E731
    assert measures.sharpness(line, points, torch.zeros(2), loss=square).value == pytest.approx(4.5)
    flat = measures.sharpness(line, points, torch.zeros(2), loss=lambda outputs, _: 0 * outputs.sum())
    assert (flat.value, flat.residual) == (0.0, 0.0)
    with torch.no_grad():
        line.weight.zero_()
    assert measures.sharpness(line, points, torch.tensor([0, 1])).value == pytest.approx(9 / 8)
    wide = nn.Linear(30, 1, bias=False).double()
    row = torch.arange(30.0, dtype=torch.float64)[None]
    assert measures.sharpness(wide, row, torch.zeros(1), loss=square).value == pytest.approx(float(row.square().sum()))


@pytest.mark.parametrize("tokens", [(), (4,)])
def test_ignored_labels_have_no_weight_in_any_batch(tokens: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 3) if not tokens else nn.Conv1d(3, 3, 1)
    net, x = layer.double(), torch.randn(12, 3, *tokens, dtype=torch.float64)
    y = torch.randint(3, (12, *tokens))
    y[2:7] = -100  # whole batches of them, and parts of others
    y[9:, ...] = torch.where(torch.rand(3, *tokens) < 0.5, -100, y[9:])
    wanted = float(torch.linalg.eigvalsh(dense_hessian(net, x, y))[-1])
    for batch in (1, 2, 5, 11, 12, 100):
        assert measures.sharpness(net, x, y, batch_size=batch, tolerance=1e-9).value == pytest.approx(wanted, rel=1e-7)
    with pytest.raises(InputError, match="Expected labels other than -100, got none"):
        measures.sharpness(net, x[2:7], y[2:7])


def test_a_loss_that_depends_on_the_batches_needs_a_single_one() -> None:
    net, ignored = mlp(3, 4, 3, seed=1).double(), torch.where(torch.arange(40) < 9, -100, Y)
    x, weights = X.double(), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    wanted = measures.sharpness(net, x, ignored)
    losses: list[tuple[Any, Tensor]] = [
        (functional.cross_entropy, ignored), (nn.CrossEntropyLoss(weight=weights), Y),
        (nn.CrossEntropyLoss(reduction="sum"), Y), (nn.CrossEntropyLoss(ignore_index=2), Y),
    ]  # fmt: skip
    for loss, labels in losses:
        measures.sharpness(net, x, labels, loss=loss, batch_size=40)
        for batch in (13, 20, 39):
            with pytest.raises(InputError, match=r"the mean over the rows of a batch, got .* batch_size=40\."):
                measures.sharpness(net, x, labels, loss=loss, batch_size=batch)
    assert measures.sharpness(net, x, ignored, loss=functional.cross_entropy).value == pytest.approx(wanted.value)
    for dtype in (torch.float32, torch.float64):
        values = [
            measures.sharpness(net, x, Y, loss=functional.cross_entropy, batch_size=batch, dtype=dtype).value
            for batch in (1, 7, 13, 40)
        ]
        assert values == pytest.approx([values[0]] * 4, rel=1e-3)


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
            found = measures.sharpness(
                Quadratic(sizes), torch.ones(1, 1), torch.zeros(1), loss=lambda out, _: out.mean(), seed=seed
            )
            assert found.value == pytest.approx(1.0, rel=1e-3)
            assert found.residual < 2e-3


def test_sharpness_draws_a_subset() -> None:
    net = mlp(3, 6, 3, seed=3)
    net[0].bias.requires_grad_(False)
    first, again, other = (measures.sharpness(net, X, Y, samples=20, seed=seed) for seed in (0, 0, 1))
    assert first.value == again.value != other.value
    assert first.n == 20


def test_no_more_products_are_made_than_allowed() -> None:
    made: list[int] = []

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        made.append(len(outputs))
        return functional.cross_entropy(outputs, targets)

    net = mlp(3, 8, 3, seed=2).double()
    needed = measures.sharpness(net, X, Y, loss=loss, tolerance=1e-8).products
    assert needed == len(made)
    assert measures.sharpness(net, X, Y, tolerance=1e-8, max_products=needed).products == needed
    for most in (1, 5, 20, needed - 1):
        made.clear()
        with pytest.raises(LimitReached, match=f"more than max_products = {most} "):
            measures.sharpness(net, X, Y, loss=loss, tolerance=1e-8, max_products=most)
        assert len(made) == most


@pytest.mark.slow
def test_sharpness_of_attention() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = nn.Sequential(nn.Unflatten(1, (3, 4)), layer, nn.Flatten(), nn.Linear(12, 2)).double()
    x, y = torch.randn(8, 12).double(), torch.arange(8) % 2
    with sdpa_kernel(SDPBackend.MATH):
        expected = float(torch.linalg.eigvalsh(dense_hessian(model.eval(), x, y))[-1])
    assert measures.sharpness(model, x, y, tolerance=1e-6).value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("dim", [0, None])
def test_the_sharpness_of_weight_normalised_networks(dim: int | None) -> None:
    """Torch's own second derivative of weight normalisation is not symmetric."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 5).double(), torch.randint(0, 3, (30,))
    model = nn.Sequential(weight_norm(nn.Linear(5, 6), dim=dim), nn.GELU(), nn.Linear(6, 3)).double().eval()
    flat, loss = flat_loss(model, x, y)

    def slope(weights: torch.Tensor) -> torch.Tensor:
        weights = weights.requires_grad_(True)
        return torch.autograd.grad(loss(weights), weights)[0]

    steps = 1e-5 * torch.eye(len(flat), dtype=torch.float64)
    hessian = torch.stack([(slope(flat + step) - slope(flat - step)) / 2e-5 for step in steps])
    wanted = float(torch.linalg.eigvalsh((hessian + hessian.T) / 2)[-1])
    assert measures.sharpness(model, x, y, tolerance=1e-6).value == pytest.approx(wanted, rel=1e-5)


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
        measures.sharpness(Model(), x, y)
