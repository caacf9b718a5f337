"""The transformers of the zoo: attention by its formula, causality, tokens and embeddings, training on sequences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.errors import InputError
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Training
from regionscope_lab.data import Dataset, load
from regionscope_lab.train import evaluate, train
from regionscope_lab.zoo.transformer import Attention, TransformerLayer

SMALL = {"depth": 2, "width": 8, "heads": 2}


def tiny(**options: object) -> nn.Module:
    return zoo.build("gpt", classes=11, input_shape=(6,), **{**SMALL, **options}).eval()


def ids(n: int = 3, length: int = 6) -> Tensor:
    return torch.randint(11, (n, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_its_formula(causal: bool) -> None:
    layer = Attention(8, 2, causal=causal).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parts = layer.inputs(x).chunk(3, dim=-1)
    heads = []
    for h in range(2):
        query, key, value = (part[..., 4 * h : 4 * h + 4] for part in parts)
        scores = query @ key.transpose(1, 2) / math.sqrt(4)
        if causal:
            scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ value)
    assert torch.allclose(layer(x), layer.output(torch.cat(heads, -1)))


def test_a_layer_is_its_formula() -> None:
    layer = TransformerLayer(8, 2, "relu", causal=True)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    y = x + layer.attention(layer.norm1(x))
    hidden = torch.relu(layer.mlp.linear1(layer.norm2(y)))
    assert hidden.shape == (2, 5, 32)
    assert torch.allclose(layer(x), y + layer.mlp.linear2(hidden), atol=1e-6)


def test_tokens_and_their_embeddings_give_the_same() -> None:
    model, tokens = tiny(), ids()
    logits = model(tokens)
    assert logits.shape == (3, 11)
    assert torch.equal(logits, model(tokens.float()))
    assert torch.equal(logits, model(model.get_input_embeddings()(tokens)))
    assert torch.allclose(logits, model.every_position(tokens)[:, -1], atol=1e-6)


def test_no_position_sees_a_later_one() -> None:
    model, tokens = tiny(), ids()
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = model.every_position(tokens), model.every_position(changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4], after[:, 4])
    assert torch.allclose(model(tokens[:, :4]), before[:, 3], atol=1e-6)


def test_norms_can_be_left_out() -> None:
    assert not any(isinstance(module, nn.LayerNorm) for module in tiny(norm=False).modules())
    assert sum(isinstance(module, nn.LayerNorm) for module in tiny().modules()) == 5


def test_the_order_of_tokens_matters() -> None:
    assert not torch.allclose(tiny()(ids()), tiny()(ids()[:, [1, 0, 2, 3, 4, 5]]), atol=1e-3)


def test_patches_have_places_and_all_see_all() -> None:
    model = zoo.build("vit", classes=3, input_shape=(1, 8, 8), patch=4, **SMALL).eval()
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    assert model.positions.shape == (4, 8)
    assert model(x).shape == (2, 3)
    moved = torch.cat([x[..., 4:], x[..., :4]], -1)
    assert not torch.allclose(model(x), model(moved), atol=1e-4)
    with torch.no_grad():
        model.positions.zero_()
    assert torch.allclose(model(x), model(moved), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("gpt", {"input_shape": (3, 32, 32)}, r"input_shape \(length,\).*take 'vit'"),
        ("gpt", {"input_shape": (4,), "width": 10}, "multiple of heads = 4, got 10"),
        ("gpt", {"input_shape": (4,), "activation": "tanh"}, "Choose from relu, gelu"),
        ("vit", {"patch": 5}, "multiples of patch = 5"),
        ("vit", {"input_shape": (5,)}, "channels, height, width"),
    ],
)
def test_mistakes_are_one_sentence(name: str, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        zoo.build(name, **options)


def test_sequences_that_are_too_long_are_refused() -> None:
    with pytest.raises(InputError, match=r"l from 1 to 6, got shape \(3, 7\)"):
        tiny()(ids(length=7))


def test_a_gpt_learns_a_text_at_every_position() -> None:
    """One step of the loop is one step of SGD on the mean cross-entropy over all positions."""
    split = load(DataSpec(name="text", n_train=4, n_test=4, options={"book": "gettysburg", "context": 8, "stride": 8}))
    settings = Training(epochs=1, lr=0.1, momentum=0.0, batch_size=4, schedule="constant", loss="next_token")
    mine, theirs = (zoo.build("gpt", classes=256, input_shape=(8,), **SMALL) for _ in range(2))
    done = train(mine, split, settings)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1)
    wanted = torch.cat([split.train.inputs[:, 1:].long(), split.train.labels[:, None]], 1)
    loss = functional.cross_entropy(theirs.every_position(split.train.inputs).transpose(1, 2), wanted)
    loss.backward()
    optimiser.step()
    assert done.last.loss == pytest.approx(loss.item(), rel=1e-5)
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(mine.parameters(), theirs.parameters(), strict=True))
    longer = replace(settings, epochs=30, evaluate_every=30, optimizer="adamw", lr=0.03)
    assert train(mine, split, longer).last.train_error == 0.0


def test_a_network_without_positions_is_refused() -> None:
    data = Dataset("points", torch.zeros(2, 3), torch.tensor([0, 1]), 2)
    with pytest.raises(InputError, match="method every_position"):
        train(zoo.mlp([3, 2]), data, Training(loss="next_token"))
    with pytest.raises(InputError, match="mixup = 0"):
        Training(loss="next_token", mixup=1.0)


def test_sequences_are_evaluated_in_batches_that_fit_their_embeddings() -> None:
    model, seen = tiny(width=512, depth=1), []
    model.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    loss, accuracy = evaluate(model, ids(350), torch.zeros(350, dtype=torch.int64))
    assert max(seen) <= 2**20 // (6 * 512)
    assert sum(seen) == 350
    assert 0 <= accuracy <= 1 < loss < 5
