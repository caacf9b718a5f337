"""Token ids and padding masks: read, checked, and cut into groups of sequences without padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.inputs import read_array, read_examples
from regionscope.network.call.forward import call_model
from regionscope.network.call.untouched import device_and_dtype


@dataclass(frozen=True, eq=False)
class TokenGroup:
    """Sequences with the same number of real tokens.

    rows: (g,) their places among all sequences. ids: (g, t) without padding. columns: (g, t) where each token stood.
    """

    rows: Tensor
    ids: Tensor
    columns: Tensor


def takes_tokens(model: Any, inputs: Any) -> bool:
    """Whether ``inputs`` are whole numbers (n, t) for a model that looks its inputs up in an ``nn.Embedding``."""
    if not isinstance(model, nn.Module) or not any(isinstance(part, nn.Embedding) for part in model.modules()):
        return False
    if isinstance(inputs, Tensor) or hasattr(inputs, "dtype"):
        values = inputs if isinstance(inputs, Tensor) else read_array(inputs)
        return not values.is_floating_point() and values.ndim < 3
    first = read_examples(inputs).first
    return not first.is_floating_point() and first.ndim < 2


def input_dtype(model: nn.Module, inputs: Any) -> torch.dtype:
    """The dtype in which the model takes ``inputs``: that of its weights; token ids (n, t) stay whole numbers.

    An embedding may be that of positions alone; such a model fails on whole numbers. Call it inside ``untouched``.
    Cost: one forward pass of one input, if there is an embedding.
    """
    device, dtype = device_and_dtype(model)
    if inputs is None or not takes_tokens(model, inputs):
        return dtype
    try:
        call_model(model, read_examples(inputs).first[None].to(device, torch.int64))
    except InputError:
        return dtype
    return torch.int64


def to_model(rows: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A copy of the inputs as the model takes them; whole numbers that ``dtype`` does not hold are refused."""
    if dtype.is_floating_point and not rows.is_floating_point() and rows.numel():
        most, largest = 2 / torch.finfo(dtype).eps, float(rows.abs().max())
        if largest > most:
            raise InputError(
                f"Expected whole numbers up to {most:g}, which {dtype} holds, got {largest:g}. Pass the model in "
                "float32, or inputs in floating point."
            )
    return rows.to(device, dtype, copy=True)


def read_tokens(ids: Any, attention_mask: Any = None) -> tuple[Tensor, Tensor]:
    """Token ids (n, t) int64 and the mask (n, t) of real tokens; a single sequence (t,) is a batch of one."""
    tokens = ids if isinstance(ids, Tensor) else read_array(ids) if _is_array(ids) else read_examples(ids).all()
    tokens = tokens.detach()
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise InputError(
            f"Expected token ids as whole numbers, got {tokens.dtype}. Pass embeddings to a slice instead."
        )
    tokens = tokens[None] if tokens.ndim == 1 else tokens
    if tokens.ndim != 2 or tokens.numel() == 0:
        raise InputError(
            f"Expected token ids of shape (n, t) or (t,), got {tuple(tokens.shape)}. "
            "Pass one row of ids for each sequence."
        )
    if attention_mask is None:
        return tokens.long(), torch.ones_like(tokens, dtype=torch.bool)
    return tokens.long(), _read_mask(attention_mask, tokens)


def _read_mask(attention_mask: Any, tokens: Tensor) -> Tensor:
    """The mask (n, t) of real tokens, which stand side by side in each sequence; a mask (t,) is that of all."""
    given = read_array(attention_mask).to(tokens.device)
    mask = given != 0
    if not bool((given == mask).all()):  # masks that are added to scores have 0 at real tokens
        other = float(given[given != mask].flatten()[0])
        raise InputError(
            f"Expected attention_mask with 1 at real tokens and 0 at padding, got {other:g}. "
            "Pass mask == 0 for a mask that is added to scores."
        )
    mask = mask[None].expand(len(tokens), -1) if mask.ndim == 1 else mask
    if mask.shape != tokens.shape:
        raise InputError(
            f"Expected attention_mask of the shape of the ids, {tuple(tokens.shape)}, got {tuple(mask.shape)}. "
            "Pass the mask that the tokenizer returns with the ids."
        )
    if not bool(mask.any(1).all()):
        empty = int((~mask.any(1)).nonzero()[0])
        raise InputError(
            f"Expected at least one real token in each sequence, got none in sequence {empty}. "
            "Remove this sequence, or correct attention_mask."
        )
    holes = (mask[:, 1:] & ~mask[:, :-1]).sum(1) + mask[:, 0] > 1
    if bool(holes.any()):
        raise InputError(
            f"Expected padding at the ends of a sequence, got 0 in attention_mask between two real tokens of sequence "
            f"{int(holes.nonzero()[0])}. Cut these tokens out of the ids, or pass them as real ones."
        )
    return mask


def without_padding(ids: Tensor, mask: Tensor) -> Iterator[TokenGroup]:
    """Groups of equal length, shortest first. Padding is cut off, on whichever side it stands."""
    lengths = mask.sum(1)
    for length in lengths.unique().tolist():
        rows = (lengths == length).nonzero()[:, 0]
        columns = mask[rows].nonzero()[:, 1].reshape(len(rows), length)
        yield TokenGroup(rows, ids[rows].gather(1, columns), columns)


def _is_array(ids: Any) -> bool:
    if hasattr(ids, "dtype"):
        return True
    if not isinstance(ids, list | tuple) or not ids:
        return False
    first = ids[0]
    return isinstance(first, int) or (isinstance(first, list | tuple) and all(isinstance(i, int) for i in first))
