"""The networks under the instruments: exact regions where piecewise affine, a refusal elsewhere, estimates for all."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope_lab import zoo

SHAPE = (3, 4, 4)
EXACT: list[tuple[str, dict[str, Any], float]] = [  # name, options, length of the segment
    ("resnet18", {"bn": False, "width": 16}, 0.1),
    ("resnet18", {"stem": "imagenet", "width": 16}, 0.2),
    ("preactresnet18", {"width": 16}, 0.05),
    ("vgg19", {}, 0.004),
    ("mobilenetv2", {"activation": "relu6"}, 0.0005),
    ("shufflenetv2", {}, 0.002),
    ("regnetx200mf", {}, 0.002),
    ("simpledla", {}, 0.0015),
    ("mlp", {"activation": "hardtanh"}, 2.0),
    ("cnn", {"bn": False, "pooling": "avg", "activation": "leaky_relu"}, 0.5),
]
SMOOTH: list[tuple[str, dict[str, Any], str]] = [
    ("senet18", {}, "'stage1.block1.branch.squeeze_excite1.sigmoid' is Sigmoid, which is not piecewise affine"),
    ("efficientnetb0", {}, "'stem.silu1' is SiLU, which is not piecewise affine"),
    ("convnext", {"width": 16}, "'stem.norm' .* calls torch.nn.functional.layer_norm, which is not piecewise affine"),
    ("mlp", {"activation": "gelu"}, "'gelu1' is GELU, which is not piecewise affine"),
    ("cnn", {"activation": "tanh"}, "'features.tanh1' is Tanh, which is not piecewise affine"),
]


def images(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(seed))


def used(name: str, **options: Any) -> nn.Module:
    """The network after a few batches in training mode, so that BatchNorm has statistics of its own."""
    return copy.deepcopy(_used(name, **options))


@cache
def _used(name: str, **options: Any) -> nn.Module:
    model = zoo.build(name, classes=4, input_shape=SHAPE, **options)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = None  # the mean over all batches
        for seed in range(2):
            model(images(16, seed))
    return model.eval()


@pytest.mark.parametrize(("name", "options", "length"), EXACT)
def test_exact_regions_prove_themselves(name: str, options: dict[str, Any], length: float) -> None:
    model = used(name, **options)
    a, b = images(2, seed=9).double()
    slice = rs.Segment(a, b).extended(0.0, length / float((b - a).norm()))
    part = rs.linear_regions(model, slice, max_regions=500)
    part.check()
    assert part.n_linear_regions > 1
    folds = [n for n, layer in model.named_modules() if isinstance(layer, nn.ReLU | nn.ReLU6 | nn.LeakyReLU)]
    assert set(folds) <= set(part.by_layer)
    ends = model.double()(torch.stack([a, slice.embed(slice.corners)[-1]]))
    order = part.vertices[:, 0].argsort()
    assert torch.allclose(part.outputs[order[[0, -1]]], ends, atol=1e-9)


@pytest.mark.parametrize(("name", "options", "sentence"), SMOOTH)
def test_smooth_layers_are_refused_by_name(name: str, options: dict[str, Any], sentence: str) -> None:
    model = zoo.build(name, input_shape=SHAPE, **options)
    with pytest.raises(rs.NotPiecewiseAffine, match=sentence):
        rs.linear_regions(model, rs.Segment(*images(2)))


@pytest.mark.parametrize("name", [name for name in zoo.names() if name != "gpt"])
def test_every_network_can_be_counted_and_watched(name: str) -> None:
    model = used(name, **({"width": 16} if name in ("resnet18", "resnet34", "preactresnet18", "senet18") else {}))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    count = rs.region_count(model, images(6), dim=1, slices=3, grid=8, method="grid")
    assert count.counts.shape == (3,)
    assert 1 <= count.value <= 8
    lc = rs.local_complexity(model, images(2), dims=3, radius=0.5)
    assert lc.mean > 0
    kinds = nn.ReLU | nn.SiLU | nn.Sigmoid | nn.GELU
    assert set(lc.by_layer) == {n for n, m in model.named_modules() if isinstance(m, kinds)}
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_local_complexity_with_the_stem_for_imagenet() -> None:
    """The stem's ReLU and the windows of its pooling, recounted from one pass over all vertices."""
    model = zoo.build("resnet18", classes=4, input_shape=(3, 20, 20), width=4, stem="imagenet").double().eval()
    x = torch.randn(3, 3, 20, 20, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    frame = rs.complexity.orthonormal_frames((3, 20, 20), dims=4, dtype=torch.float64)
    found = rs.local_complexity(model, x, frames=frame, radius=2.0, max_pool=True)
    assert found.units["stem.relu1"] == 4 * 10 * 10
    assert found.units["stem.pool1"] == 4 * 5 * 5
    for i, point in enumerate(x):
        with torch.no_grad():
            before = model.stem.bn1(model.stem.conv1(torch.cat([point + 2.0 * frame, point - 2.0 * frame])))
        _, largest = nn.functional.max_pool2d(before.relu(), 3, 2, 1, return_indices=True)
        folded = (before.amin(0) < 0) & (before.amax(0) > 0)
        assert int(found.by_layer["stem.relu1"][i]) == int(folded.sum()) > 0
        assert int(found.by_layer["stem.pool1"][i]) == int((largest != largest[0]).any(0).sum()) > 0
    assert len(found.by_layer) == 18
    plain = rs.local_complexity(model, x, frames=frame, radius=2.0)
    assert torch.equal(plain.total, found.total - found.by_layer["stem.pool1"])
