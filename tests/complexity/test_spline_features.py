"""The seven spline features against loops over prompts, tokens and units."""

from __future__ import annotations

import statistics

import pytest
import torch

import regionscope as rs
from regionscope.complexity.spline_features import FEATURES
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
    found = rs.spline_features(gpt, ids, attention_mask=mask, batch_size=2)
    assert found.layers == tuple(f"layers.{i}.mlp.{'gate' if mlp == 'gated' else '0'}" for i in range(2))
    for i in range(4):
        for layer in range(2):
            truth = torch.tensor(by_loops(gpt, ids[i, mask[i] == 1], layer), dtype=torch.float64)
            assert torch.allclose(found.values[i, layer], truth, atol=1e-5)
    assert found.tokens.tolist() == [6, 4, 3, 1]
    assert found.table.shape == (4, 14)


def test_names_and_readings() -> None:
    found = rs.spline_features(TinyGPT(), prompts(3, 4), layers="layers.1.*")
    assert found.columns == tuple(f"layers.1.mlp.0:{feature}" for feature in FEATURES)
    name, mean, stderr = found.readings()[1]
    assert name == found.columns[0]
    assert mean == pytest.approx(float(found.table[:, 0].mean()))
    assert stderr is not None
    assert list(found.to_pandas().columns) == list(found.columns)
    with pytest.raises(InputError, match=r"There are layers\.0\.mlp\.0, layers\.1\.mlp\.0"):
        rs.spline_features(TinyGPT(), prompts(3, 4), layers="blocks.*")
