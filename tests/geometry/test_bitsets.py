"""Sets as bits of words, against Python's own sets."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from devices import DEVICES
from regionscope.geometry.bitsets import WORD, holds, lowest, n_words, pack, popcount, unpack

SIZES = [0, 1, 5, WORD - 1, WORD, WORD + 1, 2 * WORD, 2 * WORD + 1]


def tables(f: int, device: str) -> Tensor:
    """Members (43, f): none, all, and random ones from few to many."""
    density = torch.linspace(0.02, 0.98, 41)[:, None]
    some = torch.rand(41, f, generator=torch.Generator().manual_seed(f)) < density
    return torch.cat([torch.zeros(1, f, dtype=torch.bool), torch.ones(1, f, dtype=torch.bool), some]).to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("f", SIZES)
def test_words_are_the_sets_that_were_packed(f: int, device: str) -> None:
    members = tables(f, device)
    words = pack(members)
    sets = [{i for i, inside in enumerate(row) if inside} for row in members.tolist()]
    assert words.dtype == torch.int64
    assert words.shape == (len(members), n_words(f))
    assert bool((words >= 0).all())
    numbers = [sum(word << (WORD * i) for i, word in enumerate(row)) for row in words.tolist()]
    assert numbers == [sum(1 << i for i in one) for one in sets]
    assert torch.equal(unpack(words, f), members)
    assert popcount(words).tolist() == [len(one) for one in sets]
    assert lowest(words).tolist() == [min(one, default=-1) for one in sets]
    for element in range(f):
        assert holds(words, torch.full((len(words),), element, device=device)).tolist() == [element in s for s in sets]


@pytest.mark.parametrize("f", [3, WORD + 3])
def test_sets_in_a_table_are_those_of_its_rows(f: int) -> None:
    members = tables(f, "cpu")[:42].view(6, 7, f)
    words = pack(members)
    assert torch.equal(words.view(42, -1), pack(members.view(42, f)))
    assert torch.equal(unpack(words, f), members)
    assert torch.equal(popcount(words), members.sum(-1))
    assert torch.equal(lowest(words), lowest(words.view(42, -1)).view(6, 7))


def test_no_sets_are_packed_as_none() -> None:
    words = pack(torch.empty(0, 70, dtype=torch.bool))
    assert words.shape == (0, 2)
    assert unpack(words, 70).shape == (0, 70)
    assert lowest(words).shape == popcount(words).shape == (0,)


def test_more_elements_than_the_words_have_are_refused() -> None:
    with pytest.raises(IndexError):
        unpack(torch.tensor([[1]]), WORD + 1)


@pytest.mark.parametrize("device", DEVICES)
def test_the_lowest_element_is_read_from_every_bit(device: str) -> None:
    """One bit at a time: the logarithm of a power of two is off by a little on a GPU, and rounds down."""
    single = torch.ones(WORD, dtype=torch.int64, device=device) << torch.arange(WORD, device=device)
    first = torch.stack([single, torch.zeros_like(single)], 1)
    second = torch.stack([torch.zeros_like(single), single], 1)
    assert lowest(first).tolist() == list(range(WORD))
    assert lowest(second).tolist() == list(range(WORD, 2 * WORD))
    assert lowest(first | first.roll(-1, 0)).tolist() == [*range(WORD - 1), 0]
    assert lowest(first | second).tolist() == list(range(WORD))
    assert lowest(torch.zeros_like(first)).tolist() == [-1] * WORD
