"""A sequence model as a function of embeddings, against the same model written from embeddings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope import network
from regionscope.errors import InputError
from sequence_models import TinyGPT, near, prompts

GPT = TinyGPT()
IDS = prompts(4, 6)


@pytest.mark.parametrize("position", [0, 3, -1, None])
def test_the_view_gives_the_logits_of_the_model(position: int | None) -> None:
    view = network.embedded(GPT, IDS, position=position)
    logits = GPT(IDS)
    assert near(view.model(view.inputs), logits if position is None else logits[:, position])
    assert near(view.inputs, GPT.tokens(IDS))
    assert view.at == "tokens"


def test_a_block_that_runs_several_times_is_replaced_once() -> None:
    class Loop(TinyGPT):
        def from_embeddings(self, x: Tensor, kept: Any = None, first: int = 0) -> Tensor:
            for _ in range(3 - first):
                x = self.layers[0](x)
            return self.head(x)

    model = Loop()
    view = network.embedded(model, IDS, at="layers.0")
    moved = view.inputs + 0.5
    assert near(view.model(moved), model.from_embeddings(moved, first=1)[:, -1])


def test_every_look_up_of_the_ids_is_replaced_or_refused() -> None:
    class Twice(TinyGPT):
        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.layers[0](self.tokens(ids)) + self.tokens(ids))

    model = Twice()
    view = network.embedded(model, IDS)
    moved = view.inputs + 0.5
    assert near(view.model(moved), model.head(model.layers[0](moved) + moved)[:, -1])
    with pytest.raises(InputError, match=r"through 'layers\.0' alone"):
        network.embedded(model, IDS, at="layers.0")


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_is_cut_off_on_either_side(side: str) -> None:
    alone, padding = prompts(3, 4, seed=5), torch.zeros(3, 2, dtype=torch.int64)
    blocks = [alone, padding] if side == "right" else [padding, alone]
    ids = torch.cat(blocks, 1)
    mask = torch.cat([torch.ones_like(block) if block is alone else torch.zeros_like(block) for block in blocks], 1)
    view = network.embedded(GPT, ids, attention_mask=mask)
    assert view.position == 3
    assert near(view.model(view.inputs), GPT(alone)[:, -1])


def test_a_mask_that_is_added_to_scores_is_refused() -> None:
    added = torch.zeros(IDS.shape)
    added[:, -1] = -1e9
    with pytest.raises(InputError, match=r"1 at real tokens and 0 at padding, got -1e\+09"):
        network.embedded(GPT, IDS, attention_mask=added)
    assert torch.equal(
        network.embedded(GPT, IDS, attention_mask=added == 0).inputs, network.embedded(GPT, IDS[:, :-1]).inputs
    )


def test_the_model_keeps_no_hook_and_no_mode_and_the_view_is_a_snapshot() -> None:
    model = TinyGPT().train()
    view = network.embedded(model, IDS)
    before = view.model(view.inputs)
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with torch.no_grad():
        model.head.weight.zero_()
    assert torch.equal(view.model(view.inputs), before)


def test_a_head_that_mixes_positions_runs_at_all_of_them() -> None:
    class Mixed(TinyGPT):
        def forward(self, ids: Tensor) -> Tensor:
            logits = super().forward(ids)
            return logits.sub_(logits.mean(1, keepdim=True))  # the storage of the head, but of other values

    model = Mixed()
    view = network.embedded(model, IDS, position=1)
    assert near(view.model(view.inputs), model(IDS)[:, 1])


def test_positions_are_not_taken_for_tokens() -> None:
    ids = torch.arange(6)  # the same numbers as the positions
    assert network.embedded(GPT, ids).at == "tokens"
    assert network.embedded(GPT, torch.tensor([3])).at == "tokens"


@pytest.mark.parametrize(
    ("axes", "ids"), [("joined", IDS), ("tokens first", IDS[:1]), ("stacked", IDS[:1].expand(3, -1)), ("stacked", IDS)]
)
def test_outputs_need_no_axis_of_sequences(axes: str, ids: Tensor) -> None:
    class Other(TinyGPT):
        def forward(self, ids: Tensor) -> Tensor:
            logits = super().forward(ids)
            return {"joined": logits.flatten(0, 1), "tokens first": logits.mT, "stacked": logits[None]}[axes]

    model = Other()
    view = network.embedded(model, ids, position=None)
    assert near(view.model(view.inputs), model(ids))


def test_slices_end_at_the_embeddings() -> None:
    segment = rs.embedding_slice(GPT, IDS[0], IDS[1])
    assert near(segment.slice.embed([[0.0], [1.0]]).float(), GPT.tokens(IDS[:2]))
    plane = rs.embedding_slice(GPT, IDS[0], IDS[1], IDS[2], at="layers.1", position=2)
    assert plane.slice.dim == 2
    assert plane.position == 2
    assert plane.inputs.shape == (3, 6, 8)
    assert "layers.1" in repr(plane)


def with_spare() -> TinyGPT:
    model = TinyGPT()
    model.spare = nn.Linear(8, 8)
    return model


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: network.embedded(with_spare(), IDS, at="spare"), "'spare'"),
        (lambda: network.embedded(GPT, IDS.float()), "Expected token ids as whole numbers"),
        (lambda: network.embedded(GPT, IDS, position=6), "Expected position from -6 to 5"),
        (lambda: network.embedded(GPT, IDS, position=2, output=lambda logits: logits[:, -1]), "Leave position out"),
        (lambda: network.embedded(GPT, IDS, output=lambda logits: (logits, 1)), "one tensor, got tuple"),
        (lambda: network.embedded(GPT, IDS, at="layers.7"), "Choose from tokens"),
        (lambda: network.embedded(GPT, IDS, at="positions"), "to return hidden states"),
        (lambda: network.embedded(nn.Linear(2, 2), IDS), "Expected one nn.Embedding|failed on inputs"),
        (lambda: network.embedded(GPT, IDS, attention_mask=torch.ones(4, 5)), "shape of the ids"),
        (lambda: network.embedded(GPT, IDS, attention_mask=torch.zeros(4, 6)), "at least one real token"),
        (lambda: network.embedded(GPT, IDS, attention_mask=torch.ones(4, 6).tril(3)), "same number of real tokens"),
        (lambda: network.embedded(GPT, IDS, attention_mask=1 - torch.eye(6)[1:5]), "between two real tokens"),
        (lambda: rs.embedding_slice(GPT, IDS[0], IDS[1][:4]), "Cut them to one length"),
        (lambda: rs.embedding_slice(GPT, IDS[0], IDS[0]), "distinct|same"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


class Shaped(TinyGPT):
    """A GPT with two learned tokens in front of the prompt, or one that returns the logits of the last token only."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.prefix = kind, nn.Parameter(torch.ones(2, 8))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        if self.kind == "prefix":
            x = torch.cat([self.prefix.expand(len(x), -1, -1), x], 1)
        logits = self.from_embeddings(x)
        return logits[:, [-1]] if self.kind == "last" else logits


def test_logits_of_the_last_token_alone_are_those_at_position_minus_one() -> None:
    view = network.embedded(Shaped("last"), IDS)
    assert near(view.model(view.inputs), GPT(IDS)[:, -1])
    with pytest.raises(InputError, match=r"logits \(4, 6, vocabulary\) for position=0, got shape \(4, 1, 30\)"):
        network.embedded(Shaped("last"), IDS, position=0)
    assert len(rs.local_complexity(Shaped("last"), IDS)) == 4


def test_logits_at_other_positions_than_those_of_the_tokens_are_refused() -> None:
    model = Shaped("prefix")
    with pytest.raises(InputError, match="with output="):
        network.embedded(model, IDS)
    view = network.embedded(model, IDS, position=1, output=lambda logits: logits[:, 2:])
    assert near(view.model(view.inputs), model(IDS)[:, 3])
    whole, last = (rs.local_complexity(model, IDS, output=output) for output in (None, lambda logits: logits[:, -1]))
    assert torch.equal(whole.total, last.total)


def test_a_weak_second_look_up_is_refused() -> None:
    class Weak(TinyGPT):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) + 1e-3 * self.positions(ids % 16).mean(2, keepdim=True)

    with pytest.raises(InputError, match="looks at them again"):
        network.embedded(Weak(), IDS, at="tokens")


def test_a_table_that_is_no_module_is_said_to_be_the_reason() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.hidden = nn.Parameter(torch.randn(20, 8)), nn.Linear(8, 20)

        def forward(self, ids: Tensor) -> Tensor:
            return self.hidden(nn.functional.embedding(ids, self.table)).relu()

    calls: tuple[Any, ...] = (rs.local_complexity, rs.region_count)
    for call in calls:
        with pytest.raises(InputError, match=r"give the model an nn\.Embedding as a module"):
            call(Functional(), IDS)
