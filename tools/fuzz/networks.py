"""A small random network and a slice from a seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fuzz.modules import build
from fuzz.program import Layer, Weights
from fuzz.truth import Place

Numbers = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Network:
    """A network with its weights and a slice.

    weights_kind: a key of WEIGHTS, or "float64" for ordinary ones that are not rounded to float32 numbers. For long dot
        products what the outputs are by construction, and for scaled layers which of them are scaled.
    dtype: precision in which regionscope reads the network.
    """

    seed: int
    family: str
    weights_kind: str
    dtype: str
    layers: list[Layer]
    weights: Weights
    place: Place

    @property
    def dim(self) -> int:
        return len(self.place.basis)

    @property
    def strict(self) -> bool:
        """Whether every difference counts that the result does not warn of."""
        return self.seed >= LONG

    def module(self) -> nn.Module:
        """The network as a float64 module."""
        module = build(self.layers).double()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.from_numpy(self.weights[name]))
        return module


def network(seed: int) -> Network:
    """The network of this seed; families take turns. Seeds from MIXED on have another fold in each layer, and most of
    them steep weights; those from LONG on have long dot products, those from SCALED on layers of every scale, and
    those from OPERATORS on random graphs of operators.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    if seed >= OPERATORS:
        return operator_network(seed, rng)
    if seed >= LONG:
        return scaled_network(seed, rng) if seed >= SCALED else long_network(seed, rng)
    family = "mixed" if seed >= MIXED else list(FAMILIES)[seed % len(FAMILIES)]
    kind = [*WEIGHTS, "float64"][rng.choice(len(WEIGHTS) + 1, p=MIXED_SHARES if seed >= MIXED else SHARES)]
    dim = int(rng.choice([1, 2, 3], p=[0.5, 0.4, 0.1]))
    dtype = "float64" if kind in ("near copies", "float64") or rng.random() < 0.5 else "float32"
    layers, shape = FAMILIES.get(family, mixed)(rng, dim)
    return Network(seed, family, kind, dtype, layers, _draw(rng, layers, kind), _place(rng, shape, dim, kind))


def extreme_network(seed: int) -> Network:
    """A network on a line or plane whose weights are up to 1e8 times the usual ones, layer by layer or unit by unit."""
    rng = np.random.Generator(np.random.PCG64(10_000_000 + seed))
    family = EXTREME[seed % len(EXTREME)]
    dim = int(rng.choice([1, 2], p=[0.6, 0.4]))
    layers, shape = FAMILIES[family](rng, dim)
    mode = rng.integers(3)
    scale = 10.0 ** rng.uniform(1, 4 if mode == 0 else 8)
    weights = {}
    fan_in = 1
    for name, parameter in build(layers).named_parameters():
        fan_in = parameter[0].numel() if parameter.ndim > 1 else fan_in
        factor = scale if mode == 0 or parameter.ndim > 1 else 1.0
        drawn = ordinary(rng, tuple(parameter.shape), fan_in)
        if mode == 2:
            factor = 10.0 ** rng.uniform(-6, 6, (len(drawn), *[1] * (drawn.ndim - 1)))
        weights[name] = drawn * factor
    return Network(seed, family, "extreme", "float64", layers, weights, _place(rng, shape, dim, "ordinary"))


def long_network(seed: int, rng: Rng) -> Network:
    """A layer of 1,024 to 16,384 inputs in 0..255 on a short segment or a small plane.

    The units are pairs of opposite ones behind which the network is affine, duplicates behind which it is constant, or
    either of them beside single units, each of which adds a fold. A pair may be followed by a layer with one live unit.
    """
    dim = int(rng.choice([1, 2], p=[0.7, 0.3]))
    kind = LONG_KINDS[rng.integers(len(LONG_KINDS))]
    n, half = int(2 ** rng.uniform(10, 14)), int(rng.integers(2, 33 if dim == 1 else 9))
    rounded = rng.random() < 0.5
    center, basis = _grid(rng.uniform(0, 255, n)), rng.standard_normal((dim, n)) * 255 * 10 ** rng.uniform(-6, 0)
    basis = _grid(basis)
    weight = rng.uniform(-1, 1, (half, n)) / np.sqrt(n)
    if rounded:
        weight = weight.astype(np.float32).astype(np.float64)
    # The folds lie close to the centre of the slice, or anywhere on it.
    near = rng.random() < 0.5
    values, change = weight @ center, np.abs(weight @ basis.T).max(1)
    bias = -values * (1 - 1e-9) if near else -values + change * rng.uniform(-1, 1, half)
    sign = 1.0 if kind in ("constant", "constant and folds") else -1.0
    outputs = rng.uniform(-1, 1, (int(rng.integers(1, 4)), half)) / np.sqrt(half)
    layers: list[Layer] = [["Linear", n, 2 * half], ["ReLU"], ["Linear", 2 * half, len(outputs)]]
    other = -outputs
    if kind.endswith("folds"):
        single = np.arange(half) < rng.integers(1, min(half, 4))
        other = np.where(single, 0.0, other)
    weights = {
        "0.weight": np.concatenate([weight, sign * weight]),
        "0.bias": np.concatenate([bias, sign * bias]),
        "2.weight": np.concatenate([outputs, other], axis=1),
        "2.bias": rng.uniform(-1, 1, len(outputs)),
    }
    if kind == "one live unit":
        live = np.abs(outputs @ weight @ basis.T).max(1) * rng.uniform(-1.5, 1.5, len(outputs))
        weights["2.bias"] = -outputs @ (values + bias) + live
        weights["2.bias"][1:] -= 1e6
        layers += [["ReLU"], ["Linear", len(outputs), 2]]
        weights |= {"4.weight": rng.uniform(-1, 1, (2, len(outputs))), "4.bias": rng.uniform(-1, 1, 2)}
    dtype = "float32" if rounded and rng.random() < 0.25 else "float64"
    if rounded:
        weights = {name: drawn.astype(np.float32).astype(np.float64) for name, drawn in weights.items()}
    place = (
        Place("box", center, basis, (1.0,) * dim)
        if rng.random() < 0.5
        else Place("segment" if dim == 1 else "simplex", center - _grid(basis.sum(0) / 2), basis)
    )
    return Network(seed, "long dots", kind, dtype, layers, weights, place)


def _grid(numbers: Numbers) -> Numbers:
    """Rounded to multiples of 2^-40, so that sums of a few numbers up to 2^12 are exact."""
    return np.round(numbers * 2.0**40) / 2.0**40


def scaled_network(seed: int, rng: Rng) -> Network:
    """A small network, one or all of whose layers are 1e-12 to 1e12 times the usual ones."""
    dim = int(rng.choice([1, 2], p=[0.6, 0.4]))
    layers, shape = SCALED_FAMILIES[seed % len(SCALED_FAMILIES)](rng, dim)
    kind = SCALED_KINDS[rng.integers(len(SCALED_KINDS))]
    rounded = rng.random() < 0.5
    weights = _draw(rng, layers, "ordinary" if rounded else "float64")
    prefixes = list(dict.fromkeys(name.rpartition(".")[0] for name in weights))
    exponents = dict.fromkeys(prefixes, 0.0)
    for prefix in prefixes if kind == "all layers" else [prefixes[rng.integers(len(prefixes))]]:
        low, high = {"one layer down": (-12, -3), "one layer up": (3, 12)}.get(kind, (-12, 12))
        exponents[prefix] = rng.uniform(low, high)
    biases = rng.random() < 0.5
    for name in weights:
        prefix, _, of = name.rpartition(".")
        if biases or of == "weight":
            weights[name] = weights[name] * 10 ** exponents[prefix]
    if rounded:
        weights = {name: drawn.astype(np.float32).astype(np.float64) for name, drawn in weights.items()}
    dtype = "float32" if rounded and rng.random() < 0.25 else "float64"
    return Network(seed, "scaled", kind, dtype, layers, weights, _place(rng, shape, dim, "ordinary"))


def operator_network(seed: int, rng: Rng) -> Network:
    """Two or three linear layers, the first ones with one or two operators behind it, in blocks around some of them."""
    dim = int(rng.choice([1, 2], p=[0.8, 0.2]))
    kind = [*WEIGHTS, "float64"][rng.choice(len(WEIGHTS) + 1, p=OPERATOR_SHARES)]
    first = width = int(rng.integers(dim, dim + 3))
    layers: list[Layer] = []
    for _ in range(int(rng.integers(1, 3))):
        n = int(rng.choice([3, 4, 6] if dim == 1 else [3, 4]))
        layers.append(["Linear", width, n])
        operators, width = _operator(rng, n, dim)
        if width == n and rng.random() < 0.5:
            block = ["Residual", "Concat"][rng.integers(2)]
            operators, width = [[block, operators]], n if block == "Residual" else 2 * n
        layers += operators
    layers.append(["Linear", width, int(rng.integers(1, 4))])
    return Network(
        seed, "operators", kind, "float64", layers, _draw(rng, layers, kind), _place(rng, (first,), dim, kind)
    )


def _operator(rng: Rng, n: int, dim: int) -> tuple[list[Layer], int]:
    """One operator on n units, sometimes behind another, and the number of units it returns."""
    half = [k / 4 for k in rng.integers(-4, 5, n).tolist()]
    level, k = float(rng.integers(1, 5)) / 4, int(rng.integers(1, n))
    size = 2 if n % 2 == 0 and rng.random() < 0.5 else n
    edges = [rng.integers(0, n, rng.integers(0, 4)).tolist() for _ in range(n)]
    edges[0] = edges[0] or [n - 1]
    choices: list[tuple[Layer, int]] = [
        (["Where", float(rng.choice([0.125, 0.5, -0.5]))], n),
        (["Gate"], n),
        (["Fill", -level, level / 2], n),
        (["Shrink", level / 2], n),
        (["Sort", size], n),
        (["TopK", k], k),
        (["KthValue", k], 1),
        (["Median"], 1),
        (["CumMax"], n),
        (["CumMin"], n),
        (["AMinMax"], 2),
        (["Norm", size, str(rng.choice(["1", "inf"]))], n // size),
        (["CDist", [half, half[::-1]]], 2),
        (["Lerp", half], n),
        (["Addcmul", half], n),
        (["Messages", str(rng.choice(["sum", "amax", "amin"])), edges], n),
    ]
    if n % 2 == 0 and dim == 1:
        choices.append((["RNN", n // 2, 3], 3))
    layer, width = choices[rng.integers(len(choices))]
    before: list[Layer] = [["RFFT"]] if n == 4 and width == n and rng.random() < 0.1 else []
    if before:  # 6 units
        layer, width = ["Sort", 3], 6
    behind: list[Layer] = []
    if width > 1 and rng.random() < 0.3:
        behind, width = ([["Diff"]], width - 1) if rng.random() < 0.5 else ([["Gate"]], width)
    return [*before, layer, *behind], width


def _draw(rng: Rng, layers: list[Layer], kind: str) -> Weights:
    weights = {}
    fan_in = 1
    for name, parameter in build(layers).named_parameters():
        fan_in = parameter[0].numel() if parameter.ndim > 1 else fan_in  # a bias follows its weight
        drawn = WEIGHTS.get(kind, ordinary)(rng, tuple(parameter.shape), fan_in)
        weights[name] = drawn if kind in ("near copies", "float64") else drawn.astype(np.float32).astype(np.float64)
    return weights


def ordinary(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """The distribution of torch's default initialisation."""
    return np.asarray(rng.uniform(-1, 1, shape) / np.sqrt(fan_in))


def whole_numbers(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Small whole numbers: many folds meet in one point or coincide."""
    return rng.integers(-2, 3, shape).astype(float)


def zero_bias(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Ordinary weights, zero biases."""
    return ordinary(rng, shape, fan_in) * (len(shape) > 1)


def copies(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Duplicated and opposite neurons; biases are zero, so that copies remain copies."""
    drawn = zero_bias(rng, shape, fan_in)
    for i in range(1, len(drawn)):
        if rng.random() < 0.6:
            drawn[i] = drawn[rng.integers(i)] * rng.choice([1.0, -1.0, 2.0, -0.5])
    return drawn


def sparse(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Zero rows, unit rows and single entries; the rest is ordinary."""
    drawn = ordinary(rng, shape, fan_in)
    rows = drawn.reshape(len(drawn), -1)
    for row in rows:
        choice = rng.integers(5)
        if choice < 3:
            keep = rng.integers(rows.shape[1])
            row[:] = np.where(np.arange(rows.shape[1]) == keep, [0.0, 1.0, row[keep]][choice], 0.0)
    return drawn


def powers(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Powers of two with signs, some of them zero."""
    return np.asarray(rng.choice([-1.0, 1.0, 1.0, -1.0, 0.0], shape) * 2.0 ** rng.integers(-3, 4, shape))


def near_copies(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Neurons that are nearly copies of another, so that thin cells lie between their folds."""
    drawn = ordinary(rng, shape, fan_in)
    for i in range(1, len(drawn)):
        if rng.random() < 0.5:
            drawn[i] = drawn[i - 1] * (1 + rng.choice([-1.0, 1.0]) * 2.0 ** -rng.integers(16, 28))
    return drawn


def steep(rng: Rng, shape: tuple[int, ...], fan_in: int) -> Numbers:
    """Ordinary weights times 1,024: steep regions, and flat ones beside them where a fold saturates."""
    return ordinary(rng, shape, fan_in) * 1024


WEIGHTS: dict[str, Callable[[Rng, tuple[int, ...], int], Numbers]] = {
    "ordinary": ordinary,
    "whole numbers": whole_numbers,
    "zero bias": zero_bias,
    "copies": copies,
    "sparse": sparse,
    "powers of two": powers,
    "near copies": near_copies,
    "steep": steep,
}
SHARES = [0.25, 0.15, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0, 0.1]  # of these, and of unrounded ordinary weights
LONG, LONG_KINDS = 3_000_000, ("affine", "constant", "folds", "constant and folds", "one live unit")
SCALED, SCALED_KINDS = 4_000_000, ("one layer down", "one layer up", "all layers")
OPERATORS, OPERATOR_SHARES = 5_000_000, [0.55, 0.05, 0.05, 0.02, 0.05, 0.05, 0.0, 0.03, 0.2]
MIXED, MIXED_SHARES = 1_000_000, [0.1, 0.1, 0.05, 0.0, 0.05, 0.0, 0.0, 0.6, 0.1]


def _place(rng: Rng, shape: tuple[int, ...], dim: int, kind: str) -> Place:
    """A slice whose points are binary fractions, so that it is the same in float32."""
    step = 1 if kind in ("whole numbers", "powers of two") else 64

    def point(*more: int) -> Numbers:
        return rng.integers(-3 * step, 3 * step + 1, (*more, *shape)) / step

    while True:
        basis = point(dim)
        if np.linalg.matrix_rank(basis.reshape(dim, -1), tol=0.1) == dim:
            break
    origin = point() if rng.random() < 0.7 else np.zeros(shape)
    if rng.random() < 0.5:
        return Place("segment" if dim == 1 else "simplex", origin, basis)
    return Place("box", origin, basis, tuple((rng.integers(1, 9, dim) / 4).tolist()))


def _widths(rng: Rng, dim: int, depth: int, first: int | None = None) -> list[int]:
    """Input, hidden and output widths; fewer units in more dimensions."""
    most = {1: 12, 2: 6, 3: 4}[dim]
    hidden = rng.integers(2, most + 1, depth).tolist()
    return [first or int(rng.integers(dim, dim + 3)), *hidden, int(rng.integers(1, 4))]


def _dense(rng: Rng, dim: int, *folds: Layer) -> tuple[list[Layer], tuple[int, ...]]:
    """A plain network with these folds in turn."""
    widths = _widths(rng, dim, int(rng.integers(1, 4 if dim < 3 else 3)))
    layers: list[Layer] = []
    for (a, b), fold in zip(itertools.pairwise(widths), itertools.cycle(folds), strict=False):
        layers += [["Linear", a, b], fold]
    return layers[:-1], (widths[0],)


def mlp(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    return _dense(rng, dim, ["ReLU"])


def leaky(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    return _dense(rng, dim, ["LeakyReLU", float(rng.choice([0.125, 0.5, -0.5]))])


def absolute(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    return _dense(rng, dim, ["Abs"])


def clamp(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    folds: list[Layer] = [["ReLU6"], ["Hardtanh"], ["Hardtanh", -0.25, 0.5]]
    return _dense(rng, dim, folds[rng.integers(3)])


def mixed(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    folds: list[Layer] = [["ReLU"], ["Hardtanh"], ["ReLU6"], ["Hardtanh", -0.25, 0.5], ["LeakyReLU", 0.125], ["Abs"]]
    return _dense(rng, dim, *(folds[i] for i in rng.permutation(len(folds))))


def residual(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    d, n, m, c = _widths(rng, dim, 2)
    block: Layer = ["Residual", [["Linear", n, m], ["ReLU"], ["Linear", m, n]]]
    if rng.random() < 0.3:
        return [["Linear", d, n], ["ReLU"], ["Concat", [["Linear", n, m], ["ReLU"]]], ["Linear", n + m, c]], (d,)
    blocks = [block, ["ReLU"]] if dim == 3 else [block, ["ReLU"], block, ["ReLU"]]
    return [["Linear", d, n], ["ReLU"], *blocks, ["Linear", n, c]], (d,)


def shared(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    """One linear layer and one ReLU module, each called two or three times."""
    d, n, c = _widths(rng, dim, 1)
    again: list[Layer] = [["Again", 2], ["Again", 1]]
    return [["Linear", d, n], ["ReLU"], ["Linear", n, n], *again[1:], *again * (dim < 3), ["Linear", n, c]], (d,)


def _images(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    """A convolution of a small image, and its ReLU."""
    side = {1: int(rng.choice([4, 5, 7])), 2: 4, 3: 3}[dim]
    channels = int(rng.integers(1, {1: 4, 2: 3, 3: 2}[dim]))
    return [["Conv2d", 1, channels, 2], ["ReLU"]], (1, side, side)


def cnn(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    layers, shape = _images(rng, dim)
    channels, side, c = layers[0][2], shape[1] - 1, int(rng.integers(1, 4))
    if rng.random() < 0.3:
        layers = [["AvgPool2d", 2], ["Conv2d", 1, channels, 2, 1, 1], ["ReLU"]]
        side = shape[1] // 2 + 1
    second: list[Layer] = [["Conv2d", channels, 1, 2], ["ReLU"], ["Flatten"], ["Linear", (side - 1) ** 2, c]]
    return [*layers, *second], shape


def maxpool(rng: Rng, dim: int) -> tuple[list[Layer], tuple[int, ...]]:
    """A small CNN with max-pooling before or after ReLU, or maxout; on a line also a larger CNN with two poolings."""
    c, form = int(rng.integers(1, 4)), rng.integers(6 if dim == 1 else 5)
    if form == 5:
        stages: list[list[Layer]] = [[["Conv2d", n, 3, 3, 1, 1], ["ReLU"], ["MaxPool2d", 2]] for n in (1, 3)]
        return [*stages[0], *stages[1], ["Flatten"], ["Linear", 12, c]], (1, 8, 8)
    if form > 2:
        d, n, m, _ = _widths(rng, dim, 2)
        if form == 3:
            return [["Linear", d, 2 * n], ["Maxout", 2], ["Linear", n, 3], ["Maxout", 3], ["Linear", 1, c]], (d,)
        block: Layer = ["Maximum", [["Linear", n, m], ["ReLU"], ["Linear", m, n]]]
        return [["Linear", d, n], ["ReLU"], block, ["Linear", n, c]], (d,)
    layers, shape = _images(rng, dim)
    channels, side = layers[0][2], shape[1] - 1
    if form == 0:
        pooled = (side - 1) ** 2 * channels
        return [*layers, ["MaxPool2d", 2, 1], ["Flatten"], ["Linear", pooled, c]], shape
    tail: list[Layer] = [["Flatten"], ["Linear", channels * (side // 2) ** 2, 3], ["ReLU"], ["Linear", 3, c]]
    return ([*layers, ["MaxPool2d", 2], *tail] if form == 1 else [layers[0], ["MaxPool2d", 2], ["ReLU"], *tail]), shape


EXTREME = ("MLP", "clamp", "LeakyReLU", "residual", "max-pool")
FAMILIES: dict[str, Callable[[Rng, int], tuple[list[Layer], tuple[int, ...]]]] = {
    "MLP": mlp,
    "CNN": cnn,
    "residual": residual,
    "max-pool": maxpool,
    "clamp": clamp,
    "LeakyReLU": leaky,
    "abs": absolute,
    "shared": shared,
}
SCALED_FAMILIES = (mlp, clamp, mixed, maxpool, residual, leaky)
