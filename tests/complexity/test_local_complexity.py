"""Local complexity against a slow twin, and the options that must not change it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from devices import needs_cuda
from regionscope.complexity import LocalComplexity, deformation, local_complexity, orthonormal_frames
from regionscope.errors import InputError
from regionscope.types import Estimate
from twins.local_complexity import local_complexity_by_hooks

Folds = dict[str, tuple[float, ...]]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6))
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.act(x + self.inner(x)) - 0.3)


def mlp() -> tuple[nn.Module, tuple[int, ...], Folds]:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 3))
    return model, (5,), {"1": (0.0,), "3": (0.0,)}


def images() -> tuple[nn.Module, tuple[int, ...], Folds]:
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU6(inplace=True), nn.AvgPool2d(2),
        nn.Conv2d(3, 2, 2), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(2, 2),
    )  # fmt: skip
    model[1].running_mean.uniform_(-0.3, 0.3)
    model[1].running_var.uniform_(0.05, 0.1)
    with torch.no_grad():  # so that the second convolution is near zero, too
        model[4].bias -= model.eval()[:5](torch.randn(99, 2, 4, 4)).mean((0, 2, 3))
    return model, (2, 4, 4), {"2": (0.0, 6.0), "5": (0.0,)}


def residual() -> tuple[nn.Module, tuple[int, ...], Folds]:
    return Residual(), (6,), {"inner.1": (0.0,), "act": (0.0,), "act#2": (0.0,)}


def flattened() -> tuple[nn.Module, tuple[int, ...], Folds]:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Hardtanh(-0.5, 0.5)), (3, 4), {"2": (-0.5, 0.5)}


def many_inputs() -> tuple[nn.Module, tuple[int, ...], Folds]:
    return nn.Sequential(nn.Linear(300, 40), nn.ReLU(), nn.Linear(40, 3)), (300,), {"1": (0.0,)}


class Masked(nn.Module):
    """Compares its input with 0, which hides NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.act = nn.Linear(6, 12), nn.Linear(6, 12), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.first(x) + self.second((x > 0).to(x.dtype)))


def masked() -> tuple[nn.Module, tuple[int, ...], Folds]:
    return Masked(), (6,), {"act": (0.0,)}


@pytest.mark.parametrize("build", [mlp, images, residual, flattened, many_inputs, masked])
@pytest.mark.parametrize("frames", ["shared", "per-point"])
def test_equals_the_slow_twin(build, frames: str) -> None:
    torch.manual_seed(3)
    model, shape, folds = build()
    model.double().eval()
    x = torch.randn(4, *shape, dtype=torch.float64)
    found = local_complexity(model, x, dims=4, radius=1.5, frames=frames, seed=5)
    own = orthonormal_frames(shape, dims=4, points=None if frames == "shared" else 4, seed=5, dtype=torch.float64)
    each = [own] * 4 if frames == "shared" else list(own)
    watched = {name: (model.get_submodule(name.split("#")[0]), at) for name, at in folds.items()}
    wanted = local_complexity_by_hooks(model, x, each, 1.5, watched)
    assert {name: counts.tolist() for name, counts in found.by_layer.items()} == wanted
    assert found.total.tolist() == [sum(column) for column in zip(*wanted.values(), strict=True)]
    assert all(sum(counts) > 0 for counts in wanted.values())


def wide() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 40), nn.GELU(), nn.Linear(40, 3)).double()


def same(first: LocalComplexity, second: LocalComplexity) -> bool:
    return first.by_layer.keys() == second.by_layer.keys() and all(
        torch.equal(first.by_layer[name], second.by_layer[name]) for name in first.by_layer
    )


@pytest.mark.parametrize("frames", ["shared", "per-point"])
def test_batching_never_changes_the_answer(frames: str) -> None:
    model, x = wide(), torch.randn(7, 20, dtype=torch.float64)
    options = {"dims": 6, "radius": 0.4, "frames": frames}
    whole = local_complexity(model, x, **options, memory=1 << 30)
    assert int(whole.total.sum()) > 20
    for rows in (1, 3, 12, 64, 70, 128):  # from one vertex at a time to a few points at a time
        assert same(whole, local_complexity(model, x, **options, memory=rows * 640))
    if frames == "shared":
        halves = [local_complexity(model, part, **options) for n in (1, 2, 6) for part in (x[:n], x[n:])]
        for first, rest in zip(halves[::2], halves[1::2], strict=True):
            assert torch.equal(whole.total, torch.cat([first.total, rest.total]))


def test_memory_bounds_the_batch() -> None:
    for memory, largest in ((100 * 641, 100), (3 * 641, 3), (1, 1)):
        model, sizes = wide(), list[int]()
        model.register_forward_pre_hook(lambda _, args, sizes=sizes: sizes.append(len(args[0])))
        local_complexity(model, torch.randn(10, 20), dims=6, memory=memory)
        first, rows = sizes[:4], sizes[4:]
        assert first == [7, 2, 1, 1]  # two passes that list the layers, and a look at two inputs
        assert sum(rows) == 10 * 12
        assert 0.8 * largest <= max(rows) <= largest


def test_the_frame_of_a_seed_stays_as_it_is() -> None:
    model, x = wide(), torch.randn(7, 20)
    with torch.inference_mode():
        first = local_complexity(model, x, dims=6, radius=0.4)
    orthonormal_frames((20,), dims=6).zero_()  # a frame of the user's own
    assert same(first, local_complexity(model, x, dims=6, radius=0.4))
    assert same(first, local_complexity(model, x, frames=orthonormal_frames((20,), dims=6), radius=0.4))


@pytest.mark.parametrize("prepare", [lambda x: x, lambda x: x.mul_(2), lambda x: x.flip(1), lambda x: x[:, ::2]])
def test_the_first_layer_shortcut_is_only_taken_for_the_vertices_themselves(prepare) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.LazyLinear(30, dtype=torch.float64)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.linear(prepare(x)))

    torch.manual_seed(0)
    model, x = Net(), torch.randn(9, 20, dtype=torch.float64)
    model(x[:1].clone())
    one_frame = orthonormal_frames((20,), dims=6, dtype=torch.float64)
    shared = local_complexity(model, x, frames=one_frame, radius=0.5)
    repeated = local_complexity(model, x, frames=one_frame.expand(9, 6, 20).contiguous(), radius=0.5)
    assert int(shared.total.sum()) > 10
    assert torch.equal(shared.total, repeated.total)


def test_layers_by_name_pattern_and_type() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 5), nn.Tanh(),
        nn.Linear(5, 2),
    )  # fmt: skip
    x = torch.randn(3, 1, 6, 6)

    def chosen(**options: object) -> list[str]:
        return list(local_complexity(model, x, dims=3, **options).by_layer)

    assert chosen() == ["2", "6"]
    assert chosen(layers=nn.Conv2d) == chosen(layers=nn.ReLU) == ["2"]
    assert chosen(layers=nn.Linear) == chosen(layers="6") == ["6"]
    assert chosen(layers=nn.Linear, linear_outputs=True) == ["6", "7"]
    assert chosen(layers=["[0-5]", nn.Tanh]) == ["2", "6"]
    assert chosen(max_pool=True, linear_outputs=True) == ["2", "3", "6", "7"]
    assert chosen(layers="[05]") == ["2", "6"]
    assert chosen(layers="[57]", linear_outputs=True) == ["6", "7"]
    assert chosen(layers="[25]") == ["2"]  # a pattern that fits an activation means activations
    with pytest.raises(
        InputError, match=r"got 'conv'\. Choose from 2, 6, or from the layers that feed them, 0, 5; with linear_outputs"
    ):
        chosen(layers="conv")


def test_counts_by_hand() -> None:
    pool, x = nn.MaxPool1d(2), torch.tensor([[[0.0, 1.0, 5.0, 5.1]], [[3.0, 3.1, 0.0, 0.1]], [[0.0, 9.0, 9.0, 0.0]]])
    windows = local_complexity(pool, x, frames=torch.eye(4).reshape(4, 1, 4), radius=0.2, max_pool=True)
    assert windows.total.tolist() == [1, 2, 0]  # windows whose winner changes
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    model[0].weight.data = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    x = torch.tensor([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    assert local_complexity(model, x, frames=torch.eye(2), radius=0.5).total.tolist() == [1, 0, 0]  # 0 has no sign


@needs_cuda
def test_the_same_counts_on_cuda() -> None:
    model, x = wide(), torch.randn(40, 20, dtype=torch.float64)
    for frames in ("shared", "per-point"):
        cpu = local_complexity(model.cpu(), x, dims=6, radius=0.4, frames=frames)
        assert torch.equal(cpu.total, local_complexity(model.cuda(), x, dims=6, radius=0.4, frames=frames).total.cpu())


def test_the_result_says_its_spread() -> None:
    counted = local_complexity(wide(), torch.randn(50, 20), dims=5, radius=0.4)
    assert counted.stderr == counted.std / math.sqrt(50) == Estimate.of(counted.total).stderr
    assert counted.units == {"1": 40, "3": 40}
    assert "points=50" in repr(counted)


def test_a_seed_keeps_the_frame() -> None:
    model, x = wide(), torch.randn(30, 20, dtype=torch.float64)
    for frames in ("shared", "per-point"):
        options = {"dims": 3, "radius": 0.3, "frames": frames}
        first = local_complexity(model, x, **options, seed=1)
        assert same(first, local_complexity(model, x, **options, seed=1))
        assert not same(first, local_complexity(model, x, **options, seed=2))


ROWS: list[int] = []  # of the inputs that ``Shifted`` has shifted


class Shifted(nn.Module):
    """Reads its input before the first linear layer; hide: and goes on with zeros if that raises an error."""

    def __init__(self, hide: bool) -> None:
        super().__init__()
        self.hide, self.net = hide, wide()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            shifted = x + 1
            ROWS.append(len(x))
        except Exception:
            if not self.hide:
                raise
            shifted = torch.zeros(len(x), 20, dtype=torch.float64)
        return self.net(shifted)


@pytest.mark.parametrize("hide", [False, True])
def test_a_trial_without_the_vertices_ends_where_they_are_read(hide: bool) -> None:
    x = torch.randn(3, 20, dtype=torch.float64)
    ROWS.clear()
    found = local_complexity(Shifted(hide), x, dims=4, radius=0.5)
    assert ROWS.count(3 * 8) == 1
    assert found.total.equal(local_complexity(wide(), x + 1, dims=4, radius=0.5).total)


def broken() -> nn.Module:
    model = wide()
    model[2].weight.data[0, 0] = torch.nan
    return model


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dims": 0}, "1 <= dims <= 20"),
        ({"dims": 21}, "1 <= dims <= 20"),
        ({"dims": 2.5}, r"1 <= dims <= 20 for inputs of 20 entries, got 2\.5"),
        ({"memory": 0}, "memory to be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed to be a whole number"),
        ({"layers": 3}, "Expected layers to be names"),
        ({"radius": "1"}, "finite number for radius"),
        ({"radius": 0.0}, "larger than 0"),
        ({"frames": "all"}, "per-point"),
        ({"frames": torch.ones(3, 20)}, r"orthonormal directions in frames, got an error of 2\.0e\+01"),
        ({"frames": torch.eye(19)}, r"frames of shape \(P, \*input_shape\) .*got \(19, 19\)"),
        ({"inputs": torch.tensor([0.0, 0.0, torch.nan]).repeat(20, 1).T}, "NaN or infinite values in input 2"),
        ({"model": broken()}, "finite values, got NaN at '3'"),
        ({"attention_mask": torch.ones(2)}, "attention_mask with token ids"),
        ({"inputs": torch.zeros(0, 20)}, "at least one point"),
        ({"inputs": torch.zeros(20)}, "input_shape"),
    ],
)
def test_mistakes_get_a_sentence(change: dict[str, object], sentence: str) -> None:
    options: dict[str, Any] = {"model": wide(), "inputs": torch.zeros(2, 20), "dims": 3, **change}
    with pytest.raises(InputError, match=sentence):
        local_complexity(**options)


def test_as_many_directions_as_a_small_input_has() -> None:
    flat = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    assert local_complexity(flat, torch.randn(3, 2)).dims == 2
    assert local_complexity(nn.Sequential(nn.Linear(30, 4), nn.ReLU()), torch.randn(3, 30)).dims == 25
    assert deformation(flat, torch.randn(3, 2)).dims == 2
    assert orthonormal_frames((1, 3, 4)).shape == (12, 1, 3, 4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_is_measured_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    low = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 3)).to(dtype)
    x = torch.rand(20, 64).to(dtype)
    found = local_complexity(low, x, radius=0.005)
    assert found.total.sum() > 0
    assert torch.equal(found.total, local_complexity(low.double(), x.double(), radius=0.005).total)


def test_frames_are_orthonormal_and_do_not_depend_on_the_batch() -> None:
    frames = orthonormal_frames((3, 7), dims=21, points=4, seed=2, dtype=torch.float64)
    flat = frames.flatten(2)
    assert torch.allclose(flat @ flat.transpose(1, 2), torch.eye(21, dtype=torch.float64).expand(4, 21, 21), atol=1e-12)
    generator = torch.Generator().manual_seed(2)
    parts = [orthonormal_frames((3, 7), dims=21, points=n, generator=generator, dtype=torch.float64) for n in (1, 3)]
    assert torch.equal(torch.cat(parts), frames)
    assert torch.allclose(orthonormal_frames((3, 7), dims=21, points=4, seed=2), frames.float(), atol=1e-4)
    assert not torch.allclose(flat[0], flat[1], atol=0.1)


def test_frames_made_from_one_are_orthonormal_and_haar_distributed() -> None:
    generator = torch.Generator().manual_seed(0)
    first = orthonormal_frames((300,), dims=3, points=4, generator=generator, dtype=torch.float64)
    assert torch.allclose(first @ first.transpose(1, 2), torch.eye(3, dtype=torch.float64).expand(4, 3, 3), atol=1e-12)
    frames = torch.cat([first, *(orthonormal_frames((300,), dims=3, points=400, seed=i).double() for i in range(5))])
    assert float(frames.mean((0, 1)).abs().max()) < 5 * (300 * 3 * len(frames)) ** -0.5
    assert torch.allclose((300 * frames**2).mean((0, 1)), torch.ones(300, dtype=torch.float64), atol=0.15)
    between = (frames[:-1] * frames[1:]).sum(2)  # of neighbours: mean 0 and variance 1 / 300
    assert abs(float(between.mean())) < 5 * between.numel() ** -0.5 / 300**0.5
    assert float(between.var()) * 300 == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("d", "dims"), [(5, 2), (3, 3), (2, 1), (16, 2)])
@pytest.mark.parametrize("shared", [True, False])
def test_directions_take_both_signs_equally_often(d: int, dims: int, shared: bool) -> None:
    if shared:
        frames = torch.stack([orthonormal_frames((d,), dims=dims, seed=i) for i in range(400)])
    else:
        frames = orthonormal_frames((d,), dims=dims, points=400)
    assert float(((frames > 0).double().mean(0) - 0.5).abs().max()) < 5 * 0.5 / 400**0.5
