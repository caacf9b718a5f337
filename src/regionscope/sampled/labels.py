"""Any classifier as one function from inputs to integer labels: modules, plain functions, scikit-learn estimators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from regionscope.checks import check_memory, check_module, model_advice, read_integer, unreadable
from regionscope.errors import InputError
from regionscope.formatting import counted, with_article
from regionscope.inputs import Examples, Inputs, read_examples
from regionscope.network import device_and_dtype, untouched
from regionscope.network.call.determinism import check_fixed_outputs, two_inputs
from regionscope.network.call.forward import call_model, row_bytes
from regionscope.network.token_ids import input_dtype

INVALID = torch.iinfo(torch.int64).min  # the label of an input whose logits hold NaN

_MOST_ROWS = 8192
_CPU_BYTES = 1 << 26  # larger batches are no faster: they do not fit the caches
_GPU_BYTES = 1 << 32
_DOUBLES_PER_NUMBER = 16  # memory that a function is assumed to take for each number of an input


class Labeller:
    """Labels (n,) int64 of inputs (n, *input_shape), ``rows`` at a time; ``seconds`` is the model's own time.

    dtype, device: those that the inputs must have. model: what is called, in eval mode if it is a module. A row whose
    logits hold NaN gets the label ``INVALID``.
    """

    def __init__(
        self,
        classify: Callable[[Tensor], Tensor],
        *,
        dtype: torch.dtype,
        device: torch.device,
        rows: int,
        model: Any = None,
    ) -> None:
        self._classify = classify
        self.model = model
        self.dtype = dtype
        self.device = device
        self.rows = rows
        self.seconds = 0.0

    def __call__(self, inputs: Tensor) -> Tensor:
        start = time.perf_counter()
        try:
            return self._split(inputs)
        finally:
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # so that the time includes all work of the GPU
            self.seconds += time.perf_counter() - start

    def _split(self, inputs: Tensor) -> Tensor:
        """The labels; where memory runs out, those of each half."""
        if len(inputs) > self.rows:
            return torch.cat([self._split(part) for part in inputs.split(self.rows)])
        try:
            return self._classify(inputs)
        except torch.OutOfMemoryError:
            if len(inputs) < 2:
                raise
        self.rows = max(1, len(inputs) // 2)
        return self._split(inputs)


@contextmanager
def open_labeller(
    model: Any,
    inputs: Inputs | Examples | None,
    input_shape: tuple[int, ...],
    *,
    batch_size: int | None = None,
    memory: int | None = None,
    widened: bool = False,
) -> Iterator[Labeller]:
    """A ``Labeller`` of ``model``: of a private copy in eval mode, if it is a module (see ``untouched``).

    model: an ``nn.Module`` that returns logits (n, c), a single logit (n, 1) or (n,), or labels; an object with
        ``predict`` (called with rows flattened, as NumPy); or a function, called with a tensor, or with a NumPy array
        where ``inputs`` is one, that returns integer labels (n,) or logits (n, c) or (n, 1).
    batch_size, memory: number of rows at a time; by default as many as keep the activations under ``memory`` bytes (64
        MiB on a CPU, 4 GiB on a GPU).
    widened: whether a module in half precision runs in float32, where its weights are the same numbers. Next to a
        boundary, the labels that half precision gives are noise.
    """
    _check_options(batch_size, memory)
    if isinstance(model, nn.Module):
        refuse_batch_statistics(model)
        _refuse_infinite_weights(model)
        device, _ = device_and_dtype(model)
    else:
        examples = None if inputs is None else read_examples(inputs)
        dtype, device = _own_place(model, examples)
    with untouched(model, device=device, widened=widened) as private:
        if isinstance(private, nn.Module):
            dtype = input_dtype(private, inputs)
        rows = batch_size or _rows(private, input_shape, dtype, device, memory)
        if isinstance(private, nn.Module):
            check_fixed_outputs(private, _pair(inputs, input_shape, dtype, device))
            classify = _module(private, dtype, device)
        else:
            classify = _function(private, examples is not None and examples.numpy)
        yield Labeller(classify, dtype=dtype, device=device, rows=rows, model=private)


def refuse_batch_statistics(model: nn.Module) -> None:
    """Batch normalisation that keeps no running statistics is an ``InputError``: an input would have no label alone."""
    check_module(model)
    for part in model.modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise InputError(
                f"Expected a {type(part).__name__} with running statistics, got one whose outputs depend on the batch. "
                "Build it with track_running_stats=True."
            )


def _refuse_infinite_weights(model: nn.Module) -> None:
    """An infinite weight saturates or cancels the units that it reaches: labels come out, but of another network."""
    for name, value in model.named_parameters():
        if not is_lazy(value) and not unreadable(value) and bool(value.detach().isinf().any()):
            raise InputError(f"Expected finite weights, got infinity in parameter '{name}'. Load or train them again.")


def labels_from(outputs: Any, n: int, *, who: str, single_logit_flat: bool = False) -> Tensor:
    """Labels (n,) int64 from what a model returned: integers as they are, logits by their largest entry.

    Ties go to the lowest index. A single logit is labelled 1 where it is positive, else 0. NaN gives ``INVALID``.
    """
    values = outputs if isinstance(outputs, Tensor) else _as_tensor(outputs, who)
    shape = tuple(values.shape)
    if values.ndim not in (1, 2) or shape[0] != n or 0 in shape:
        raise InputError(
            f"Expected {who} to return logits ({n}, c), a single logit ({n}, 1) or integer labels ({n},) for {n} "
            f"inputs, got shape {shape}. "
            "Choose the logits with output=."
        )
    if values.is_complex():
        raise InputError(
            f"Expected {who} to return real logits or integer labels, got complex numbers. "
            "Return their real part or their absolute value."
        )
    if not values.is_floating_point():
        if values.ndim == 2 and shape[1] != 1:
            raise InputError(
                f"Expected {who} to return one integer label for each input, got shape {shape}. "
                "Return labels of shape (n,)."
            )
        return values.reshape(n).to(torch.int64)
    if values.ndim == 1 and not single_logit_flat:
        raise InputError(
            f"Expected {who} to return integer labels ({n},), logits ({n}, c) or a single logit ({n}, 1), got "
            f"{str(values.dtype).removeprefix('torch.')} of shape ({n},). "
            "Return class indices, or add an axis to a single logit."
        )
    rows = values.reshape(n, -1)
    highest, labels = rows.max(1)
    if rows.shape[1] == 1:
        labels = (highest > 0).to(torch.int64)
    return torch.where(highest.isnan(), INVALID, labels)


def _as_tensor(outputs: Any, who: str) -> Tensor:
    if isinstance(outputs, Mapping) or (
        isinstance(outputs, tuple | list) and any(isinstance(item, Tensor) for item in outputs)
    ):
        raise InputError(
            f"Expected {who} to return logits or integer labels, got {with_article(type(outputs).__name__)} of "
            f"{counted(len(outputs), 'value')}. Choose them with output=, {_offered(outputs)}."
        )
    try:
        array = np.asarray(outputs)
    except ValueError as reason:
        raise InputError(
            f"Expected {who} to return one array of numbers, got a {type(outputs).__name__} that cannot be converted. "
            "Choose one output with output=."
        ) from reason
    if array.dtype.kind not in "iubf":
        plain = array.dtype.kind == "O"
        what = f"a value of type {type(outputs).__name__}" if plain else f"an array of {array.dtype}"
        raise InputError(
            f"Expected {who} to return logits or integer labels, got {what}. Choose them with output=, "
            "a name or a function."
        )
    return torch.from_numpy(np.ascontiguousarray(array.astype(np.int64) if array.dtype.kind in "ub" else array))


def _offered(outputs: Any) -> str:
    if isinstance(outputs, Mapping):
        return f"one of {', '.join(map(repr, outputs))}"
    return f"an index from 0 to {len(outputs) - 1}"


def _module(model: nn.Module, dtype: torch.dtype, device: torch.device) -> Callable[[Tensor], Tensor]:
    def outputs(inputs: Tensor) -> Any:
        return call_model(model, inputs)

    def quick_outputs(inputs: Tensor) -> Any:
        with torch.autocast(device.type, dtype=torch.float16):
            outputs = call_model(model, inputs)
        return outputs.to(dtype) if isinstance(outputs, Tensor) and outputs.is_floating_point() else outputs

    screened = device.type == "cuda" and dtype == torch.float32
    called = HalfPrecisionScreen(quick_outputs, outputs) if screened else outputs

    def classify(inputs: Tensor) -> Tensor:
        return labels_from(called(inputs), len(inputs), who="the model", single_logit_flat=True)

    return classify


def _function(model: Any, numpy_inputs: bool) -> Callable[[Tensor], Tensor]:
    if isinstance(model, type):
        raise InputError(f"Expected a model, got the class {model.__name__}. {model_advice(model, '')}")
    predict = getattr(model, "predict", None)
    if callable(predict):
        classes = getattr(model, "classes_", None)

        def estimate(inputs: Tensor) -> Tensor:
            outputs = call_model(predict, inputs.flatten(1).numpy())
            return labels_from(numbered(outputs, classes), len(inputs), who=f"{type(model).__name__}.predict")

        return estimate
    if not callable(model):
        raise InputError(
            f"Expected a torch module, a function or an object with predict, got {type(model).__name__}. "
            + model_advice(model, "Load or build the model first.")
        )

    def classify(inputs: Tensor) -> Tensor:
        outputs = call_model(model, inputs.numpy() if numpy_inputs else inputs)
        return labels_from(outputs, len(inputs), who="the function")

    return classify


def numbered(names: Any, classes: Any) -> Any:
    """Class names become their place in ``classes_``, the sorted names of a scikit-learn estimator; integers stay."""
    array = np.asarray(names)
    if classes is None or array.dtype.kind in "iub" or array.ndim != 1 or not isinstance(classes, np.ndarray):
        return names
    strange = array[~np.isin(array, classes)]
    if len(strange):
        raise InputError(
            f"Expected labels among {', '.join(map(repr, classes.tolist()))}, got {strange[0]!r}. "
            "Return one of the known labels."
        )
    return np.searchsorted(classes, array)


def _own_place(model: Any, examples: Examples | None) -> tuple[torch.dtype, torch.device]:
    """Functions and estimators get the dtype of the inputs, on their device; whole numbers become floating point."""
    cpu = torch.device("cpu")
    if examples is None or len(examples) == 0:
        return torch.get_default_dtype(), cpu
    first = examples.first
    whole_numbers = torch.float64 if examples.numpy else torch.get_default_dtype()
    return (
        first.dtype if first.is_floating_point() else whole_numbers,
        cpu if hasattr(model, "predict") else first.device,
    )


def _pair(
    inputs: Inputs | Examples | None, input_shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Two different inputs (2, *input_shape). Token ids are those of the first sequence, forwards and backwards."""
    if inputs is None or dtype.is_floating_point:
        return two_inputs(input_shape, dtype, device)
    first = read_examples(inputs).first.to(device, dtype)
    return torch.stack([first, first.flip(0)])


def _rows(
    model: Any, input_shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, memory: int | None
) -> int:
    if isinstance(model, nn.Module):
        bytes_per_row = row_bytes(model, input_shape, dtype, device)
    else:
        bytes_per_row = 8 * _DOUBLES_PER_NUMBER * int(np.prod(input_shape))
    budget = min(memory or _CPU_BYTES, _CPU_BYTES) if device.type == "cpu" else memory or _GPU_BYTES
    return int(min(_MOST_ROWS, max(1, budget // max(bytes_per_row, 1))))


def _check_options(batch_size: int | None, memory: int | None) -> None:
    if batch_size is not None:
        read_integer("batch_size", batch_size)
    check_memory(memory)


# Labels in full precision, most of them from a pass in half precision.

_ERROR_FACTOR = 4.0  # times the largest error that was seen
_ROWS_CHECKED = 16  # rows of every batch that are computed both ways

Outputs = Callable[[Tensor], Tensor]


class HalfPrecisionScreen:
    """Logits (n, c) or (n,) of inputs whose labels are meant to be those of ``exact``.

    Rounding of the quick pass rarely turns a label whose lead over the second is large. The first batch is computed
    both ways and shows how large the errors are; later, rows whose lead is within four times the largest error are
    computed again by ``exact``, and so are a few others, in case errors grow. On a line of 200 points that is about one
    point in a hundred. The largest error is an observed one: labels were those of ``exact`` in all cases tested, but
    this is not proven. Always called by ``exact`` are models that return integer labels, which have no lead, and those
    that fail in ``quick``.
    """

    def __init__(self, quick: Outputs, exact: Outputs) -> None:
        self._quick, self._exact = quick, exact
        self._usable = True
        self._error: float | None = None  # the largest difference of a logit that was seen

    def __call__(self, inputs: Tensor) -> Tensor:
        if self._error is None:
            tried = self._usable and len(inputs) >= _ROWS_CHECKED
            outputs = self._exact(inputs.clone() if tried else inputs)  # the model may write into them
            if tried:
                self._try(inputs, outputs)
            return outputs
        outputs = self._quick(inputs.clone()).clone()
        recomputed = torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)
        unsure = self._unsure(outputs)
        unsure[:: max(1, len(outputs) // _ROWS_CHECKED)] = True
        while bool(unsure.any()):
            rows = unsure.nonzero()[:, 0]
            precise = self._exact(inputs[_padded(rows)])[: len(rows)]
            self._update_error(outputs[rows], precise)
            outputs[rows] = precise
            recomputed |= unsure
            unsure = self._unsure(outputs) & ~recomputed  # the errors may have turned out larger
        return outputs

    def _try(self, inputs: Tensor, precise: Tensor) -> None:
        self._usable = isinstance(precise, Tensor) and precise.is_floating_point()
        if self._usable:
            try:
                self._update_error(self._quick(inputs), precise)
            except InputError:  # it cannot compute that way
                self._usable = False

    def _update_error(self, quick: Tensor, precise: Tensor) -> None:
        difference = (quick - precise).abs()
        seen = difference[difference.isfinite()]
        self._error = max(self._error or 0.0, float(seen.max()) if seen.numel() else 0.0)

    def _unsure(self, outputs: Tensor) -> Tensor:
        """Rows whose label errors of this size could turn; also those that hold NaN or infinite values."""
        rows = outputs.reshape(len(outputs), -1)
        if rows.shape[1] == 1:
            lead = rows[:, 0].abs()
        else:
            first, second = rows.topk(2, dim=1).values.unbind(1)
            lead = (first - second) / 2  # both may be off
        return ~((lead > _ERROR_FACTOR * (self._error or 0.0)) & rows.isfinite().all(1))


def _padded(rows: Tensor) -> Tensor:
    """The rows, the last one repeated up to a power of two: a GPU prepares its convolutions anew for each size."""
    size = 1 << (len(rows) - 1).bit_length()
    return torch.cat([rows, rows[-1:].expand(size - len(rows))])
