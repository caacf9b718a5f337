"""Li's correlation for a convolutional network with LayerNorm and GELU."""

from __future__ import annotations

from regionscope_lab.config import DataSpec, NetworkSpec
from regionscope_lab.papers.study import Size
from regionscope_lab.papers.transformers.correlation import correlation_study
from regionscope_lab.papers.transformers.settings import TransformerGrid

GRIDS: dict[Size, TransformerGrid] = {
    "smoke": TransformerGrid(
        data=DataSpec(name="digits", n_train=32, n_test=50, options={"test_share": 0.5}),
        network=NetworkSpec(name="convnext", options={"width": 4}),
        epochs=2, lr=(0.01, 0.003), batch_size=(16, 32), weight_decay=(0.01,), seeds=(0,), lines=5, planes=2,
    ),
    "desk": TransformerGrid(
        data=DataSpec(name="digits", options={"test_share": 0.8}),
        network=NetworkSpec(name="convnext", options={"width": 16}),
        epochs=50, lr=(0.003, 0.0015, 0.0008), batch_size=(16, 32, 64), weight_decay=(0.01,), seeds=(0, 1, 2),
        lines=100, planes=16,
    ),
    "full": TransformerGrid(
        data=DataSpec(name="cifar10", n_train=10_000), network=NetworkSpec(name="convnext"), epochs=40,
        lr=(0.002, 0.001, 0.0005), batch_size=(128, 256, 512), weight_decay=(0.01,), seeds=(0, 1, 2), lines=500,
        planes=50, precision="bf16",
    ),
}  # fmt: skip

CONVNEXT = correlation_study("beyond-convnext", GRIDS, "Learning rates are those of AdamW.")
