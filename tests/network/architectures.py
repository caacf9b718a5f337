"""A named list of networks that must be read exactly; each entry is (name, factory, input shape)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from regionscope.network import Program, trace


class Architecture(NamedTuple):
    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]


class Lambda(nn.Module):
    """A module whose forward is the given function of (module, x), with the given layers as children."""

    def __init__(self, function: Callable[..., Tensor], **children: object) -> None:
        super().__init__()
        self.function = function
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def _mlp(activation: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 9), activation, nn.Linear(9, 7), activation, nn.Linear(7, 3))


def _fixed(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


class BasicBlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int, inplace: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=inplace)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    """The CIFAR form of ResNet18, with the width as an option."""

    def __init__(self, width: int = 64, blocks: tuple[int, ...] = (2, 2, 2, 2)) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        layers, channels = [], width
        for i, count in enumerate(blocks):
            for j in range(count):
                layers.append(BasicBlock(channels, width * 2**i, 2 if i and not j else 1))
                channels = width * 2**i
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layers(self.stem(x))
        out = F.avg_pool2d(out, out.size(3))
        return self.head(out.view(out.size(0), -1))


class DenseLayer(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1)
        self.drop = nn.Dropout2d(0.3)

    def forward(self, features: list[Tensor] | Tensor) -> Tensor:
        parts = [features] if isinstance(features, Tensor) else features
        return self.drop(self.conv(F.relu(self.norm(torch.cat(parts, 1)), inplace=True)))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(DenseLayer(3 + 4 * i, 4) for i in range(3))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(15, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for block in self.blocks:
            features.append(block(features))
        return self.head(torch.flatten(self.pool(F.relu(torch.cat(features, dim=1))), 1))


def _vgg() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for out in (6, 0, 8, 8, 0):
        if out == 0:
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            channels = out
    head = nn.Sequential(nn.Linear(32, 12), nn.ReLU(True), nn.Dropout(), nn.Linear(12, 4))
    return nn.Sequential(nn.Sequential(*layers), nn.Flatten(), head)


def _conv(kind: type[nn.Module], *args: object, **kwargs: object) -> nn.Module:
    return nn.Sequential(kind(*args, **kwargs), nn.LeakyReLU(0.1), nn.Flatten())


def _maxout(self: Lambda, x: Tensor) -> Tensor:
    h = self.a(x)
    return self.b(h.view(h.size(0), 5, 3).max(-1)[0])


def _maxout_stack(self: Lambda, x: Tensor) -> Tensor:
    return torch.stack([self.a(x), self.b(x), self.c(x)]).max(dim=0).values


def _channel_shuffle(self: Lambda, x: Tensor) -> Tensor:
    b, c, h, w = x.size()
    y = x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)
    return self.conv(y).relu().mean((2, 3))


def _slicing(self: Lambda, x: Tensor) -> Tensor:
    parts = [x[:, 0], x[:, -1], x[..., 1, :], x[:, 1, None].squeeze(1), x[:, [1, 0]][:, 1], x[:, self.index].mean(1)]
    return F.relu(torch.cat([part.flatten(1) for part in parts], dim=1))


def _split(self: Lambda, x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=1)
    c, d, e = x.split([1, 2, 1], dim=1)
    f = torch.stack(x.unbind(1)[:2], dim=-1)
    return torch.relu(torch.cat([a - b, c.expand(-1, 2), d * 2, e.repeat(1, 2), f.relu()], dim=1))


def _arithmetic(self: Lambda, x: Tensor) -> Tensor:
    y = 2 * x - 1 + self.p * x / 3 - (-x) * 0.5 + (1 - x) @ self.m + x / self.q
    y = torch.add(y, x, alpha=2).sub(1.5).mul(self.q).div(2)
    return self.m.t() @ torch.relu(y).unsqueeze(-1)


def _aliases(self: Lambda, x: Tensor) -> Tensor:
    """The in-place ReLU changes ``h`` too, which is read again: the residual is the rectified value."""
    h = self.a(x)
    out = self.act(h)
    out = self.b(out)
    out += h
    keep = out.clone()
    out.clamp_(-0.5, 0.5)
    out *= 2
    return out + keep + h


def _extremes(self: Lambda, x: Tensor) -> Tensor:
    y = self.a(x)
    pair = torch.max(y[:, :3], y[:, 3:6]) + torch.minimum(y[:, 1:4], self.p) - torch.max(self.p, y[:, 3:6])
    low, _ = torch.min(y.view(-1, 3, 3), 1, keepdim=True)
    wide = y.view(-1, 3, 3).amax((1, 2)) - y.amin(1)
    rectified = torch.maximum(y, torch.zeros_like(y))
    clipped = rectified.sum(1) + y.clamp_min(0.1).sum(1) - y.clip(max=self.p[0].item()).sum(1)
    return torch.cat([pair, low.squeeze(1), torch.stack([wide, clipped], 1)], 1)


def _training_flag(self: Lambda, x: Tensor) -> Tensor:
    h = self.a(x)
    if self.training:
        h = h * torch.randn_like(h)
    images = F.dropout2d(x[:, :, None, None], training=self.training)
    return F.dropout(F.relu(h), 0.5, self.training) + images[:, :, 0, 0]


def _zero_padded_shortcut(self: Lambda, x: Tensor) -> Tensor:
    short = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 1, 2))
    fill = torch.zeros(x.size(0), 1, 3, 3, dtype=x.dtype)
    return torch.cat([F.relu(self.conv(x) + short), fill], 1).flatten(1)


def _resized(self: Lambda, x: Tensor) -> Tensor:
    up = F.interpolate(x, scale_factor=2, mode="nearest")
    up = self.up(F.relu(up - 0.2)) + F.interpolate(x, size=(12, 12), mode="bilinear", align_corners=True)
    return F.relu(F.pixel_shuffle(F.adaptive_max_pool2d(up, (5, 4)), 1)).mean(-1)


def _padded(self: Lambda, x: Tensor) -> Tensor:
    modes = [F.pad(x, (1, 2, 1, 0), mode=mode) for mode in ("reflect", "replicate", "circular")]
    named = F.pad(x, (1, 2, 1, 0, 0, 0, 0, 0), value=0.7)  # each dimension, with nothing added to the batch
    return torch.relu(sum(modes) + named + F.pad(x, (1, 2, 1, 0), value=0.7)).flatten(1)


def _functional_weights(self: Lambda, x: Tensor) -> Tensor:
    h = F.relu(F.conv2d(x, self.w * 0.5, self.p, padding=1))
    h = F.conv2d(h, self.w.transpose(0, 1))
    h = F.linear(h.flatten(1), self.m, None)
    return torch.einsum("bi,io->bo", F.relu(h), self.n)


def _token_mixing(self: Lambda, x: Tensor) -> Tensor:
    h = x.permute(1, 0, 2)
    h = (h + self.p).relu().transpose(0, 1)
    return h + self.mix(h.transpose(1, 2)).transpose(1, 2).relu()


def _bounds(self: Lambda, x: Tensor) -> Tensor:
    h = self.a(x)
    outer = F.hardtanh(h, -0.3, 0.4) + h.clamp(-0.1, 0.2) + torch.clip(h, min=0.05) + abs(h) + F.threshold(h, 0.3, 0.3)
    return outer + F.relu6(3 * h) + h.clamp(min=self.p) + F.hardsigmoid(4 * h) + F.softshrink(h, 0.1)


def _masked(self: Lambda, x: Tensor) -> Tensor:
    h = torch.where(self.mask, x, 2 * x).masked_fill(~self.mask, 0.5)
    return torch.relu(h[:, self.mask] - h.flip(1)[:, :2]).cumsum(1)


def _pruned() -> nn.Module:
    layer = nn.Linear(4, 8)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 3))


def _normed(norm: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(norm(nn.Linear(4, 8)), nn.ReLU(), norm(nn.Linear(8, 3)))


def _clamped_constants(self: Lambda, x: Tensor) -> Tensor:
    """Constants, clamped by bounds that depend on the input."""
    both = torch.clamp(self.p, min=self.q, max=x) + torch.clamp(self.p, min=x, max=self.q)
    return both + torch.clamp(self.p, max=x) + torch.clamp(torch.tensor(0.3), min=torch.tensor(0.1), max=x)


def _in_place(self: Lambda, x: Tensor) -> Tensor:
    a = 2 * x
    b = a
    b += 1
    b -= x
    a *= 3
    a /= 2
    F.relu_(a)
    return b.view(-1, 2, 2).flatten(1) + a + torch.clamp_(b.clone(), -1, 1)


def _indices_of_numpy(self: Lambda, x: Tensor) -> Tensor:
    parts = [x[:, np.array([0, 2])], x[:, np.array([[2], [0]])], x[:, np.array([True, False, True])], x[:, np.int64(1)]]
    return torch.cat([part.flatten(1) for part in (*parts, x[:, :, np.array([0, 1])])], 1).relu()


class _Reversed(torch.autograd.Function):
    """A rectifier with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def _tied() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module[2].weight = module[0].weight
    return module


def _shared() -> nn.Module:
    layer, act = nn.Linear(4, 4), nn.ReLU()
    return nn.Sequential(layer, act, layer, act, nn.Sequential(layer, act))


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "leaky": lambda: nn.LeakyReLU(0.2),
    "prelu": nn.PReLU,
    "rrelu": nn.RReLU,
    "relu6": nn.ReLU6,
    "hardtanh": nn.Hardtanh,
    "hardtanh wide": lambda: nn.Hardtanh(-0.5, 2.0, inplace=True),
    "hardsigmoid": nn.Hardsigmoid,
    "threshold": lambda: nn.Threshold(0.1, 0.1),
    "softshrink": lambda: nn.Softshrink(0.1),
}

_P = (3, 7, 8)

ARCHITECTURES: list[Architecture] = [
    *(Architecture(f"mlp, {name}", lambda make=make: _mlp(make()), (4,)) for name, make in ACTIVATIONS.items()),
    Architecture("affine only", lambda: nn.Sequential(nn.Linear(4, 3), nn.Identity(), nn.Dropout()), (4,)),
    Architecture("prelu per channel", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(4), nn.Flatten()), _P),
    Architecture("conv, same, dilated", lambda: _conv(nn.Conv2d, 3, 4, 3, padding="same", dilation=2), _P),
    Architecture("conv, grouped, strided", lambda: _conv(nn.Conv2d, 3, 6, 3, stride=2, padding=1, groups=3), _P),
    Architecture("conv, depthwise", lambda: _conv(nn.Conv2d, 3, 3, 3, padding=1, groups=3), _P),
    *(
        Architecture(f"conv, {mode}", lambda mode=mode: _conv(nn.Conv2d, 3, 4, 3, padding=1, padding_mode=mode), _P)
        for mode in ("reflect", "replicate", "circular")
    ),
    Architecture("conv 1d", lambda: _conv(nn.Conv1d, 3, 4, 3, padding=1, padding_mode="circular"), (3, 9)),
    Architecture("conv 3d", lambda: _conv(nn.Conv3d, 2, 3, 2), (2, 4, 4, 3)),
    Architecture("conv transposed", lambda: _conv(nn.ConvTranspose2d, 3, 4, 3, stride=2, output_padding=1), _P),
    Architecture("conv transposed, grouped, bn", lambda: nn.Sequential(
        nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6), nn.ReLU(), nn.ConvTranspose1d(6, 2, 2),
        nn.BatchNorm1d(2), nn.ReLU(), nn.Flatten()), (4, 5)),
    Architecture("bn after linear", lambda: nn.Sequential(
        nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5), nn.BatchNorm1d(5, affine=False),
        nn.ReLU()), (4,)),
    Architecture("bn before relu and conv", lambda: nn.Sequential(
        nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.AvgPool2d(2), nn.Flatten()),
        _P),
    Architecture("bn read twice", lambda: Lambda(
        lambda s, x: F.relu(s.bn(h := s.conv(x)) + h).flatten(1), conv=nn.Conv2d(3, 4, 3), bn=nn.BatchNorm2d(4)), _P),
    Architecture("bn of a sequence", lambda: nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(3), nn.ReLU()), (3, 5)),
    Architecture("bn 3d", lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3), nn.ReLU(), nn.Flatten()),
        (2, 4, 4, 3)),
    Architecture("pools 1d", lambda: nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.MaxPool1d(3, 2, padding=1, dilation=1), nn.AvgPool1d(2), nn.ReLU(),
        nn.AdaptiveMaxPool1d(3), nn.AdaptiveAvgPool1d(2), nn.Flatten()), (2, 17)),
    Architecture("max-pool, ceil, dilated", lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d((3, 2), (2, 3), padding=1, dilation=(1, 2), ceil_mode=True),
        nn.Flatten(), nn.Linear(64, 3)), (3, 7, 9)),
    Architecture("max-pool 3d", lambda: nn.Sequential(nn.MaxPool3d(2), nn.Flatten()), (2, 4, 4, 5)),
    Architecture("adaptive max-pool", lambda: nn.Sequential(nn.AdaptiveMaxPool2d((3, None)), nn.Flatten()), _P),
    Architecture("vgg", _vgg, (3, 8, 8)),
    Architecture("resnet", lambda: ResNet(4, (1, 2)), (3, 8, 8)),
    Architecture("densenet", DenseNet, (3, 6, 6)),
    Architecture("maxout", lambda: Lambda(_maxout, a=nn.Linear(4, 15), b=nn.Linear(5, 2)), (4,)),
    Architecture("maxout, stacked", lambda: Lambda(_maxout_stack, **{k: nn.Linear(4, 5) for k in "abc"}), (4,)),
    Architecture("channel shuffle", lambda: Lambda(_channel_shuffle, conv=nn.Conv2d(4, 4, 1)), (4, 3, 3)),
    Architecture("slicing", lambda: Lambda(_slicing, index=torch.tensor([0, 2])), (3, 4, 4)),
    Architecture("split and stack", lambda: Lambda(_split), (4,)),
    Architecture("arithmetic", lambda: Lambda(_arithmetic, p=_fixed(4), m=_fixed(4, 4), q=_fixed(1, 4)), (4,)),
    Architecture("in-place aliases", lambda: Lambda(
        _aliases, a=nn.Linear(4, 4), b=nn.Linear(4, 4), act=nn.ReLU(inplace=True)), (4,)),
    Architecture("extremes", lambda: Lambda(_extremes, a=nn.Linear(4, 9), p=_fixed(3)), (4,)),
    Architecture("bounds", lambda: Lambda(_bounds, a=nn.Linear(4, 6), p=_fixed(6)), (4,)),
    Architecture("training flag", lambda: Lambda(_training_flag, a=nn.Linear(4, 4)), (4,)),
    Architecture("zero-padded shortcut", lambda: Lambda(
        _zero_padded_shortcut, conv=nn.Conv2d(2, 5, 3, 2, 1)), (2, 6, 6)),
    Architecture("resized", lambda: Lambda(_resized, up=nn.Upsample(size=(12, 12), mode="bilinear")), (2, 4, 5)),
    Architecture("padded", lambda: Lambda(_padded), (2, 4, 5)),
    Architecture("functional weights", lambda: Lambda(
        _functional_weights, w=_fixed(3, 3, 3, 3), p=_fixed(3), m=_fixed(6, 27), n=_fixed(6, 2)), (3, 5, 5)),
    Architecture("token mixing", lambda: Lambda(_token_mixing, p=_fixed(5, 1, 4), mix=nn.Linear(5, 5)), (5, 4)),
    Architecture("fixed masks", lambda: Lambda(_masked, mask=torch.tensor([True, False, True, False])), (4,)),
    Architecture("fixed mask and a number", lambda: Lambda(
        lambda s, x: F.relu(torch.where(s.mask, x, 0.5)), mask=torch.tensor([True, False, True, False])), (4,)),
    Architecture("autograd function", lambda: Lambda(lambda s, x: _Reversed.apply(x - 0.5) + x), (4,)),
    Architecture("layers called twice", _shared, (4,)),
    Architecture("clamped constants", lambda: Lambda(_clamped_constants, p=_fixed(4), q=_fixed(4)), (4,)),
    Architecture("in place, with every alias", lambda: Lambda(_in_place), (4,)),
    Architecture("indices of numpy", lambda: Lambda(_indices_of_numpy), (3, 3)),
    Architecture("tied weights", _tied, (4,)),
    Architecture("unflatten", lambda: nn.Sequential(
        nn.Linear(4, 12), nn.ReLU(), nn.Unflatten(1, (3, 2, 2)), nn.Conv2d(3, 2, 2), nn.Flatten()), (4,)),
    Architecture("weight_norm", lambda: _normed(parametrizations.weight_norm), (4,)),
    Architecture("pruned", _pruned, (4,)),
]  # fmt: skip


def freshly_built(architecture: Architecture, seed: int = 0) -> nn.Module:
    """The network with random weights and BatchNorm statistics away from their defaults; in training mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = architecture.build()
        for child in module.modules():
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                child.running_mean.normal_(0, 0.3)
                child.running_var.uniform_(0.5, 2)
                if child.affine:
                    nn.init.normal_(child.weight, 1.0, 0.5)
                    nn.init.normal_(child.bias, 0.0, 0.3)
            if isinstance(child, nn.PReLU):
                nn.init.uniform_(child.weight, -0.3, 0.6)
    return module


@cache
def traced(architecture: Architecture) -> Program:
    """The program of the freshly built network, which is read once for all tests of a process."""
    return trace(freshly_built(architecture), architecture.shape)
