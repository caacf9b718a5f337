"""Hypothesis strategies: random small piecewise-affine networks and slices of dimension 1 and 2.

A drawn ``Problem`` is a plain recipe, so a failing example prints as one line that rebuilds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import nn

from nasty.modules import LongSkip, Maxout, mlp
from regionscope.geometry import Box, Segment, Simplex, Slice

__all__ = ["KINDS", "Problem", "problems"]

KINDS = ("relu", "leaky", "relu6", "residual", "maxout", "cnn", "max-pool")
SIDE = 4


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A recipe for a network and a slice.

    grain: weights and slice points are rounded to multiples of it (0: not at all); coarse grains make lines meet in
        one point, pass through corners and vanish on whole cells. repeat: copy the first neuron of each layer over
        this many others.
    """

    kind: str
    widths: tuple[int, ...]
    n_outputs: int
    seed: int
    grain: float
    zero_bias: bool
    repeat: int
    shape: str
    reach: float

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Images for the convolutional kinds, else two or more numbers."""
        return (1, SIDE, SIDE) if self.kind in ("cnn", "max-pool") else (2 + self.seed % 3,)

    def build(self) -> nn.Module:
        """The network, in eval mode, with float64 weights; the global random stream is as before."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self._architecture().double().eval()
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                self._spoil(name, parameter)
        return network

    def _architecture(self) -> nn.Module:
        d, widths, c = self.input_shape[0], self.widths, self.n_outputs
        act = {"leaky": lambda: nn.LeakyReLU(0.25), "relu6": nn.ReLU6}.get(self.kind, nn.ReLU)
        if self.kind == "residual":
            return LongSkip(d, widths[0], c)
        if self.kind == "maxout":
            return Maxout(nn.Linear(d, 3 * widths[0]), 3, mlp([*widths, c]))
        if self.kind in ("cnn", "max-pool"):
            pool = nn.MaxPool2d(3, 2, 1) if self.kind == "max-pool" else nn.AvgPool2d(2)
            channels = min(widths[0], 3)
            front = [nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), pool, nn.Flatten()]
            return nn.Sequential(*front, mlp([channels * SIDE, *widths[1:], c]))
        return mlp([d, *widths, c], act)

    def _spoil(self, name: str, parameter: nn.Parameter) -> None:
        if self.kind == "relu6" and parameter.ndim > 1:
            parameter.mul_(4.0)  # so that the upper fold is reached
        if self.zero_bias and name.endswith("bias"):
            parameter.zero_()
        if self.repeat:
            parameter[1 : 1 + self.repeat] = parameter[:1]
        if self.grain:
            parameter.copy_((parameter / self.grain).round() * self.grain)

    def slice(self) -> Slice:
        """The slice."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        points = self.reach * (2 * torch.rand(3, *self.input_shape, generator=generator, dtype=torch.float64) - 1)
        if self.grain:
            points = (points / self.grain).round() * self.grain + torch.arange(3.0).reshape(
                3, *[1] * len(self.input_shape)
            )
            points[1].flatten()[0] += 2 * self.reach
            points[2].flatten()[1] += 3 * self.reach
        if self.shape == "segment":
            return Segment(points[0], points[1])
        if self.shape == "triangle":
            return Simplex(points)
        if self.shape == "interval":
            return Box(torch.zeros(self.input_shape), points[1:2] - points[:1], 1.0)
        return Box(torch.zeros(self.input_shape), points[1:] - points[:1], [1.0, 0.5])


@st.composite
def problems(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, dims: tuple[int, ...] = (1, 2)) -> Problem:
    """Random problems small enough for the slow twin."""
    shapes = [shape for shape, k in (("segment", 1), ("interval", 1), ("triangle", 2), ("box", 2)) if k in dims]
    width = st.integers(1, 6)
    return Problem(
        kind=draw(st.sampled_from(kinds)),
        widths=tuple(draw(st.lists(width, min_size=1, max_size=3))),
        n_outputs=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 9999)),
        grain=draw(st.sampled_from([0.0, 0.0, 0.25, 0.5])),
        zero_bias=draw(st.sampled_from([False, False, True])),
        repeat=draw(st.sampled_from([0, 0, 0, 1, 2])),
        shape=draw(st.sampled_from(shapes)),
        reach=draw(st.sampled_from([0.5, 1.0, 4.0])),
    )
