"""The instruments of sequence models on Hugging Face models as they are, with random weights."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

import regionscope as rs
from regionscope.errors import InputError
from sequence_models import near, prompts

pytestmark = pytest.mark.slow
transformers: Any = None


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Imported by the first test, not while tests are collected: it takes seconds."""
    global transformers
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")


SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
IDS = prompts(3, 7, vocab=40)
MASK = torch.ones(3, 7, dtype=torch.int64)
MASK[:, 5:] = 0


def gpt2() -> Any:
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    return seeded(transformers.GPT2LMHeadModel, transformers.GPT2Config(vocab_size=40, **sizes))


def llama() -> Any:
    config = transformers.LlamaConfig(vocab_size=40, num_key_value_heads=1, max_position_embeddings=16, **SIZES)
    return seeded(transformers.LlamaForCausalLM, config)


def bert() -> Any:
    return seeded(
        transformers.BertForMaskedLM,
        transformers.BertConfig(vocab_size=40, max_position_embeddings=16, **SIZES),
    )


def esm() -> Any:
    config = transformers.EsmConfig(
        vocab_size=40, max_position_embeddings=16, position_embedding_type="rotary", pad_token_id=1, mask_token_id=2,
        **SIZES,
    )  # fmt: skip
    return seeded(transformers.EsmForMaskedLM, config)


def seeded(kind: Any, config: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(config).eval()
        for weights in model.parameters():
            weights.data += 0.1 * torch.randn_like(weights)  # the usual start is too flat to tell tokens apart
    return model


@pytest.mark.parametrize("make", [gpt2, llama, bert])
def test_a_view_agrees_with_inputs_embeds_and_attention_mask(make: Any) -> None:
    model = make()
    with torch.no_grad():
        masked = model(input_ids=IDS, attention_mask=MASK).logits[:, 4]
        view = rs.network.embedded(model, IDS, attention_mask=MASK)
        moved = view.inputs + 0.1
        assert near(view.model(view.inputs), masked)
        assert near(view.model(moved), model(inputs_embeds=moved).logits[:, -1])
    segment = rs.embedding_slice(model, IDS[0], IDS[1], attention_mask=MASK[0])
    assert rs.region_count(segment.model, slices=[segment.slice], method="refined").counts[0] >= 1


@pytest.mark.parametrize(
    ("make", "act", "module"),
    [
        (gpt2, "transformer.h.0.mlp.act.tanh", "transformer.h.0.mlp.c_fc"),
        (llama, "model.layers.0.mlp.act_fn.silu", "model.layers.0.mlp.gate_proj"),
        (bert, "bert.encoder.layer.0.intermediate.intermediate_act_fn.gelu", "bert.encoder.layer.0.intermediate.dense"),
    ],
)
def test_counts_against_hooks_on_the_layer(make: Any, act: str, module: str) -> None:
    """The pre-activations of one layer, caught with a hook for each vertex alone."""
    model, radius = make(), 0.3
    caught: list[torch.Tensor] = []
    handle = model.get_submodule(module).register_forward_hook(lambda _, given, out: caught.append(out.detach()[0]))
    alone = IDS[:2, :5]
    frame = rs.complexity.orthonormal_frames((5, 16), dims=3)
    with torch.no_grad():
        embeddings = model.get_input_embeddings()(alone)
        wanted = []
        for x in embeddings:
            caught.clear()
            for vertex in [*(x + radius * frame), *(x - radius * frame)]:
                model(inputs_embeds=vertex[None])
            values = torch.stack(caught)
            wanted.append(((values > 0).any(0) & (values < 0).any(0)).sum(-1))
    handle.remove()
    found = rs.local_complexity(model, IDS[:2], attention_mask=MASK[:2], radius=radius, frames=frame)
    assert torch.equal(found.by_position[act][:, :5], torch.stack(wanted).double())
    assert found.by_position[act][:, 5:].isnan().all()
    assert int(torch.stack(wanted).sum()) > 0


def test_a_gelu_written_with_erf_counts_as_the_gelu_of_torch() -> None:
    """ESM writes its GELU with torch.erf, and so does BERT with ``hidden_act="gelu_python"``."""
    plain, written = bert(), bert()
    for layer in written.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = transformers.activations.ACT2FN["gelu_python"]
    wanted, found = (rs.local_complexity(model, IDS, radius=0.3) for model in (plain, written))
    assert list(found.units.values()) == list(wanted.units.values())
    assert torch.equal(found.total, wanted.total)
    units = rs.local_complexity(esm(), IDS, radius=0.3).units
    assert [name for name in units if "encoder" in name] == [
        f"esm.encoder.layer.{i}.intermediate.erf" for i in range(2)
    ]


@pytest.mark.parametrize(("make", "layers"), [(llama, 2), (gpt2, 2)])
def test_positions_and_normalisations_are_not_counted(make: Any, layers: int) -> None:
    assert len(rs.local_complexity(make(), IDS, radius=0.3).units) == layers


@pytest.mark.parametrize(("n", "tokens", "row"), [(7, 512, 0), (7, 512, 5), (30, 512, 29), (30, 1, 11), (30, 1, 29)])
def test_a_classifier_that_looks_for_padding_is_refused(
    n: int, tokens: int, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        import_module("regionscope.network.embedded"), "_TOKENS", tokens
    )  # 1: three sequences at a time
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "bos_token_id": 2, "eos_token_id": 2}
    config = transformers.GPT2Config(vocab_size=40, num_labels=3, pad_token_id=0, **sizes)
    model = seeded(transformers.GPT2ForSequenceClassification, config)
    ids = prompts(n, 7, vocab=36) + 3
    assert rs.network.embedded(model, ids).inputs.shape == (n, 7, 16)
    ids[row % n, 5:] = 0
    with pytest.raises(InputError, match=r"through 'transformer.wte' alone, got one that looks at them again"):
        rs.network.embedded(model, ids)
    with pytest.raises(InputError, match="looks at them again"):
        rs.region_count(model, ids, slices=2)
    mask = torch.ones_like(ids)
    mask[:, 5:] = 0
    assert rs.network.embedded(model, ids, attention_mask=mask).inputs.shape == (n, 5, 16)


@pytest.mark.parametrize("kind", ["Bart", "MBart"])
def test_positions_that_are_looked_up_by_the_number_of_tokens_are_not_taken_for_the_tokens(kind: str) -> None:
    sizes = {"d_model": 16, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 24}
    config = getattr(transformers, f"{kind}Config")(vocab_size=40, max_position_embeddings=16, **sizes)
    model = seeded(getattr(transformers, f"{kind}ForCausalLM"), config)
    assert rs.network.embedded(model, IDS, output="logits").at == "model.decoder.embed_tokens"
    found = rs.local_complexity(model, IDS, output="logits", radius=0.1)
    assert found.total.min() > 0
    assert rs.region_count(model, IDS, slices=3, output="logits").value >= 1


def test_token_ids_of_a_decoder_are_those_of_every_input() -> None:
    sizes = {"d_model": 16, "d_ff": 24, "num_layers": 1, "num_heads": 2, "d_kv": 8}
    model = seeded(transformers.T5ForConditionalGeneration, transformers.T5Config(vocab_size=40, **sizes))
    start = torch.tensor([[0, 4, 5]])

    class Started(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.inner(ids, decoder_input_ids=start.expand(len(ids), -1)).logits

    given = rs.local_complexity(model, IDS, output="logits", args={"decoder_input_ids": start}, radius=1.0)
    inside = rs.local_complexity(Started(), IDS, radius=1.0)
    assert given.total.tolist() == inside.total.tolist()
    assert given.total.min() > 0
