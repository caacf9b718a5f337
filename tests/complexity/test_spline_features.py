"""The seven spline features against loops over prompts, tokens and units."""

from __future__ import annotations

import statistics

import pytest
import torch
from torch import nn
from torch.nn import functional

import regionscope as rs
from regionscope.complexity.spline_features import FEATURES, features_of
from regionscope.errors import InputError
from sequence_models import TinyGPT, prompts


def by_loops(gpt: TinyGPT, ids: torch.Tensor, layer: int) -> list[float]:
    mlp = gpt.layers[layer].mlp
    linear = mlp.gate if hasattr(mlp, "gate") else mlp[0]
    kept: list[tuple[str, torch.Tensor]] = []
    with torch.no_grad():
        gpt.from_embeddings(gpt.tokens(ids[None]), kept)
    h = [value[0] for kind, value in kept if kind == "activation"][layer]
    shares, distances = [], []
    for token in h:
        shares.append(sum(float(unit) > 0 for unit in token) / len(token))
        each = [abs(float(unit)) / float(row.norm()) for unit, row in zip(token, linear.weight.detach(), strict=True)]
        distances.append(min(each))
    spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in (shares, distances)]
    first = [statistics.mean(shares), min(shares), max(shares), spread[0]]
    return [*first, min(distances), statistics.mean(distances), spread[1]]


@pytest.mark.parametrize("mlp", ["relu", "gelu", "gated"])
def test_features_equal_loops_with_padding(mlp: str) -> None:
    gpt, ids = TinyGPT(mlp=mlp), prompts(4, 6)
    mask = torch.ones_like(ids)
    mask[1, 4:] = mask[2, :3] = mask[3, 1:] = 0
    found = rs.complexity.spline_features(gpt, ids, attention_mask=mask, batch_size=2)
    assert found.layers == tuple(f"layers.{i}.mlp.{'gate' if mlp == 'gated' else '0'}" for i in range(2))
    for i in range(4):
        for layer in range(2):
            truth = torch.tensor(by_loops(gpt, ids[i, mask[i] == 1], layer), dtype=torch.float64)
            assert torch.allclose(found.values[i, layer], truth, atol=1e-5)
    assert found.tokens.tolist() == [6, 4, 3, 1]
    assert found.table.shape == (4, 14)


@pytest.mark.parametrize("gate", ["glu", "chunk", "steps"])
def test_a_gate_that_shares_its_layer_is_counted_alone(gate: str) -> None:
    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both, self.down = nn.Linear(8, 20), nn.Linear(10, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.both(x)
            if gate == "glu":
                return self.down(functional.glu(h))
            first, second = h.chunk(2, -1) if gate == "chunk" else (h[..., 1::2], h[..., ::2])
            return self.down(functional.silu(first) * second)

    torch.manual_seed(0)
    gpt, ids, seen = TinyGPT(depth=1), prompts(2, 6), []
    gpt.layers[0].mlp = Fused()
    gpt.layers[0].mlp.both.register_forward_hook(lambda _, given, output: seen.append(output.detach()))
    gpt(ids)
    of_gate = {"glu": slice(10, 20), "chunk": slice(10), "steps": slice(1, 20, 2)}[gate]
    wanted = features_of(seen[0][..., of_gate], gpt.layers[0].mlp.both.weight.detach()[of_gate])
    assert torch.allclose(rs.complexity.spline_features(gpt, ids).values[:, 0], wanted, atol=1e-5)


def test_a_unit_without_weights_has_no_hyperplane() -> None:
    h, weight = torch.tensor([[[0.0, 3.0], [0.0, -1.0]]]), torch.tensor([[0.0, 0.0], [0.0, 2.0]])
    assert features_of(h, weight)[0, 4:6].tolist() == [0.5, 1.0]


@pytest.mark.slow
def test_names_and_readings() -> None:
    found = rs.complexity.spline_features(TinyGPT(), prompts(3, 4), layers="layers.1.*")
    assert found.columns == tuple(f"layers.1.mlp.0:{feature}" for feature in FEATURES)
    assert list(found.to_pandas().columns) == list(found.columns)
    name, mean, stderr = found.readings()[1]
    assert name == found.columns[0]
    assert mean == pytest.approx(float(found.table[:, 0].mean()))
    assert stderr is not None
    with pytest.raises(InputError, match=r"Choose from layers\.0\.mlp\.0, layers\.1\.mlp\.0"):
        rs.complexity.spline_features(TinyGPT(), prompts(3, 4), layers="blocks.*")
    with pytest.raises(InputError, match="got a model without one"):
        rs.complexity.spline_features(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)), prompts(2, 3) % 9)
