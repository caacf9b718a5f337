"""Sharpness: the largest eigenvalue of the Hessian of the loss, from Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from regionscope.checks import whole
from regionscope.errors import InputError, LimitReached
from regionscope.geometry.points import read_array
from regionscope.network import home, untouched
from regionscope.network.call.forward import call_model
from regionscope.sampled.labels import refuse_batch_statistics

__all__ = ["Loss", "Sharpness", "sharpness"]

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Sharpness:
    """The largest eigenvalue of the Hessian on n examples.

    residual: |H v - value v| for the unit eigenvector v that was found; an eigenvalue lies within it. products: how
    many Hessian-vector products it took. n: examples that the loss was averaged over.
    """

    value: float
    residual: float
    products: int
    n: int


def sharpness(
    model: nn.Module, inputs: Tensor | NDArray[Any], targets: Tensor | NDArray[Any], *, loss: Loss | None = None,
    samples: int | None = 1000, batch_size: int = 256, dtype: torch.dtype | None = None, tolerance: float = 1e-3,
    max_products: int = 1000, seed: int = 0,
) -> Sharpness:  # fmt: skip
    """lambda_max of the Hessian, in the trainable parameters, of the mean loss over (a sample of) the data.

    Lanczos (SciPy's eigsh) on Hessian-vector products; the model is in eval mode, and its gradients stay untouched.

    loss: (outputs, targets) -> mean over the batch; by default cross-entropy, or binary cross-entropy for a single
    logit.
    samples: how many examples, drawn without replacement by ``seed``; None takes all.
    dtype: of the computation; the model's own by default. tolerance: relative, of the eigenvalue.
    max_products: more Hessian-vector products than this are not made; ``LimitReached`` says so.
    Cost: about 20 to 100 products, each about four forward passes over the sample; memory of one batch's graph.
    """
    refuse_batch_statistics(model)
    whole("max_products", max_products)
    whole("batch_size", batch_size)
    with untouched(model):
        data = _sample(inputs, targets, samples, seed)
        hessian = _Hessian(model, data, loss or _default_loss, batch_size, dtype, max_products)
        if hessian.size == 0:
            raise InputError("The model has no trainable parameters, so there is no Hessian.")
        if hessian.size <= 2:  # Lanczos needs more room than that
            columns = np.stack([hessian(unit) for unit in np.eye(hessian.size)])
            values, vectors = np.linalg.eigh((columns + columns.T) / 2)
        elif not hessian(start := np.random.default_rng(seed).standard_normal(hessian.size)).any():
            values, vectors = np.zeros(1), start[:, None]  # the loss is flat, and Lanczos has nothing to start from
        else:
            operator = LinearOperator((hessian.size, hessian.size), matvec=hessian, dtype=np.float64)
            # Its own limit counts restarts, of a product or more each: that of the Hessian comes first.
            values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=tolerance, maxiter=max_products)
        value, vector = float(values[-1]), vectors[:, -1]
        residual = float(np.linalg.norm(hessian(vector) - value * vector))
    return Sharpness(value, residual, hessian.products, hessian.n)


class _Hessian:
    """v -> H v, for the Hessian of the mean loss over the data, a batch at a time; at most ``max_products`` times."""

    def __init__(
        self, model: nn.Module, data: tuple[Tensor, Tensor], loss: Loss, batch_size: int, dtype: torch.dtype | None,
        max_products: int,
    ) -> None:  # fmt: skip
        self._model, self._loss, self._batch_size, self._max_products = model, loss, batch_size, max_products
        self._device, own = home(model)
        self._dtype = dtype or own
        self._inputs, self._targets = map(_differentiable, data)
        self._state = {
            name: _differentiable(value.to(self._dtype) if value.is_floating_point() else value)
            for name, value in (*model.named_parameters(), *model.named_buffers())
        }
        trained = [name for name, value in model.named_parameters() if value.requires_grad]
        self._weights = {name: self._state[name].clone().requires_grad_(True) for name in trained}
        self.size = sum(value.numel() for value in self._weights.values())
        self.n = len(self._inputs)
        self.products = 0

    def __call__(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.products == self._max_products:
            raise LimitReached(
                f"The largest eigenvalue takes more than max_products = {self._max_products} Hessian-vector products; "
                "raise max_products or tolerance."
            )
        self.products += 1
        flat = torch.from_numpy(np.ascontiguousarray(vector).reshape(-1)).to(self._device, self._dtype)
        pieces = [
            piece.reshape(value.shape)
            for piece, value in zip(
                flat.split([value.numel() for value in self._weights.values()]), self._weights.values(), strict=True
            )
        ]
        total = torch.zeros(self.size, dtype=torch.float64, device=self._device)
        for inputs, targets in zip(
            self._inputs.split(self._batch_size), self._targets.split(self._batch_size), strict=True
        ):
            total += self._product(inputs, targets, pieces) * (len(inputs) / self.n)
        return np.asarray(total.cpu().numpy())

    def _lost(self, outputs: Any, targets: Tensor) -> Tensor:
        try:
            return self._loss(outputs, targets)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            came = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
            reason = (str(error).strip().splitlines() or [""])[0].rstrip(".")
            raise InputError(
                f"The loss failed on outputs of {came} and targets of shape {tuple(targets.shape)}: {reason}."
            ) from error

    def _product(self, inputs: Tensor, targets: Tensor, pieces: list[Tensor]) -> Tensor:
        weights = list(self._weights.values())
        # The fused kernels of attention have no second derivative.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            moved = inputs.to(self._device, self._dtype)
            state = {**self._state, **self._weights}
            outputs = call_model(lambda x: functional_call(self._model, state, (x,)), moved)
            value = self._lost(outputs, targets.to(self._device))
            if value.ndim or not bool(torch.isfinite(value)):
                raise InputError(f"The loss came as {value.detach().tolist()}; one finite number is needed.")
            slopes = torch.autograd.grad(value, weights, create_graph=True, allow_unused=True)
            along = [(slope * piece).sum() for slope, piece in zip(slopes, pieces, strict=True) if slope is not None]
            inner = torch.stack(along).sum() if along else value * 0.0
            if not inner.requires_grad:
                return torch.zeros(self.size, dtype=torch.float64, device=self._device)
            second = torch.autograd.grad(inner, weights, allow_unused=True)
        parts = [
            torch.zeros_like(weight) if part is None else part for part, weight in zip(second, weights, strict=True)
        ]
        return torch.cat([part.detach().reshape(-1).double() for part in parts])


def _differentiable(tensor: Tensor) -> Tensor:
    """Without its history, and a copy where it was made in inference mode: autograd keeps no such tensors."""
    return tensor.clone() if tensor.is_inference() else tensor.detach()


def _default_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs.reshape(-1), targets.reshape(-1).to(outputs.dtype))
    return functional.cross_entropy(outputs, targets)


def _sample(
    inputs: Tensor | NDArray[Any], targets: Tensor | NDArray[Any], samples: int | None, seed: int
) -> tuple[Tensor, Tensor]:
    rows, wanted = read_array(inputs).detach(), read_array(targets).detach()
    if len(rows) == 0:
        raise InputError("There is no data: inputs is empty.")
    if len(wanted) != len(rows):
        raise InputError(f"{len(rows)} inputs and {len(wanted)} targets came; one target for each input is needed.")
    if samples is not None and samples < 1:
        raise InputError(f"samples is {samples}; it must be at least 1, or None for all.")
    if samples is None or samples >= len(rows):
        return rows, wanted
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed), device="cpu")[:samples]
    return rows[chosen.to(rows.device)], wanted[chosen.to(wanted.device)]
