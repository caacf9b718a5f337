"""Local complexity of transformers by block and token, against one vertex at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import regionscope as rs
from regionscope.complexity.activations import attention_rows, attention_winners
from regionscope.errors import InputError
from sequence_models import TinyGPT, prompts

RADIUS = 1.5
IDS = prompts(3, 5)
SCORES = torch.randn(2, 4, 5, 6, generator=torch.Generator().manual_seed(1))
FRAME = rs.complexity.orthonormal_frames((5, 8), dims=4)


def one_by_one(gpt: TinyGPT, ids: Tensor) -> dict[str, Tensor]:
    """{kind of fold and its place: (n, t)}: units that take both signs, or winners that change."""
    counts: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for x in gpt.tokens(ids):
            passes = []
            for vertex in [*(x + RADIUS * FRAME), *(x - RADIUS * FRAME)]:
                kept: list[tuple[str, Tensor]] = []
                gpt.from_embeddings(vertex[None], kept)
                passes.append([(kind, value[0]) for kind, value in kept])
            for place in range(len(passes[0])):
                kind = passes[0][place][0]
                values = torch.stack([each[place][1] for each in passes])
                signs = (values > 0).any(0) & (values < 0).any(0)
                both = (values != values[0]).any(0) if kind == "attention" else signs
                counts.setdefault(f"{kind}{place}", []).append(both.sum(-1))
    return {kind: torch.stack(rows) for kind, rows in counts.items()}


@pytest.mark.parametrize(("mlp", "act"), [("relu", "mlp.1"), ("gelu", "mlp.1"), ("gated", "mlp.silu")])
def test_counts_at_every_token_equal_brute_force(mlp: str, act: str) -> None:
    gpt = TinyGPT(mlp=mlp)
    found = rs.local_complexity(gpt, IDS, radius=RADIUS, frames=FRAME, attention=True, norms=True)
    truth = one_by_one(gpt, IDS)
    for i in range(2):
        at = 5 * i  # five things are kept in each layer
        names = {f"norm{at}": "norm1", f"attention{at + 1}": "scaled_dot_product_attention"}
        names |= {f"norm{at + 2}": "norm2", f"activation{at + 4}": act}
        for mine, name in names.items():
            assert torch.equal(found.by_position[f"layers.{i}.{name}"], truth[mine].double()), name
            assert int(truth[mine].sum()) > 0
    layer = [f"layers.1.{name}" for name in ("norm1", "scaled_dot_product_attention", "norm2", act)]
    assert torch.equal(found.by_block["layers.1"], torch.stack([found.by_layer[name] for name in layer]).sum(0))
    assert torch.equal(found.total, torch.stack([*found.by_layer.values()]).sum(0))
    assert found.units["layers.0.norm1"] == 40
    assert found.units["layers.0.scaled_dot_product_attention"] == 10


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 1.0), (1e-9, 1.0), (0.0, 0.0)])
def test_norms_fold_where_entries_change_sign_before_scale_and_shift(scale: float, shift: float) -> None:
    gpt = TinyGPT()
    source = torch.Generator().manual_seed(3)
    for layer in gpt.layers:
        for norm in (layer.norm1, layer.norm2):
            norm.weight.data = torch.randn(8, generator=source).sign() * torch.rand(8, generator=source).add(0.5)
            norm.weight.data[2] = scale
            norm.bias.data = shift * torch.randn(8, generator=source)
    found = rs.local_complexity(gpt, IDS, radius=RADIUS, frames=FRAME, norms=True)
    truth = one_by_one(gpt, IDS)
    for mine, name in {"norm0": "layers.0.norm1", "norm7": "layers.1.norm2"}.items():
        assert torch.equal(found.by_position[name], truth[mine].double())
        assert int(truth[mine].sum()) > 0


def test_norms_count_small_entries_beside_large_channels() -> None:
    """Where a shift is added to them, rounding hides their sign."""
    source = torch.Generator().manual_seed(4)
    norm = nn.LayerNorm(64)
    norm.bias.data.fill_(15.0)
    x = torch.randn(100, 64, generator=source)
    x[:, 0], x[:, 1] = 1e5, -1e5
    frame = rs.complexity.orthonormal_frames((64,), dims=5)
    found = rs.local_complexity(nn.Sequential(norm, nn.ReLU()), x, norms=True, radius=0.05, frames=frame)
    vertices = torch.cat([x + 0.05 * frame[:, None], x - 0.05 * frame[:, None]])
    entries = vertices - vertices.mean(-1, keepdim=True)
    truth = ((entries > 0).any(0) & (entries < 0).any(0)).sum(1)
    assert abs(int(found.by_layer["0"].sum()) - int(truth.sum())) <= 2
    assert int(truth.sum()) > 20


@pytest.mark.parametrize(
    ("queries", "keys", "options"),
    [
        ((2, 4, 5, 3), (2, 4, 6, 3), {}),
        ((2, 4, 5, 3), (2, 4, 6, 3), {"is_causal": True}),
        ((2, 4, 5, 3), (2, 4, 6, 3), {"attn_mask": SCORES[0, 0] > -0.3, "scale": -0.7}),
        ((2, 4, 5, 3), (2, 4, 6, 3), {"attn_mask": SCORES[:, :1]}),
        ((2, 4, 5, 3), (2, 4, 6, 3), {"attn_mask": SCORES[0], "scale": 3.0}),
        ((2, 4, 5, 3), (2, 2, 6, 3), {"enable_gqa": True}),
        ((2, 3, 4, 5, 3), (2, 3, 4, 6, 3), {"is_causal": True}),
        ((2, 5, 3), (2, 6, 3), {"is_causal": True}),
        ((5, 3), (2, 6, 3), {"is_causal": True}),
        ((1, 5, 3), (2, 6, 3), {}),
        ((2, 5, 3), (6, 3), {}),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_winners_have_the_largest_weight(
    queries: tuple[int, ...], keys: tuple[int, ...], options: dict[str, Any], dtype: torch.dtype
) -> None:
    source = torch.Generator().manual_seed(0)
    query, key = (torch.randn(shape, generator=source).to(dtype) for shape in (queries, keys))
    options = {name: value.to(dtype) if name == "attn_mask" and value.is_floating_point() else value
               for name, value in options.items()}  # fmt: skip
    attention, identity = functional.scaled_dot_product_attention, torch.eye(keys[-2], dtype=dtype)
    weights = attention(query, key, identity.expand(*keys[:-1], -1), **options)
    found = attention_winners(attention, (query, key, key), options)
    rows = found if weights.ndim < 4 else found.movedim(1, -1)  # (..., heads, queries)
    chosen = weights.gather(-1, rows[..., None])[..., 0]
    assert torch.allclose(chosen, weights.amax(-1), rtol=2 * torch.finfo(dtype).eps, atol=0.0)
    assert rows.unique().numel() > 2
    assert attention_rows(attention, (query, key, key), options).shape == found.shape


@pytest.mark.parametrize("scores", ["learned queries", "no token sees itself"])
def test_inputs_behind_heads_on_one_axis_are_refused(scores: str) -> None:
    """Where the queries, or the first of the scores, are the same for all inputs."""

    class HeadsFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.query = nn.Linear(8, 24), nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            b, t, _ = x.shape
            query, key, value = self.qkv(x).reshape(b, t, 3, 2, 4).permute(2, 3, 0, 1, 4).flatten(1, 2)
            if scores == "learned queries":
                mixed = functional.scaled_dot_product_attention(self.query.expand(2 * b, 3, 4), key, value)
            else:
                itself = torch.eye(t, dtype=torch.bool)
                mixed = (query @ key.mT).masked_fill(itself, -torch.inf).softmax(-1) @ value
            return torch.relu(mixed.unflatten(0, (2, b)).transpose(0, 1).flatten(1))

    with pytest.raises(InputError, match="mixes the inputs of a batch"):
        rs.local_complexity(HeadsFirst(), torch.randn(4, 5, 8), attention=True)


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
    means = found.position_means[name]
    assert [mean.n for mean in means] == [2, 2, 3, 3, 3, 3]
    assert found.layer_means[name].value == float(found.by_layer[name].double().mean())
    assert found.block_means["layers.1"].stderr > 0


def test_attention_with_the_heads_before_the_batch_is_counted_alike() -> None:
    class Attention(nn.Module):
        def __init__(self, heads_first: bool) -> None:
            super().__init__()
            self.heads_first = heads_first
            self.inputs = nn.Linear(8, 24)

        def forward(self, x: Tensor) -> Tensor:
            parts = self.inputs(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)  # (3, b, heads, t, 4)
            query, key, value = parts.transpose(1, 2) if self.heads_first else parts
            return functional.scaled_dot_product_attention(query, key, value).transpose(0, int(self.heads_first)).relu()

    torch.manual_seed(0)
    first, last = Attention(True), Attention(False)
    last.load_state_dict(first.state_dict())
    x = torch.randn(4, 5, 8)
    name = "scaled_dot_product_attention"
    found, other = (
        rs.local_complexity(model, x, radius=2.0, frames=FRAME, attention=True).by_layer[name]
        for model in (first, last)
    )
    assert torch.equal(found, other)
    assert int(found.sum()) > 0


class OneAttention(nn.Module):
    """Attention over tokens, then a ReLU. Heads are merged with ``view``, which needs them as torch returns them."""

    def __init__(self, heads: int, query: int, value: int, **options: Any) -> None:
        super().__init__()
        self.heads, self.options = heads, options
        self.query, self.key, self.value = (nn.Linear(6, heads * width) for width in (query, query, value))
        self.last = nn.Linear(heads * value, 20)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layers = (self.query, self.key, self.value)
        split = [layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in layers]
        mixed = functional.scaled_dot_product_attention(*split, **self.options).transpose(1, 2)
        viewable = split[0].shape == split[2].shape and "attn_mask" not in self.options
        return torch.relu(self.last(mixed.view(*x.shape[:2], -1) if viewable else mixed.flatten(2)))


@pytest.mark.parametrize(
    ("heads", "query", "value", "options", "memory"),
    [
        (1, 3, 3, {}, 1),
        (7, 1, 1, {"is_causal": True}, None),  # so many tokens that the heads come in groups
        (7, 1, 1, {"is_causal": True}, 1),
        (2, 4, 4, {"scale": -0.5}, None),
        (2, 4, 4, {"attn_mask": torch.arange(81.0).double().reshape(9, 9).cos()}, 1),
    ],
)
def test_layers_behind_attention_fold_alike_whether_it_is_counted_or_not(
    heads: int, query: int, value: int, options: dict[str, Any], memory: int | None
) -> None:
    torch.manual_seed(heads + query)
    model, x = OneAttention(heads, query, value, **options), torch.randn(5, 9, 6, dtype=torch.float64)
    both = rs.local_complexity(model, x, radius=1.5, attention=True, memory=memory)
    alone = rs.local_complexity(model, x, radius=1.5)
    assert 0 < int(alone.total.sum()) < 5 * 9 * 20
    assert torch.equal(both.by_layer["relu"], alone.by_layer["relu"])
    assert int(both.by_layer["scaled_dot_product_attention"].sum()) > 0


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_is_counted_in_both_layouts(batch_first: bool) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=batch_first)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) if batch_first else self.layer(x.transpose(0, 1)).transpose(0, 1)

    torch.manual_seed(0)
    model, x = Encoder().eval(), torch.randn(4, 5, 8)
    found = rs.local_complexity(model, x, radius=2.0, frames=FRAME, attention=True)
    attention, act = (next(name for name in found.by_layer if part in name) for part in ("attention", "relu"))
    for i in range(4):
        vertices = torch.cat([x[i] + 2.0 * FRAME, x[i] - 2.0 * FRAME])
        with torch.no_grad():
            given = vertices if batch_first else vertices.transpose(0, 1)
            weights = model.layer.self_attn(given, given, given, average_attn_weights=False)[1]
        winners = weights.argmax(-1)
        assert torch.equal(found.by_position[attention][i], (winners != winners[0]).any(0).sum(0).double())
    assert found.by_position[act].shape == (4, 5)
    assert int(found.by_layer[attention].sum()) > 0


@pytest.mark.parametrize(("option", "function"), [("attention", "softmax"), ("norms", "rms_norm")])
def test_options_that_find_nothing_are_refused(option: str, function: str) -> None:
    """A normalisation that is written out is not seen: no count looks as if there were none."""

    class WrittenOut(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))

    with pytest.raises(InputError, match=f"{function} in the forward pass with {option}=True, got none"):
        rs.local_complexity(WrittenOut(), torch.randn(2, 8), radius=0.1, dims=4, **{option: True})
