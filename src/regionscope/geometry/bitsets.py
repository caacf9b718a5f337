"""Sets of small numbers as the bits of int64 words: (..., w) words are sets of elements 0 to ``WORD`` w - 1."""

from __future__ import annotations

import torch
from torch import Tensor

WORD = 62  # elements in one word; its sign stays free


def n_words(f: int) -> int:
    """The number of words for sets of elements below f; at least 1."""
    return max(1, -(-f // WORD))


def pack(members: Tensor) -> Tensor:
    """Tables (..., f) of who is a member as words (..., w), w = ``n_words(f)``.

    >>> pack(torch.tensor([[True, False, True]])).tolist()
    [[5]]
    """
    shifts = torch.arange(min(WORD, members.shape[-1]), device=members.device)
    words = [(part.long() << shifts[: part.shape[-1]]).sum(-1) for part in members.split(WORD, -1)]
    return words[0][..., None] if len(words) == 1 else torch.stack(words, -1)


def unpack(words: Tensor, f: int) -> Tensor:
    """The inverse of ``pack``: words (..., w) as tables (..., f) bool.

    >>> unpack(torch.tensor([[5]]), 4).tolist()
    [[True, False, True, False]]
    """
    shifts = torch.arange(f, device=words.device) % WORD
    parts = [((words[..., i, None] >> part) & 1).bool() for i, part in enumerate(shifts.split(WORD))]
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def holds(words: Tensor, element: Tensor) -> Tensor:
    """Whether each set (n, w) holds its element (n,): (n,) bool.

    >>> holds(torch.tensor([[5], [5]]), torch.tensor([1, 2])).tolist()
    [False, True]
    """
    word = words.gather(1, (element // WORD)[:, None])[:, 0]
    return (word >> (element % WORD)) & 1 == 1


def lowest(words: Tensor) -> Tensor:
    """The lowest element of each set (..., w); -1 for an empty one.

    >>> lowest(torch.tensor([[6], [0]])).tolist()
    [1, -1]
    """
    positions = torch.full_like(words[..., 0], -1)
    for number in range(words.shape[-1] - 1, -1, -1):
        word = words[..., number]
        power = (word & -word).double().frexp().exponent.long()  # one more than the bit; log2 is not exact on a GPU
        positions = torch.where(word != 0, number * WORD + power - 1, positions)
    return positions


def popcount(words: Tensor) -> Tensor:
    """The number of elements of each set (..., w).

    >>> popcount(torch.tensor([[5, 1], [0, 0]])).tolist()
    [3, 0]
    """
    x = words - ((words >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    x = x + (x >> 8)
    x = x + (x >> 16)
    x = (x + (x >> 32)) & 0x7F
    return x.sum(-1)
