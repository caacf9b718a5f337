"""Reading inputs and labels: the one place where tensors, arrays, datasets and data loaders become tensors.

Every instrument reads what it is measured on through ``read_examples``. Nothing is loaded before it is asked for, so an
instrument that draws a few inputs from a large dataset loads these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
)

from regionscope.checks import unreadable
from regionscope.errors import InputError
from regionscope.types import FloatArray

Inputs = Tensor | np.ndarray[Any, Any] | Sequence[Any] | Dataset[Any] | DataLoader[Any]
Labels = Tensor | np.ndarray[Any, Any] | Sequence[int]

_ACCEPTED = "Pass a tensor, an array, a Dataset or a DataLoader whose items are inputs or (input, label) pairs."


class Examples:
    """n inputs, and their labels where there are any.

    Either ``inputs`` (n, *shape) and ``labels`` (n, ...) are tensors, or ``item`` loads input i and its label.
    ``numpy``: whether the inputs are a NumPy array; plain functions are then called with arrays.
    """

    def __init__(
        self,
        n: int,
        *,
        inputs: Tensor | None = None,
        labels: Tensor | None = None,
        item: Callable[[int], tuple[Any, Any]] | None = None,
        numpy: bool = False,
    ) -> None:
        self.numpy = numpy
        self._n, self._inputs, self._labels, self._item = n, inputs, labels, item

    def __len__(self) -> int:
        return self._n

    @property
    def first(self) -> Tensor:
        """The first input, for its shape, dtype and device."""
        return self.input(0)

    def input(self, i: int) -> Tensor:
        """Input i, as it is stored."""
        return self._pair(i)[0]

    def take(self, chosen: Tensor) -> Tensor:
        """The inputs (m, *shape) with these indices (m,)."""
        if self._inputs is not None:
            return self._inputs[chosen.to(self._inputs.device)]
        return stacked([self.input(i) for i in chosen.tolist()], "input", chosen.tolist())

    def take_pairs(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs and the labels with these indices (m,)."""
        if self._inputs is not None and self._labels is not None:
            return self.take(chosen), self._labels[chosen.to(self._labels.device)]
        places = chosen.tolist()
        pairs = [self._pair(i) for i in places]
        labels = [_label(y) for _, y in pairs]
        return stacked([x for x, _ in pairs], "input", places), stacked(labels, "label", places)

    def all(self) -> Tensor:
        """All inputs (n, *shape). A tensor is not copied."""
        return self._inputs if self._inputs is not None else self.take(torch.arange(self._n, device="cpu"))

    def pairs(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels in order, ``size`` at a time. Tensors are not copied."""
        if self._inputs is not None and self._labels is not None:
            yield from zip(self._inputs.split(size), self._labels.split(size), strict=True)
            return
        for part in torch.arange(self._n, device="cpu").split(size):
            yield self.take_pairs(part)

    def _pair(self, i: int) -> tuple[Tensor, Any]:
        if self._item is None:
            assert self._inputs is not None
            return self._inputs[i], None if self._labels is None else self._labels[i]
        value, label = self._item(i)
        return _tensor(value, i), label if self._labels is None else self._labels[i]


def read_examples(inputs: Inputs | Examples, labels: Labels | None = None) -> Examples:
    """``inputs``, and the labels that came with them or as ``labels``.

    A tensor or array has one input a row. The items of a Dataset (or of a list) are inputs or tuples (input, label,
    ...). A DataLoader stands for the items of its dataset, each collated on its own: its batch size and its order do
    not matter. A ``Dataset`` of regionscope-lab is read as its two tensors. Labels given as ``labels`` replace those
    of the items.

    >>> data = TensorDataset(torch.zeros(3, 2), torch.tensor([0, 1, 0]))
    >>> len(read_examples(data)), [y.tolist() for _, y in read_examples(DataLoader(data)).pairs(2)]
    (3, [[0, 1], [0]])
    """
    if isinstance(inputs, Examples):
        return inputs
    examples = _read(inputs, None if labels is None else read_array(labels).detach())
    if labels is not None and len(labels) != len(examples):
        raise InputError(
            f"Expected one label for each of {len(examples)} inputs, got {len(labels)} labels. "
            "Pass inputs and labels of one data set."
        )
    return examples


def _read(inputs: Inputs, wanted: Tensor | None) -> Examples:
    collate: Callable[[list[Any]], Any] | None = None
    places: Sequence[int] | None = None
    source: Any = inputs.to_numpy() if hasattr(inputs, "to_numpy") else inputs
    if isinstance(source, Mapping):  # what tokenizers return
        named = ", ".join(map(repr, source)) or "none"
        raise InputError(
            f"Expected inputs as a tensor or an array, got {type(source).__name__} with the keys {named}. Pass the "
            f"value of one of them, such as inputs[{next(iter(source), 'input_ids')!r}]."
        )
    if isinstance(source, DataLoader):
        source, places, collate = _opened(source)
    plain = places is None and collate is None
    if type(source) is TensorDataset and plain:  # a subclass may have items of its own
        labels_inside = source.tensors[1] if len(source.tensors) > 1 else None
        return _of_tensor(source.tensors[0], labels_inside if wanted is None else wanted)
    items = hasattr(source, "__getitem__")  # such a dataset says itself what its items are
    if not items and isinstance(getattr(source, "inputs", None), Tensor) and isinstance(source.labels, Tensor):
        return _of_tensor(source.inputs, source.labels if wanted is None else wanted)
    _refuse_labels(source)
    if isinstance(source, list | tuple) and source and _is_numbers(source[0]) and not _is_pair(source[0]):
        source = read_array(source)
    if isinstance(source, Tensor | np.ndarray) and plain:
        return _of_tensor(source, wanted)
    return _of_items(source, places, collate, wanted)


def _refuse_labels(source: Any) -> None:
    """A pair of all inputs and all labels would be read as two inputs."""
    if isinstance(source, list | tuple) and len(source) == 2:
        shapes = [tuple(part.shape) for part in source if isinstance(part, Tensor | np.ndarray)]
        if len(shapes) == 2 and len(shapes[0]) > 1 and shapes[1] == shapes[0][:1]:
            raise InputError(
                f"Expected inputs, got a pair of inputs {shapes[0]} and labels {shapes[1]}. Pass the inputs alone, or "
                "torch.utils.data.TensorDataset(inputs, labels)."
            )


def read_array(values: Any, what: str = "an array of real numbers") -> Tensor:
    """``values`` as a tensor without a copy: a tensor stays on its device, anything else is read on the CPU.

    what: the array in error messages, after "Expected".
    """
    if isinstance(values, Tensor):
        if reason := unreadable(values):
            raise InputError(f"Expected {what}, got {reason}")
        return values
    try:
        array = np.asarray(values)
    except ValueError as reason:
        raise InputError(
            f"Expected {what}, got lists of several shapes ({reason}). Bring all rows to one shape."
        ) from reason
    if array.dtype.kind not in "iubf":
        if array.dtype.kind in "SUTO" and array.size and isinstance(array.flat[0], str | bytes):
            raise InputError(
                f"Expected {what}, got strings such as {array.flat[:1].tolist()[0]!r}. If they are labels, "
                "number the classes: numpy.unique(labels, return_inverse=True)[1]."
            )
        got = f"an array of {array.dtype}" if array.ndim else type(values).__name__
        raise InputError(f"Expected {what}, got {got}. Convert it first.")
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)  # torch has none wider
    wide = array.dtype.kind == "u" and array.itemsize > 1  # torch computes with no such type
    turned = any(stride < 0 for stride in array.strides)  # torch has no such tensors
    locked = not array.flags.writeable and not isinstance(values, np.memmap)  # torch warns; pandas gives such arrays
    return torch.as_tensor(
        array.astype(np.int64) if wide else array.copy() if turned or locked else array, device="cpu"
    )


def read_numbers(values: Any, name: str) -> FloatArray:
    """``values``, the argument ``name``, as float64 (n,), or an ``InputError`` that names it. None is NaN.

    An array, a tensor, or a list of numbers, of tensors of one number, or of results that have a ``value``.

    >>> read_numbers([1, torch.tensor(2.5)], "x")
    array([1. , 2.5])
    """
    if isinstance(values, Tensor) and (reason := unreadable(values)):
        raise InputError(f"Expected {name} to be a list of numbers, got {reason}")
    try:
        array = np.asarray([as_list(getattr(entry, "value", entry)) for entry in as_list(values)], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected {name} to be a list of numbers, got values that cannot be read ({error}). "
            "Convert the values with float()."
        ) from error
    if array.ndim != 1:
        raise InputError(f"Expected {name} to be a flat list of numbers, got shape {array.shape}. Flatten it.")
    return array


def as_list(values: Any) -> Any:
    """The entries of an array or a tensor, on any device, as Python numbers; anything else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def _of_tensor(values: Tensor | np.ndarray[Any, Any], labels: Tensor | None) -> Examples:
    rows = read_array(values).detach()
    if rows.ndim < 2:
        raise InputError(
            f"Expected inputs of shape (n, *input_shape), got {tuple(rows.shape)}. Add a first axis with x[None]."
        )
    return Examples(len(rows), inputs=rows, labels=labels, numpy=isinstance(values, np.ndarray))


def _of_items(
    source: Any, places: Sequence[int] | None, collate: Callable[[list[Any]], Any] | None, labels: Tensor | None
) -> Examples:
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise InputError(f"Expected inputs with a length and items, got {type(source).__name__}. {_ACCEPTED}")

    def item(i: int) -> tuple[Any, Any]:
        items = source[i if places is None else places[i]]
        if collate is not None:
            items = _uncollated(collate([items]))
        if isinstance(items, tuple) or (isinstance(items, list) and items and not _is_numbers(items[0])):
            return items[0], items[1] if len(items) > 1 else None
        return items, None

    return Examples(len(source if places is None else places), item=item, labels=labels)


def _opened(loader: DataLoader[Any]) -> tuple[Any, Sequence[int] | None, Callable[[list[Any]], Any] | None]:
    """The dataset of a loader, the indices that its sampler chooses (None: all), and its own way to collate."""
    sampler, batches = loader.sampler, loader.batch_sampler
    whole = getattr(sampler, "data_source", None) is loader.dataset
    simple = (
        type(sampler) is SubsetRandomSampler
        or (type(sampler) is SequentialSampler and whole)
        or (
            type(sampler) is RandomSampler
            and whole
            and not sampler.replacement
            and sampler.num_samples == len(sampler.data_source)
        )
    )
    if batches is None or type(batches) is not BatchSampler or not simple:
        raise InputError(
            f"Expected a DataLoader that goes through its dataset once, got one with the sampler "
            f"{type(sampler).__name__} and the batch sampler {type(batches).__name__}. Pass the dataset itself, or a "
            "Subset of it."
        )
    places = list(sampler.indices) if isinstance(sampler, SubsetRandomSampler) else None
    return loader.dataset, places, None if loader.collate_fn is default_collate else loader.collate_fn


def _uncollated(batch: Any) -> Any:
    """The only item of a batch of one; a batch that has no items, such as a dictionary, is refused when it is read."""
    if isinstance(batch, tuple | list):
        return tuple(_first_item(part) for part in batch)
    return _first_item(batch)


def _first_item(part: Any) -> Any:
    """A label may be collated to a number without an axis."""
    has_items = hasattr(part, "__getitem__") and not isinstance(part, Mapping) and getattr(part, "ndim", 1) > 0
    return part[0] if has_items else part


def _is_numbers(item: Any) -> bool:
    """Whether an item is a number, or nested lists of numbers."""
    while isinstance(item, list | tuple) and item:
        item = item[0]
    return isinstance(item, int | float | np.number)


def _is_pair(item: Any) -> bool:
    """Whether an item of plain numbers is a tuple of an input, given as a list, and its label."""
    return isinstance(item, tuple) and len(item) > 1 and isinstance(item[0], list | tuple) and np.ndim(item[1]) == 0


def _tensor(value: Any, i: int) -> Tensor:
    if isinstance(value, Tensor):
        array = read_array(value).detach()
    elif type(value).__module__.startswith("PIL."):  # as an array it would be 0 to 255, with the channels last
        raise InputError(
            f"Expected input {i} to be a tensor or an array, got a PIL image. Give the dataset the transform that the "
            "model was trained with, such as torchvision.transforms.ToTensor()."
        )
    else:
        try:
            array = read_array(value)
        except (TypeError, ValueError) as reason:
            raise InputError(
                f"Expected input {i} to be an array of numbers, got {type(value).__name__}. {_ACCEPTED}"
            ) from reason
    return array.reshape(1) if array.ndim == 0 else array


def _label(label: Any) -> Tensor:
    if label is None:
        raise InputError(
            "Expected labels, got inputs alone. Pass labels=..., or a Dataset or DataLoader of (input, label) pairs."
        )
    return read_array(label).detach()


def stacked(items: Sequence[Tensor], what: str, places: Sequence[int]) -> Tensor:
    """The items as one tensor (n, *shape). For messages, what: "input" or "label"; places: their indices."""
    if not items:
        raise InputError("Expected at least one input, got 0. Pass one input or more.")
    for i, item in zip(places, items, strict=True):
        if item.shape != items[0].shape:
            raise InputError(
                f"Expected inputs of one shape, got {tuple(items[0].shape)} and {tuple(item.shape)} "
                f"({what} {places[0]} and {i}). Resize or pad them first."
            )
    return torch.stack(list(items))
