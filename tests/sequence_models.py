"""Tiny transformers, with a forward pass from embeddings that keeps what it computes: the truth of many tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Gated(nn.Module):
    """down(silu(gate(x)) * up(x)), as in Llama."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(d, 2 * d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.down = nn.Linear(2 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, d: int, heads: int, mlp: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out, self.heads = nn.Linear(d, 3 * d), nn.Linear(d, d), heads
        acts = {"relu": nn.ReLU, "gelu": nn.GELU}
        self.mlp = Gated(d) if mlp == "gated" else nn.Sequential(nn.Linear(d, 2 * d), acts[mlp](), nn.Linear(2 * d, d))

    def forward(self, x: Tensor, kept: list[tuple[str, Tensor]] | None = None) -> Tensor:
        n, t, d = x.shape
        q, k, v = (part.reshape(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        between = x + self.out(mixed.transpose(1, 2).reshape(n, t, d))
        y = self.norm2(between)
        if kept is not None:
            kept.append(("input", y))
            kept.append(("activation", self.mlp.gate(y) if isinstance(self.mlp, Gated) else self.mlp[0](y)))
        return between + self.mlp(y)


class TinyGPT(nn.Module):
    """Token ids (n, t) to logits (n, t, vocab)."""

    def __init__(self, vocab: int = 30, d: int = 8, depth: int = 2, mlp: str = "relu", seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens, self.positions = nn.Embedding(vocab, d), nn.Embedding(16, d)
            self.layers = nn.ModuleList(Layer(d, 2, mlp) for _ in range(depth))
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids: Tensor) -> Tensor:
        return self.from_embeddings(self.tokens(ids))

    def from_embeddings(self, x: Tensor, kept: list[tuple[str, Tensor]] | None = None, first: int = 0) -> Tensor:
        """The logits from embeddings (or, for first > 0, from the hidden states before that layer)."""
        x = x if first else x + self.positions(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers[first:]:
            x = layer(x, kept)
        return self.head(self.norm(x))


def prompts(n: int, t: int, vocab: int = 30, seed: int = 1) -> Tensor:
    return torch.randint(1, vocab, (n, t), generator=torch.Generator().manual_seed(seed))


def near(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, atol=1e-5)
