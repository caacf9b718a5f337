"""What a fold says about itself: its name, its units, where it folds, the memory it needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from network.architectures import Lambda
from regionscope.errors import InputError
from regionscope.network import Fold, Maxima, Pieces, Thresholds, trace
from regionscope.network.activations import ACTIVATIONS


def only_fold(module: nn.Module, shape: tuple[int, ...]) -> Fold:
    (fold,) = trace(module, shape).folds
    return fold


def cuts_of(module: nn.Module, x: Tensor) -> Thresholds | Maxima:
    program = trace(module, tuple(x.shape[1:]))
    return program.folds[0].compared(program.begin(x))


THRESHOLDS: list[tuple[nn.Module, tuple[float, ...]]] = [
    (nn.ReLU(), (0.0,)),
    (nn.LeakyReLU(0.1), (0.0,)),
    (nn.PReLU(), (0.0,)),
    (nn.RReLU(), (0.0,)),
    (nn.ReLU6(), (0.0, 6.0)),
    (nn.Hardtanh(), (-1.0, 1.0)),
    (nn.Hardtanh(-2, 0.5), (-2.0, 0.5)),
    (nn.Hardtanh(-float("inf"), 2), (2.0,)),
    (nn.Threshold(0.3, 0.3), (0.3,)),
    (nn.Hardsigmoid(), (-3.0, 3.0)),
    (nn.Softshrink(0.2), (-0.2, 0.2)),
    (Lambda(lambda s, x: F.relu6(x)), (0.0, 6.0)),
    (Lambda(lambda s, x: x.abs()), (0.0,)),
    (Lambda(lambda s, x: x.clamp(min=0.5)), (0.5,)),
    (Lambda(lambda s, x: x.clamp(-0.5, 0.25)), (-0.5, 0.25)),
    (Lambda(lambda s, x: torch.maximum(x, torch.zeros_like(x))), (0.0,)),
    (Lambda(lambda s, x: torch.minimum(x, torch.full((1, 4), 0.75))), (0.75,)),
    (Lambda(lambda s, x: torch.max(torch.tensor(0.5), x)), (0.5,)),
]


@pytest.mark.parametrize(("module", "at"), THRESHOLDS, ids=lambda v: type(v).__name__)
def test_thresholds(module: nn.Module, at: tuple[float, ...]) -> None:
    x = torch.tensor([[-4.0, -0.6, 0.0, 7.0], [0.4, 0.6, -1.5, 3.0]], dtype=torch.float64)
    program = trace(module, (4,))
    values = program.begin(x)
    compared = program.folds[0].compared(values)
    assert isinstance(compared, Thresholds)
    assert compared.at == at
    assert torch.equal(compared.values, x)
    assert compared.values.untyped_storage().data_ptr() == next(iter(values.values())).untyped_storage().data_ptr()
    assert program.folds[0].n_units == compared.n_units == 4 * len(at)
    pattern = program.folds[0].pattern(values)
    assert pattern.dtype == torch.int8
    expected = torch.cat([x > t for t in at], dim=1).to(torch.int8)
    assert torch.equal(pattern, expected)


@pytest.mark.parametrize(("module", "at"), THRESHOLDS, ids=lambda v: type(v).__name__)
def test_pieces_are_what_the_module_computes(module: nn.Module, at: tuple[float, ...]) -> None:
    x = torch.linspace(-7, 7, 404, dtype=torch.float64).reshape(101, 4)
    program = trace(module, (4,))
    (fold,) = program.folds
    assert isinstance(fold.pieces, Pieces)
    assert (fold.pieces.at, fold.pieces.jumps) == (at, False)
    slopes, shifts = fold.lines()
    piece = torch.stack([x > threshold for threshold in at]).sum(0)
    torch.testing.assert_close(
        (slopes.gather(0, piece) * x + shifts.gather(0, piece)) / fold.pieces.divisor, program(x)
    )


@pytest.mark.parametrize(("name", "arguments"), [("hardshrink", (0.5,)), ("threshold", (0.5, -1.0))])
def test_pieces_that_do_not_meet_jump(name: str, arguments: tuple[float, ...]) -> None:
    x = torch.linspace(-2, 2, 100, dtype=torch.float64)
    form = ACTIVATIONS[name].form(*arguments)
    assert form is not None
    assert form.pieces is not None
    assert form.pieces.jumps
    torch.testing.assert_close(form.pieces(x), getattr(F, name)(x, *arguments))


def test_max_of_two_tensors_folds_at_their_difference() -> None:
    x = torch.randn(5, 4, dtype=torch.float64)
    for function in (torch.maximum, torch.max, torch.minimum, torch.fmin):
        compared = cuts_of(Lambda(lambda s, x, function=function: function(x, 2 * x.flip(1))), x)
        assert isinstance(compared, Thresholds)
        assert compared.at == (0.0,)
        assert torch.equal(compared.values, x - 2 * x.flip(1))


POOLS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.MaxPool1d(2), (2, 7)),
    (nn.MaxPool1d(3, 2, padding=1, ceil_mode=True), (2, 8)),
    (nn.MaxPool1d(2, 1, dilation=3), (1, 8)),
    (nn.MaxPool2d(2), (2, 5, 4)),
    (nn.MaxPool2d(3, stride=2, padding=1), (2, 7, 6)),
    (nn.MaxPool2d((2, 3), (3, 1), padding=(1, 1), dilation=(2, 1), ceil_mode=True), (2, 7, 6)),
    (nn.MaxPool3d(2, 1), (2, 3, 3, 3)),
    (nn.AdaptiveMaxPool1d(3), (2, 7)),
    (nn.AdaptiveMaxPool2d((2, 3)), (2, 5, 7)),
    (nn.AdaptiveMaxPool3d((2, 1, None)), (1, 3, 3, 2)),
    (Lambda(lambda s, x: x.max(2)[0]), (3, 4)),
    (Lambda(lambda s, x: x.max(dim=-2, keepdim=True).values), (3, 4)),
    (Lambda(lambda s, x: torch.amax(x, (1, 3))), (3, 4, 2)),
    (Lambda(lambda s, x: torch.stack([x, -x, 2 * x]).amax(0)), (5,)),
]


@pytest.mark.parametrize(("module", "shape"), POOLS, ids=[str(i) for i in range(len(POOLS))])
def test_maxima(module: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn((6, *shape), dtype=torch.float64)
    program = trace(module, shape)
    values = program.begin(x)
    fold = program.folds[0]
    compared = fold.compared(values)
    assert isinstance(compared, Maxima)
    assert compared.groups.dtype == torch.long
    assert fold.n_units == compared.groups.shape[0] == program.n_outputs
    expected = module(x).flatten(1)
    assert torch.equal(compared.values[:, compared.groups].amax(2), expected)
    pattern = fold.pattern(values)
    assert pattern.dtype == torch.int16
    assert torch.equal(compared.values[:, compared.groups].gather(2, pattern.long()[..., None])[..., 0], expected)


def test_ties_go_to_the_first() -> None:
    compared = Maxima(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[2, 1, 0], [0, 1, 2]]))
    assert compared.pieces().tolist() == [[1, 0]]


def test_a_window_of_one_does_not_fold() -> None:
    assert trace(nn.Sequential(nn.MaxPool2d(1, 2)), (2, 4, 4)).folds == ()
    assert trace(Lambda(lambda s, x: x.amax(1, keepdim=True)), (1, 4)).folds == ()


@pytest.mark.parametrize(
    "function",
    [
        lambda s, x: F.leaky_relu(x, 1.0),
        lambda s, x: x.clamp(None, float("inf")),
        lambda s, x: F.softshrink(x, 0.0),
        lambda s, x: x.clamp(0.5, 0.5),
        lambda s, x: x.clamp(0.5, 0.25),
        lambda s, x: F.dropout(x, 0.0),
    ],
)
def test_operations_that_do_not_fold(function: Callable[..., Tensor]) -> None:
    program, x = trace(Lambda(function), (4,)), torch.randn(3, 4, dtype=torch.float64)
    assert program.folds == ()
    assert torch.equal(program(x), function(None, x))


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU6())
        self.relu = nn.LeakyReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.block(self.act(x)))
        x = F.relu(self.relu(x) - 1)
        x = torch.relu(x - 1).clamp(0, 3)
        unused = torch.abs(x)
        return F.max_pool1d(x[:, None], 2).flatten(1) + self.act(x[:, :2]) + 0 * len(unused.shape)


def test_names_and_kinds() -> None:
    folds = trace(Named(), (4,)).folds
    assert [fold.name for fold in folds] == [
        "act", "block.1", "act#2", "relu", "relu#2", "relu#3", "clamp", "max_pool1d", "act#3",
    ]  # fmt: skip
    assert [fold.kind for fold in folds] == [
        "ReLU", "ReLU6", "ReLU", "LeakyReLU", "ReLU", "ReLU", "clamp", "MaxPool1d", "ReLU",
    ]  # fmt: skip


def test_unused_branches_are_dropped() -> None:
    module = Lambda(lambda s, x: (F.relu(s.a(x)), s.b(x))[1], a=nn.Linear(3, 3), b=nn.Linear(3, 2))
    program = trace(module, (3,))
    assert program.folds == ()
    assert len(program.instructions) == 1


def test_batchnorm_is_merged_into_the_layer_before() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten())
    program = trace(module, (3, 5, 5))
    assert len(program.instructions) == 1
    assert len(program.folds[0].instructions) == 3
    assert trace(nn.Sequential(nn.Dropout(), nn.Identity(), nn.Linear(3, 3)), (3,)).instructions[0].reads == ("x",)


def test_memory_of_a_row() -> None:
    """A skip that crosses a wide layer: 8 bytes times (skip + wide in + wide out) at the worst moment."""
    module = Lambda(lambda s, x: s.b(F.relu(s.a(x))) + x, a=nn.Linear(10, 100), b=nn.Linear(100, 10))
    fold = only_fold(module, (10,))
    assert fold.row_bytes == 8 * (10 + 100 + 100)


def test_consume_empties_the_dictionary_and_spares_a_copy() -> None:
    program = trace(nn.Sequential(nn.Linear(3, 50), nn.ReLU()), (3,))
    values = program.begin(torch.randn(7, 3, dtype=torch.float64))
    (given,) = values.values()
    (result,) = program.folds[0].advance(values, consume=True).values()
    assert result.data_ptr() == given.data_ptr()
    assert result.min() == 0


def test_consume_never_writes_to_the_input_nor_to_what_is_still_read() -> None:
    x = torch.randn(7, 4, dtype=torch.float64)
    before = x.clone()
    functions = [
        lambda s, x: F.relu(x),
        lambda s, x: F.relu(x.view(-1, 2, 2)).sum(2),
        lambda s, x: F.relu((h := 2 * x).view(-1, 2, 2)).flatten(1) + h,
        lambda s, x: F.relu(h := 2 * x) + h,
        lambda s, x: F.relu((2 * x)[:, :1].expand(-1, 4)),
        lambda s, x: torch.maximum(h := 2 * x, h.flip(1)) + h,
        lambda s, x: F.relu((h := 2 * x)[:, :2]) + F.relu(h[:, 1:3]),
    ]
    for function in functions:
        program = trace(Lambda(function), (4,))
        assert torch.allclose(program(x), function(None, x).flatten(1), rtol=1e-13)
        assert torch.equal(x, before)


def test_row_blocks_give_the_same_bits() -> None:
    module = nn.Conv2d(8, 4, 3, padding=1)
    program, x = trace(module, (8, 32, 32)), torch.randn(20, 8, 32, 32, dtype=torch.float64)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.allclose(program(x), module.double()(x).flatten(1), rtol=1e-12)
        rows = [program(part) for part in x.split(3)]
        assert torch.equal(program(x), torch.cat(rows))
    finally:
        torch.set_num_threads(threads)


def test_constants_may_be_float32() -> None:
    """The first state of a recurrent network, and positions: the weights beside them are read in float64."""

    def forward(self: Any, x: Tensor) -> Tensor:
        h: Any = torch.zeros(x.shape[0], 3)
        places = self.a(torch.linspace(0, 1, 8).reshape(4, 2)) + self.places(torch.arange(x.shape[1]))
        for step in x.unbind(1):
            h = torch.relu(self.a(step) + self.b(h)) + places.sum(0)
        return h + torch.ones(3) @ self.b.weight

    net = Lambda(forward, a=nn.Linear(2, 3), b=nn.Linear(3, 3), places=nn.Embedding(4, 3))
    x = torch.randn(5, 4, 2)
    assert torch.allclose(trace(net, (4, 2))(x.double()).float(), net(x), rtol=1e-4, atol=1e-5)


def test_constants_may_be_of_numpy() -> None:
    x, scale, shift = torch.randn(5, 3, dtype=torch.float64), np.arange(1.0, 4.0), np.array([2.0, -1.0, 0.0])[::-1]
    program = trace(Lambda(lambda s, x: (x * scale + shift).relu() / scale), (3,))
    assert np.allclose(program(x).numpy(), (scale * x.numpy() + shift).clip(0) / scale)


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_the_transpose_of_three_dimensions_reverses_them() -> None:
    x, scale = torch.randn(5, 1, 3, dtype=torch.float64), torch.arange(3.0, dtype=torch.float64)
    program = trace(Lambda(lambda s, x: (x.T * scale[:, None, None]).T), (1, 3))
    assert torch.equal(program(x), (x * scale).flatten(1))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_fold_without_units_is_refused() -> None:
    net = nn.Sequential(nn.Linear(3, 0), nn.ReLU(), nn.Linear(0, 2))
    with pytest.raises(InputError, match="'1' is ReLU and gets a value without entries"):
        trace(net, (3,))


@pytest.mark.slow
def test_pairs_of_operations_agree_with_torch() -> None:
    """Shape operations in every order, checked against torch on a batch."""
    operations: dict[str, Callable[[Tensor], Tensor]] = {
        "swap": lambda x: x.transpose(1, 2),
        "batch second": lambda x: x.transpose(0, 1).relu().transpose(0, 1),
        "move": lambda x: torch.movedim(x, 1, -1),
        "slice": lambda x: x[:, ::2, 1:],
        "none": lambda x: x[..., None, :].squeeze(-2),
        "flip": lambda x: x.flip(-1),
        "roll": lambda x: x.roll(1, dims=2),
        "narrow": lambda x: x.narrow(1, 0, 2),
        "sum": lambda x: x.sum(1, keepdim=True) + x,
        "stack": lambda x: torch.stack([x, 2 * x], dim=-1).mean(-1),
        "unbind": lambda x: torch.stack(x.unbind(1), dim=1),
        "permute": lambda x: torch.permute(x, dims=(0, 2, 1)),
        "repeat": lambda x: x.repeat_interleave(2, dim=1),
        "unfold": lambda x: x.unfold(2, 2, 1).sum(-1),
    }
    x = torch.randn(4, 4, 6, dtype=torch.float64)
    for (first, f), (second, g) in itertools.product(operations.items(), repeat=2):
        program = trace(Lambda(lambda s, x, f=f, g=g: g(F.relu(f(x)))), (4, 6))
        expected = g(F.relu(f(x))).flatten(1)
        assert torch.allclose(program(x), expected, rtol=1e-13, atol=1e-13), (first, second)
