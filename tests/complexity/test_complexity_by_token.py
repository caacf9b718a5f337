"""Local complexity of transformers by block and token, against one vertex at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from sequence_models import TinyGPT, prompts

RADIUS = 1.5
IDS = prompts(3, 5)
FRAME = rs.complexity.orthonormal_frames((5, 8), dims=4)


def one_by_one(gpt: TinyGPT, ids: Tensor) -> Tensor:
    """(layers, n, t): how many units of the activation of each layer take both signs."""
    counts = []
    with torch.no_grad():
        for x in gpt.tokens(ids):
            passes = []
            for vertex in [*(x + RADIUS * FRAME), *(x - RADIUS * FRAME)]:
                kept: list[tuple[str, Tensor]] = []
                gpt.from_embeddings(vertex[None], kept)
                passes.append(torch.cat([value for kind, value in kept if kind == "activation"]))
            values = torch.stack(passes)
            counts.append(((values > 0).any(0) & (values < 0).any(0)).sum(-1))
    return torch.stack(counts, 1)


@pytest.mark.parametrize(("mlp", "act"), [("relu", "mlp.1"), ("gelu", "mlp.1"), ("gated", "mlp.silu")])
def test_counts_at_every_token_equal_brute_force(mlp: str, act: str) -> None:
    gpt = TinyGPT(mlp=mlp)
    found = rs.local_complexity(gpt, IDS, radius=RADIUS, frames=FRAME)
    for i, truth in enumerate(one_by_one(gpt, IDS)):
        assert torch.equal(found.by_position[f"layers.{i}.{act}"], truth.double())
        assert torch.equal(found.by_block[f"layers.{i}"], truth.sum(1))
        assert int(truth.sum()) > 0
    assert torch.equal(found.total, torch.stack([*found.by_layer.values()]).sum(0))


def test_padding_never_counts_and_changes_nothing() -> None:
    gpt = TinyGPT()
    long, short = prompts(2, 6, seed=2), prompts(1, 4, seed=4)
    ids = torch.cat([long, torch.cat([torch.zeros(1, 2, dtype=torch.int64), short], 1)])
    mask = torch.ones_like(ids)
    mask[2, :2] = 0
    found = rs.local_complexity(gpt, ids, attention_mask=mask, radius=RADIUS, dims=6)
    whole, alone = (rs.local_complexity(gpt, part, radius=RADIUS, dims=6) for part in (long, short))
    name = "layers.1.mlp.1"
    assert torch.equal(found.by_position[name][:2], whole.by_position[name])
    assert torch.equal(found.by_position[name][2, 2:], alone.by_position[name][0])
    assert found.by_position[name][2, :2].isnan().all()
    assert found.total.tolist() == [*whole.total.tolist(), *alone.total.tolist()]
    assert found.layer_means[name].value == float(found.by_layer[name].double().mean())
    assert found.block_means["layers.1"].stderr > 0


def test_an_activation_of_transposed_tokens_has_no_positions() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 6)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.linear(x).transpose(1, 2))

    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    found = rs.local_complexity(Turned(), x, dims=4, radius=1.0)
    assert int(found.by_layer["relu"].sum()) > 0
    assert found.by_position == {}
