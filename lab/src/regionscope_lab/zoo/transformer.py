"""Transformers: a small GPT over tokens, and a vision transformer over the patches of an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.checks import check_shape, one_of, read_integer
from regionscope.errors import InputError
from regionscope_lab.zoo.layers import ACTIVATIONS, chain, channels_of, flag

EXPANSION = 4  # units of an MLP over the width


class Attention(nn.Module):
    """softmax(Q Kᵀ / sqrt(width / heads)) V in ``heads`` heads; causal: a position sees itself and those before it."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"heads={self.heads}, causal={self.causal}"


class TransformerLayer(nn.Module):
    """x + attention(norm(x)), and of that y + mlp(norm(y)). Xiong et al. 2020, Figure 1 (b)."""

    def __init__(self, width: int, heads: int, activation: str, *, causal: bool, norm: bool = True) -> None:
        super().__init__()
        self.norm1 = _norm(width, norm)
        self.attention = Attention(width, heads, causal=causal)
        self.norm2 = _norm(width, norm)
        kind = ACTIVATIONS[activation]
        self.mlp = chain(nn.Linear(width, EXPANSION * width), kind(), nn.Linear(EXPANSION * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Logits of the next token, (b, tokens), after sequences of up to ``length`` tokens.

    Takes token ids (b, l), whole numbers of any dtype, or embeddings (b, l, width), to which positions are added here.
    Radford et al. 2019, with the width, depth and activation of your choice and without dropout.
    """

    def __init__(
        self, tokens: int, length: int, depth: int, width: int, heads: int, activation: str, *, norm: bool = True
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(torch.randn(length, width))  # as nn.Embedding starts
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, activation, causal=True, norm=norm) for _ in range(depth)
        )
        self.norm = _norm(width, norm)
        self.head = nn.Linear(width, tokens, bias=False)

    def get_input_embeddings(self) -> nn.Embedding:
        """The layer that embeds token ids, under the name that it has in transformers."""
        return self.tokens

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self._hidden(inputs)[:, -1]))  # type: ignore[no-any-return]

    def every_position(self, inputs: Tensor) -> Tensor:
        """Logits (b, l, tokens) of the token after each position."""
        return self.head(self.norm(self._hidden(inputs)))  # type: ignore[no-any-return]

    def _hidden(self, inputs: Tensor) -> Tensor:
        length = len(self.positions)
        if inputs.ndim not in (2, 3) or not 1 <= inputs.shape[1] <= length:
            raise InputError(
                f"Expected token ids (b, l) or embeddings (b, l, width) with l from 1 to {length}, got shape "
                f"{tuple(inputs.shape)}. "
                "Shorten the sequences, or build the network with a larger length."
            )
        x = self.tokens(inputs.long()) if inputs.ndim == 2 else inputs
        x = x + self.positions[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return x


def gpt(
    *,
    classes: int,
    input_shape: Sequence[int],
    depth: int = 4,
    width: int = 128,
    heads: int = 4,
    activation: str = "gelu",
    norm: bool = True,
) -> nn.Module:
    """A causal transformer over sequences of token ids; input_shape: (length,). classes: number of tokens.

    depth: number of layers, each attention and an MLP of 4 x width units. activation: of the MLPs, "relu" or "gelu".
    norm: LayerNorm before each attention, each MLP and the end. Not piecewise affine: softmax, LayerNorm.
    """
    sizes = check_shape(input_shape)
    if len(sizes) != 1:
        raise InputError(f"Expected input_shape (length,) for sequences of tokens, got {sizes}. For images take 'vit'.")
    return GPT(classes, sizes[0], *_sizes(depth, width, heads), _activation(activation), norm=flag("norm", norm))


class VisionTransformer(nn.Module):
    """Patches as tokens, layers in which all see all, and a linear layer on the mean over the patches."""

    def __init__(
        self, shape: Sequence[int], classes: int, patch: int, depth: int, width: int, heads: int, *, activation: str
    ) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        count = (height // patch) * (breadth // patch)
        self.positions = nn.Parameter(0.02 * torch.randn(count, width))  # as Dosovitskiy et al. start
        self.layers = nn.Sequential(*(TransformerLayer(width, heads, activation, causal=False) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.layers(tokens)).mean(1))  # type: ignore[no-any-return]


def vit(
    *,
    classes: int,
    input_shape: Sequence[int],
    depth: int = 6,
    width: int = 192,
    heads: int = 3,
    patch: int = 4,
    activation: str = "gelu",
) -> nn.Module:
    """Dosovitskiy et al. 2021, small: patches of ``patch`` x ``patch`` pixels, their mean in place of a class token.

    depth: number of layers, each attention and an MLP of 4 x width units. activation: of the MLPs, "relu" or "gelu".
    The image must be a whole number of patches. Not piecewise affine: softmax, LayerNorm.
    """
    channels_of(input_shape)
    patch = read_integer("patch", patch)
    if any(side % patch for side in input_shape[1:]):
        raise InputError(
            f"Expected images whose sides are multiples of patch = {patch}, got {tuple(input_shape)}. Change patch."
        )
    return VisionTransformer(
        input_shape, classes, patch, *_sizes(depth, width, heads), activation=_activation(activation)
    )


def _sizes(depth: int, width: int, heads: int) -> tuple[int, int, int]:
    depth, width, heads = read_integer("depth", depth), read_integer("width", width), read_integer("heads", heads)
    if width % heads:
        raise InputError(f"Expected a width that is a multiple of heads = {heads}, got {width}. Change width or heads.")
    return depth, width, heads


def _norm(width: int, norm: bool) -> nn.Module:
    return nn.LayerNorm(width) if norm else nn.Identity()


def _activation(name: str) -> str:
    return one_of("activation", name, ("relu", "gelu"))
