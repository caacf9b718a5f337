"""Sharpness: the largest eigenvalue of the Hessian of the loss, from Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from regionscope.checks import check_labels, read_generator, read_integer, read_seed
from regionscope.errors import CheckFailed, InputError, LimitReached
from regionscope.formatting import described
from regionscope.inputs import Examples, Inputs, Labels
from regionscope.measures.gap import some_examples
from regionscope.network import device_and_dtype, untouched
from regionscope.network.call.forward import call_model
from regionscope.network.call.precision import ProcessWide
from regionscope.network.estimator import as_module
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.token_ids import input_dtype, to_model
from regionscope.sampled.labels import refuse_batch_statistics
from regionscope.types import Reading

Loss = Callable[[Tensor, Tensor], Tensor]

_IGNORED = -100  # a label that cross-entropy leaves out
_ROOM, _KEPT = 20, 8  # vectors of the basis, and those of them that a restart keeps
_FEWEST = 12  # products before an eigenvalue is taken for the largest
_ROUNDING = 1e4  # of the spacing of numbers at the largest eigenvalue: what may be left of a residual
_ENDED = 2.0**-44  # of the largest eigenvalue: a smaller rest is rounding, and the basis holds all that can be found


@dataclass(frozen=True)
class Sharpness:
    """The largest eigenvalue of the Hessian on n examples.

    residual: |H v - value v| for the computed unit eigenvector v; an eigenvalue lies within this distance of ``value``.
    That it is the largest is not proved; see ``sharpness``.
    products: number of Hessian-vector products. n: number of examples in the loss.
    """

    value: float
    residual: float
    products: int
    n: int

    def readings(self) -> tuple[Reading, ...]:
        """The eigenvalue."""
        return (("", self.value, None),)


def sharpness(
    model: nn.Module, inputs: Inputs, labels: Labels | None = None, *, loss: Loss | None = None,
    samples: int | None = 1000, batch_size: int = 256, dtype: torch.dtype | None = None, tolerance: float = 1e-3,
    max_products: int = 1000, seed: int = 0, output: Output | None = None, args: Arguments = (),
) -> Sharpness:  # fmt: skip
    """lambda_max of the Hessian, in the trainable parameters, of the mean loss over (a sample of) the data.

    Lanczos iteration with restarts on Hessian-vector products, on the model's device. The model runs in eval mode, and
    its gradients do not change.

    The iteration ends when the residual |H v - value v| is at most ``tolerance`` times |value|, after 12 products or
    more (fewer if the Hessian has fewer different eigenvalues). The residual proves that some eigenvalue is near
    ``value``, and ``value`` is never above the largest, up to rounding; no number of products proves that no larger one
    exists. A large eigenvalue is missed if the random start has almost no share of its vector and all others are close
    together. For a random start, p parameters and a spectrum from l to L, the chance that ``value`` is below
    L - e (L - l) after k products without a restart (12 <= k <= 20) is at most 1.648 sqrt(p) exp(-(2 k - 1) sqrt(e))
    (Kuczynski and Wozniakowski 1992): 2% for k = 12, e = 0.2 and p = 100,000. A smaller ``tolerance`` makes more
    products, and another ``seed`` starts elsewhere.

    inputs: a tensor, an array, a Dataset or a DataLoader; only the sample is loaded.
    labels: one for each input, as ``loss`` expects them; None takes those of a Dataset or DataLoader of (input, label)
    pairs.
    loss: (outputs, labels) -> mean over the rows of a batch, each with the same weight; by default cross-entropy, or
    binary cross-entropy for a single logit. Cross-entropy is the mean over all labels other than -100, whatever the
    batches are. A loss of your own that has other weights (ignored labels, class weights, a sum, terms between rows)
    depends on the batches: it needs ``batch_size`` >= the number of examples. Otherwise it is refused, if the outputs
    are a tensor with one row for each example.
    samples: number of examples, drawn without replacement by ``seed``; None takes all.
    dtype: dtype of the computation; the model's own by default. tolerance: relative tolerance of the eigenvalue.
    max_products: largest number of Hessian-vector products; beyond it, ``LimitReached`` is raised.
    output, args: the part of the model's output that the loss takes, and its further arguments; see ``select_output``.
    Cost: about 13 to 100 products, each about four forward passes over the sample; memory of one batch's graph and of
    20 float64 copies of the parameters.
    """
    model = select_output(as_module(model, counted=True), output, args)
    refuse_batch_statistics(model)
    read_integer("max_products", max_products)
    read_seed(seed)
    read_integer("batch_size", batch_size)
    with untouched(model) as private:
        data = _sample(some_examples(inputs, labels), samples, seed)
        hessian = _Hessian(private, data, loss or _default_loss, batch_size, dtype, max_products)
        if hessian.size == 0:
            raise InputError(
                "Expected a model with trainable parameters, got none, so there is no Hessian. "
                "Set requires_grad of its parameters."
            )
        value, vector, largest = _largest(hessian, tolerance, seed)
        residual = float((hessian(vector) - value * vector).norm())
    if not residual <= 2 * tolerance * abs(value) + _ROUNDING * hessian.eps * largest:
        raise CheckFailed(
            f"Expected a residual of at most {tolerance:g} of the eigenvalue {value:.6g}, got {residual:.3g}: second "
            "derivatives of this model are not symmetric, or rounding is too large. Pass dtype=torch.float64, and "
            "compare the second derivatives of your own autograd functions with finite differences."
        )
    return Sharpness(value, residual, hessian.products, hessian.n)


_plain_attention = ProcessWide(lambda: sdpa_kernel(SDPBackend.MATH))


class _PlainWeightNorm(TorchFunctionMode):
    """Weight normalisation from basic operations: the second derivative of torch's own function is not symmetric."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not torch._weight_norm:
            return func(*args, **(kwargs or {}))
        direction, size, *dim = args
        return direction * (size / torch.norm_except_dim(direction, 2, *dim))


def _largest(hessian: _Hessian, tolerance: float, seed: int) -> tuple[float, Tensor, float]:
    """The largest eigenvalue that shows, up to |H v - value v| <= tolerance |value|, its unit vector v, and the largest
    absolute eigenvalue that shows.

    Lanczos with thick restarts (Wu and Simon 2000). The rows of ``basis`` are orthonormal, ``inner`` is H among them,
    and H maps their span into itself but for ``rest``. When the basis is full, its best eigenvectors replace it.
    """
    start = torch.randn(hessian.size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")
    basis = start.new_empty((min(_ROOM, hessian.size), hessian.size), device=hessian.device)
    inner = np.zeros((len(basis), len(basis)))
    rest, used = start.to(basis), 0
    while True:
        basis[used] = rest / rest.norm()
        rest, used = hessian(basis[used]), used + 1
        rows = basis[:used]
        along = rows @ rest
        inner[used - 1, :used] = inner[:used, used - 1] = along.cpu().numpy()
        rest -= along @ rows
        rest -= (rows @ rest) @ rows  # the second pass removes what rounding left of the first
        values, vectors = np.linalg.eigh(inner[:used, :used])
        left = float(rest.norm())
        settled = hessian.products >= _FEWEST and left * abs(vectors[-1, -1]) <= tolerance * abs(values[-1])
        if settled or left <= _ENDED * np.abs(values).max() or used == hessian.size:
            vector = basis.new_tensor(vectors[:, -1]) @ rows
            return float(values[-1]), vector / vector.norm(), float(np.abs(values).max())
        if used == _ROOM:
            used = _KEPT
            basis[:used] = basis.new_tensor(vectors[:, -used:].T.copy()) @ rows
            inner[:] = 0.0
            inner[range(used), range(used)] = values[-used:]


class _Hessian:
    """v -> H v, for the Hessian of the mean loss over the data, a batch at a time; at most ``max_products`` times."""

    def __init__(
        self, model: nn.Module, data: tuple[Tensor, Tensor], loss: Loss, batch_size: int, dtype: torch.dtype | None,
        max_products: int,
    ) -> None:  # fmt: skip
        self._model, self._loss, self._max_products = model, loss, max_products
        self.device, model_dtype = device_and_dtype(model)
        self._dtype = dtype or model_dtype
        taken = input_dtype(model, data[0])
        self._input_dtype = self._dtype if taken.is_floating_point else taken
        inputs, labels = map(_differentiable, data)
        self._state = {
            name: _differentiable(value.to(self._dtype) if value.is_floating_point() else value)
            for name, value in (*model.named_parameters(), *model.named_buffers())
        }
        trained = [name for name, value in model.named_parameters() if value.requires_grad]
        self._weights = {name: self._state[name].clone().requires_grad_(True) for name in trained}
        self.eps = torch.finfo(self._dtype).eps
        self.size = sum(value.numel() for value in self._weights.values())
        self.n = len(inputs)
        self.products = 0
        terms = self._terms(labels)
        if terms == 0:
            raise InputError("Expected labels other than -100, got none, so the loss has no terms. Pass other labels.")
        batches = zip(inputs.split(batch_size), labels.split(batch_size), strict=True)
        self._batches = [(rows, labels, self._terms(labels) / terms) for rows, labels in batches]
        self._before: tuple[Tensor, Tensor, Tensor] | None = None  # outputs, labels and loss of the batch before

    def __call__(self, vector: Tensor) -> Tensor:
        if self.products == self._max_products:
            raise LimitReached(
                f"The largest eigenvalue needs more than max_products = {self._max_products} Hessian-vector products. "
                "Raise max_products or tolerance."
            )
        self.products += 1
        weights = self._weights.values()
        flat = vector.to(self._dtype).split([value.numel() for value in weights])
        pieces = [piece.reshape(value.shape) for piece, value in zip(flat, weights, strict=True)]
        total = torch.zeros_like(vector)
        for inputs, labels, share in self._batches:
            total += self._product(inputs, labels, pieces) * share
        self._before = None
        return total

    def _terms(self, labels: Tensor) -> int:
        """Number of terms of which the loss is the mean, or of equally long groups of them."""
        if self._loss is not _default_loss or labels.is_floating_point():
            return len(labels)
        return int((labels != _IGNORED).sum())

    def _loss_value(self, outputs: Any, labels: Tensor) -> Tensor:
        if self._loss is _default_loss and self.products == 1 and isinstance(outputs, Tensor):
            _check_targets(outputs, labels)
        value = self._called(outputs, labels)
        if self._loss is not _default_loss and self.products == 1 and _in_rows(outputs, labels) and value.ndim == 0:
            self._check_mean(outputs.detach(), labels, value.detach())
        return value

    def _check_mean(self, outputs: Tensor, labels: Tensor, value: Tensor) -> None:
        """Compare the loss of two batches in a row with that of both together."""
        if self._before is not None:
            last, last_labels, last_value = self._before
            whole = self._called(torch.cat([last, outputs]), torch.cat([last_labels, labels])).detach()
            parts = (len(last_labels) * last_value + len(labels) * value) / (len(last_labels) + len(labels))
            rounding = torch.finfo(value.dtype).eps ** 0.5 * (last_value.abs() + value.abs())
            if bool((whole - parts).abs() > rounding):
                raise InputError(
                    f"Expected a loss that is the mean over the rows of a batch, got {float(whole):.6g} for two "
                    f"batches whose losses have the mean {float(parts):.6g}. Pass a loss without ignored labels, "
                    f"class weights or sums, or batch_size={self.n}."
                )
        self._before = outputs, labels, value

    def _called(self, outputs: Any, labels: Tensor) -> Tensor:
        try:
            return self._loss(outputs, labels)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InputError(
                f"The loss failed on outputs of {got} and labels of shape {tuple(labels.shape)}: {described(error)} "
                "Pass a loss that accepts them."
            ) from error

    def _product(self, inputs: Tensor, labels: Tensor, pieces: list[Tensor]) -> Tensor:
        weights = list(self._weights.values())
        # The fused kernels of attention have no second derivative.
        with torch.enable_grad(), _plain_attention, _PlainWeightNorm():
            moved = to_model(inputs, self.device, self._input_dtype)  # the model may write into them
            state = {**self._state, **self._weights}
            outputs = call_model(lambda x: functional_call(self._model, state, (x,)), moved)
            value = self._loss_value(outputs, labels.to(self.device))
            if value.ndim or not bool(torch.isfinite(value)):
                raise InputError(
                    f"Expected a loss of one finite number, got {value.detach().tolist()}. "
                    "Take the mean over the batch, and check the weights and inputs for NaN."
                )
            slopes = torch.autograd.grad(value, weights, create_graph=True, allow_unused=True)
            along = [(slope * piece).sum() for slope, piece in zip(slopes, pieces, strict=True) if slope is not None]
            inner = torch.stack(along).sum() if along else value * 0.0
            if not inner.requires_grad:
                return torch.zeros(self.size, dtype=torch.float64, device=self.device)
            second = torch.autograd.grad(inner, weights, allow_unused=True)
        parts = [
            torch.zeros_like(weight) if part is None else part for part, weight in zip(second, weights, strict=True)
        ]
        return torch.cat([part.detach().reshape(-1).double() for part in parts])


def _differentiable(tensor: Tensor) -> Tensor:
    """Without its history, and a copy where it was made in inference mode: autograd keeps no such tensors."""
    return tensor.clone() if tensor.is_inference() else tensor.detach()


def _in_rows(outputs: Any, labels: Tensor) -> bool:
    """Whether the outputs of two batches can be joined like their labels."""
    return isinstance(outputs, Tensor) and outputs.ndim > 0 and len(outputs) == len(labels)


def _check_targets(outputs: Tensor, labels: Tensor) -> None:
    """Whole numbers are classes. Cross-entropy leaves out ``_IGNORED``."""
    if not labels.is_floating_point():
        single = outputs.ndim < 2 or outputs.shape[1] == 1
        check_labels(labels if single else labels[labels != _IGNORED], 2 if single else outputs.shape[1])


def _default_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs.reshape(-1), labels.reshape(-1).to(outputs.dtype))
    if not labels.is_floating_point() and not bool((labels != _IGNORED).any()):
        return 0.0 * outputs.sum()  # the mean of no terms, which has no weight
    return functional.cross_entropy(outputs, labels)


def _sample(examples: Examples, samples: int | None, seed: int) -> tuple[Tensor, Tensor]:
    n = len(examples)
    if samples is None or read_integer("samples", samples) >= n:
        return next(examples.pairs(n))
    return examples.take_pairs(torch.randperm(n, generator=read_generator(None, seed), device="cpu")[:samples])
