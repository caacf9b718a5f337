"""The setting of section 6 of Li et al. 2025: f_W(x) = sum_i a_i relu(w_i . x), quadratic loss, gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from regionscope.checks import check_instance, check_positive, read_generator, read_integer, read_number, read_seed
from regionscope.errors import InputError
from regionscope.exact import decision_regions
from regionscope.geometry import Segment


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """f_W(x) = sum_i a_i relu(w_i . x). weights: (p, d) float64. signs: (p,) of +-1, fixed during training."""

    weights: Tensor
    signs: Tensor

    def __post_init__(self) -> None:
        for name in ("weights", "signs"):
            value = check_instance(name, getattr(self, name), Tensor, advice="Pass a tensor of float64")
            if value.dtype != torch.float64:
                raise InputError(f"Expected {name} of float64, got {value.dtype}. Convert them with double().")
        if (
            self.weights.ndim != 2
            or self.signs.shape != self.weights.shape[:1]
            or not bool((self.signs.abs() == 1).all())
        ):
            raise InputError(
                f"Expected weights (p, d) and p signs of +1 or -1, got shapes {tuple(self.weights.shape)} and "
                f"{tuple(self.signs.shape)}. Draw them with initial_two_layer(width, d)."
            )

    def __repr__(self) -> str:
        p, d = self.weights.shape
        return f"TwoLayer(inputs={d}, width={p}, positive={int((self.signs > 0).sum())})"

    def __call__(self, x: Tensor) -> Tensor:
        """f_W (N,) at x (N, d)."""
        return torch.relu(x @ self.weights.T) @ self.signs

    def module(self) -> nn.Sequential:
        """The same function as an ``nn.Module``."""
        p, d = self.weights.shape
        hidden, output = (
            nn.Linear(d, p, bias=False, dtype=torch.float64),
            nn.Linear(p, 1, bias=False, dtype=torch.float64),
        )
        with torch.no_grad():
            hidden.weight.copy_(self.weights)
            output.weight.copy_(self.signs[None])
        return nn.Sequential(hidden, nn.ReLU(), output)


def initial_two_layer(width: int, d: int, *, scale: float = 1.0, seed: int = 0) -> TwoLayer:
    """Independent w_i ~ N(0, scale^2 / d) and uniform signs a_i."""
    read_integer("width", width)
    read_integer("d", d)
    read_number("scale", scale)
    generator = read_generator(None, seed)
    weights = torch.randn((width, d), generator=generator, dtype=torch.float64, device="cpu") * scale / d**0.5
    signs = torch.randint(0, 2, (width,), generator=generator, device="cpu").to(torch.float64) * 2 - 1
    return TwoLayer(weights, signs)


def check_data(network: TwoLayer, x: Tensor, *labels: Tensor) -> None:
    """Refuse points x that are not a tensor (N, d) for this network, and labels that are not a tensor (N,)."""
    check_instance("network", network, TwoLayer, advice="Draw one with initial_two_layer(width, d)")
    for value in (x, *labels):
        check_instance("x and y", value, Tensor, advice="Pass tensors of float64")
    d = network.weights.shape[1]
    if x.ndim != 2 or x.shape[1] != d or any(y.shape != x.shape[:1] for y in labels):
        shapes = " and ".join(str(tuple(value.shape)) for value in (x, *labels))
        raise InputError(f"Expected x of shape (N, {d}) and y of shape (N,), got {shapes}. Pass a row for each point.")
    for value in (x, *labels):
        if value.dtype != torch.float64:
            raise InputError(f"Expected x and y of float64, got {value.dtype}. Convert them with double().")


def loss_and_gradient(network: TwoLayer, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """L(W) = mean of (y_i - f_W(x_i))^2 / 2 and its gradient (p, d)."""
    z = x @ network.weights.T
    rest = torch.relu(z) @ network.signs - y
    pull = rest[:, None] * (z > 0) * network.signs
    return float(rest.square().mean()) / 2, pull.T @ x / len(x)


def descend(network: TwoLayer, x: Tensor, y: Tensor, *, rate: float, steps: int) -> Iterator[TwoLayer]:
    """W_0, W_1, ..., W_steps of full-batch gradient descent with learning rate ``rate``. Stops early if W overflows."""
    check_data(network, x, y)
    check_positive(rate=rate)
    read_integer("steps", steps, least=0)
    yield network
    for _ in range(steps):
        _, slope = loss_and_gradient(network, x, y)
        weights = network.weights - rate * slope
        if not bool(torch.isfinite(weights).all()):
            return
        network = replace(network, weights=weights)
        yield network


def active_units(network: TwoLayer, x: Tensor) -> Tensor:
    """N(x, W) (N,): the number of i with w_i . x > 0."""
    return (x @ network.weights.T > 0).sum(1)


def region_counts(network: TwoLayer, x: Tensor, pairs: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Exact decision regions R(x_a, x_b, W) on segments between training points: pairs (m, 2) and counts (m,).

    pairs: by default all a < b. A pair of one point with itself has one region. Cost: one walk of all segments
    together.
    """
    if pairs is None:
        pairs = torch.combinations(torch.arange(len(x), device="cpu"), 2)
    counts = torch.ones(len(pairs), dtype=torch.long, device="cpu")
    apart = (pairs[:, 0] != pairs[:, 1]).nonzero()[:, 0]
    if len(apart):
        segments = [Segment(x[a], x[b]) for a, b in pairs[apart].tolist()]
        decisions = decision_regions(network.module(), segments)
        counts[apart] = torch.tensor([dec.count for dec in decisions], device="cpu")
    return pairs, counts


def sharpness(network: TwoLayer, x: Tensor, *, tolerance: float = 1e-10, seed: int = 0) -> float:
    """lambda_max of the Hessian of L, by Lanczos on products with it.

    With the second layer fixed and no point on a fold the Hessian is (1/N) sum_i g_i g_i^T, g_i = grad f_W(x_i), so a
    product costs two passes over the data. SciPy's eigsh (ARPACK).
    """
    check_data(network, x)
    check_positive(tolerance=tolerance)
    p, d = network.weights.shape
    mask = (x @ network.weights.T > 0) * network.signs
    if p * d == 1 or not bool(mask.any()):  # ARPACK wants two dimensions and an operator that is not zero
        return dense_sharpness(network, x)

    def multiply(flat: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
        direction = torch.from_numpy(np.ascontiguousarray(flat).reshape(p, d))
        along = ((x @ direction.T) * mask).sum(1)
        return ((mask * along[:, None]).T @ x / len(x)).flatten().numpy()

    start = np.random.default_rng(read_seed(seed)).normal(size=p * d)
    operator = LinearOperator((p * d, p * d), matvec=multiply, dtype=np.float64)
    return float(eigsh(operator, k=1, which="LA", v0=start, tol=tolerance, return_eigenvectors=False)[0])


def dense_sharpness(network: TwoLayer, x: Tensor, y: Tensor | None = None) -> float:
    """lambda_max from the dense Hessian of L by automatic differentiation: the slow twin of ``sharpness``.

    Cost: a (p d, p d) matrix and its eigenvalues.
    """
    target = torch.zeros(len(x), dtype=torch.float64, device="cpu") if y is None else y

    def value(weights: Tensor) -> Tensor:
        outputs: Tensor = torch.relu(x @ weights.T) @ network.signs
        return (target - outputs).square().mean() / 2

    hessian: Tensor = torch.autograd.functional.hessian(value, network.weights)
    size = network.weights.numel()
    return float(torch.linalg.eigvalsh(hessian.reshape(size, size))[-1])
