"""Region counts of the next token on slices of embedding space, against labels computed point by point."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regionscope as rs
from regionscope.errors import InputError
from sequence_models import TinyGPT, prompts

GPT = TinyGPT(seed=2)
IDS = prompts(8, 5)


def labels_between(a: Tensor, b: Tensor, position: int, grid: int) -> Tensor:
    ends = GPT.tokens(torch.stack([a, b])).detach()
    points = [ends[0] + step * (ends[1] - ends[0]) for step in torch.linspace(0, 1, grid)]
    return GPT.from_embeddings(torch.stack(points))[:, position].argmax(1)


@pytest.mark.parametrize("position", [-1, 1])
def test_counts_on_a_grid_are_runs_of_equal_tokens(position: int) -> None:
    counts = []
    for i in range(4):
        view = rs.embedding_slice(GPT, IDS[i], IDS[i + 4], position=position)
        labels = labels_between(IDS[i], IDS[i + 4], position, 200)
        runs = 1 + int((labels[1:] != labels[:-1]).sum())
        found = rs.region_count(view.model, slices=[view.slice], grid=200)
        assert found.counts.tolist() == [runs]
        counts.append(runs)
        refined = rs.region_count(view.model, slices=[view.slice], method="refined")
        assert refined.counts[0] >= runs
        assert refined.status
    assert max(counts) > 1


def test_token_ids_are_enough() -> None:
    found = rs.region_count(GPT, IDS, slices=12, seed=3, position=2)
    view = rs.network.embedded(GPT, IDS, position=2)
    assert torch.equal(found.counts, rs.region_count(view.model, view.inputs, slices=12, seed=3).counts)
    hulls = rs.sampled.Hulls(IDS, limit=12, seed=3)
    assert torch.equal(found.counts, rs.region_count(GPT, slices=hulls, position=2).counts)
    mask = torch.ones_like(IDS)
    mask[:, 3:] = 0
    padded = rs.region_count(GPT, IDS, slices=12, seed=3, attention_mask=mask)
    assert torch.equal(found.counts, padded.counts)  # a causal model does not look ahead


def test_a_large_vocabulary_stays_within_memory() -> None:
    """No more logits exist at once than fit the memory, and only those of one position."""
    gpt, sizes = TinyGPT(vocab=30_000, d=4, depth=1), []
    gpt.head.register_forward_hook(lambda _, given, output: sizes.append(tuple(output.shape)))
    ids = prompts(4, 5, vocab=30_000)
    view = rs.embedding_slice(gpt, ids[0], ids[1])
    sizes.clear()
    memory = 4 << 20
    rs.region_count(view.model, slices=[view.slice], grid=300, memory=memory)
    rows = [size[0] for size in sizes]
    assert sum(rows) >= 300
    assert all(size[1:] == (1, 30_000) for size in sizes)
    assert max(rows) * 30_000 * 4 <= memory
    assert max(rows) >= 8  # the weights of the head are there once, not for each row


def test_a_position_without_tokens_is_refused() -> None:
    view = rs.embedding_slice(GPT, IDS[0], IDS[1])
    for options in ({"position": 2}, {"attention_mask": torch.ones(5)}):
        with pytest.raises(InputError, match="with token ids"):
            rs.region_count(view.model, slices=[view.slice], **options)
