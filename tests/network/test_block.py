"""One MLP block of a transformer as a piecewise-affine program, against the block itself and a closed form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import CheckFailed, InputError, NotPiecewiseAffine
from sequence_models import TinyGPT, near, prompts

GPT, IDS = TinyGPT(), prompts(1, 6)[0]
NAMES = ["0.linear1", "0.activation", "0.linear2"]


def input_of_mlp(layer: int) -> torch.Tensor:
    kept: list[tuple[str, torch.Tensor]] = []
    GPT.from_embeddings(GPT.tokens(IDS[None]), kept)
    return [value for name, value in kept if name == "input"][layer][0]


def test_the_program_is_the_block_at_its_real_inputs() -> None:
    found = rs.block(GPT, "layers.1.mlp", IDS, position=2)
    assert near(found.inputs.float(), input_of_mlp(1))
    assert torch.equal(found.activation, found.inputs[2])
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    assert near(found.program(x.double()).float(), GPT.layers[1].mlp(x))
    assert repr(found) == "Block('layers.1.mlp', tokens=6, width=8, position=2)"


def test_regions_on_a_segment_are_the_crossings_of_the_hidden_units() -> None:
    found = rs.block(GPT, "layers.0.mlp", IDS)
    segment = rs.Segment(found.inputs[0], found.inputs[3])
    hidden = GPT.layers[0].mlp[0]
    ends = found.inputs[[0, 3]] @ hidden.weight.double().T + hidden.bias.double()
    crossings = int((ends[0] * ends[1] < 0).sum())  # general position: every crossing is a breakpoint of its own
    assert crossings > 3
    assert rs.linear_regions(found.program, segment).n_activation_regions == 1 + crossings


def test_padding_and_position_of_the_context() -> None:
    padded = torch.cat([IDS, torch.zeros(3, dtype=torch.int64)])
    mask = torch.tensor([1] * 6 + [0] * 3)
    found = rs.block(GPT, "layers.1.mlp", padded, attention_mask=mask)
    assert found.position == 5
    assert near(found.inputs.float(), input_of_mlp(1))


def test_a_chain_of_modules_and_functions_is_a_block() -> None:
    encoder = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True))
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    found = rs.block(encoder, NAMES, x)
    layer = encoder[0]
    assert near(found.program(x.double()).float(), layer.linear2(torch.relu(layer.linear1(x))))
    with pytest.raises(CheckFailed, match="Name all modules"):
        rs.block(encoder, [NAMES[0], NAMES[2]], x)


class Outer(nn.Module):
    """Calls its block with a named argument."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.tokens, self.block = nn.Embedding(30, 8), block

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.block(input=self.tokens(ids))


def test_a_block_may_be_called_by_name_and_must_return_one_tensor() -> None:
    class Pair(nn.Sequential):
        def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, None]:
            return super().forward(input), None

    model = Outer(GPT.layers[0].mlp)
    assert near(rs.block(model, "block", IDS).inputs.float(), model.tokens(IDS))
    with pytest.raises(InputError, match=r"to return a tensor \(..., tokens, d\), got tuple"):
        rs.block(Outer(Pair(nn.Linear(8, 8))), "block", IDS)


class Fourier(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).abs()


@pytest.mark.parametrize("part", [nn.Softmax(-1), nn.GELU(), nn.LayerNorm(8), Fourier()])
def test_a_refused_block_has_one_way_out(part: nn.Module) -> None:
    with pytest.raises(NotPiecewiseAffine, match=r"Expected .*'block'.* but .*'0'") as refused:
        rs.block(Outer(nn.Sequential(part, nn.Linear(8, 8))), "block", IDS)
    sentences = str(refused.value)
    assert sentences.count("Expected") == sentences.count("region_count()") == 1
    assert "leave it off" not in sentences


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("layers.9.mlp", {}, "the name of a part of the model, got 'layers.9.mlp'. Did you mean 'layers.*mlp'"),
        ([], {}, "or a list of names, got \\[\\]"),
        ("layers.0.mlp", {"position": 6}, "Expected position from -6 to 5"),
    ],
)
def test_bad_input_is_a_sentence(name: str, options: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        rs.block(GPT, name, IDS, **options)


def test_a_token_beyond_the_vocabulary_is_named() -> None:
    ids = torch.cat([IDS, torch.tensor([77])])
    with pytest.raises(InputError, match=r"below the size of the vocabulary \(the largest is 77\)"):
        rs.block(GPT, "layers.0.mlp", ids)
    with pytest.raises(InputError, match=r"below the size of the vocabulary \(the largest is 77\)"):
        rs.region_count(GPT, torch.stack([ids, ids.flip(0)]))


def test_a_block_of_a_bfloat16_model_is_read_with_its_own_weights() -> None:
    half = TinyGPT().bfloat16()
    found = rs.block(half, "layers.1.mlp", IDS)
    assert near(found.program(found.inputs), half.double().layers[1].mlp(found.inputs))


def test_a_batch_as_context_is_one_sentence() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mixed: torch.Tensor = self.mlp(x + self.attention(x, x, x)[0])
            return mixed

    model, x = Attending(), torch.rand(3, 6, 8)
    assert rs.block(model, "mlp", x[0]).inputs.shape == (6, 8)
    with pytest.raises(
        InputError, match=r"one input, without the batch dimension, which block\(\) adds: pass inputs\["
    ):
        rs.block(model, "mlp", x)
