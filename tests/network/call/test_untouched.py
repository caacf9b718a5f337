"""Running a model in ``untouched``: what holds inside, and that everything is back afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from careless import Careless
from regionscope.errors import InputError
from regionscope.network import home, same_modes, untouched


def careless() -> Careless:
    return Careless(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))


def snapshot(model: nn.Module) -> list[object]:
    buffers = [(name, id(value)) for part in model.modules() for name, value in part._buffers.items()]
    state = [(name, value.tolist(), value._version) for name, value in model.state_dict().items()]
    return [buffers, state, [part.training for part in model.modules()], torch.get_rng_state().tolist()]


def test_everything_is_back() -> None:
    model = careless()
    model.net[1].eval()
    before = snapshot(model)
    with untouched(model):
        model(torch.randn(5, 4))
        assert not any(part.training for part in model.modules())
        assert not torch.is_grad_enabled()
        assert model.added.tolist() == [1, 1, 1]
    after = snapshot(model)
    added = [name for name, _, _ in before[1]].index("added")
    assert before[1][added][:2] == after[1][added][:2]
    del before[1][added], after[1][added]  # it was written to twice, which its version may say
    assert after == before


def test_everything_is_back_after_an_error() -> None:
    model = careless()
    model.net[1].eval()
    modes = [part.training for part in model.modules()]
    with pytest.raises(RuntimeError, match="shapes"), untouched(model):
        model(torch.randn(5, 3))
    assert [part.training for part in model.modules()] == modes
    assert (model.added.tolist(), model.replaced.tolist(), model.cached) == ([0, 0, 0], [0, 0, 0], None)
    assert torch.is_grad_enabled()


def test_buffers_that_nobody_wrote_to_have_no_new_version() -> None:
    """They may be part of a graph that is waiting for its backward pass."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    loss = model(torch.randn(8, 4)).sum()
    with untouched(model):
        model(torch.randn(8, 4))
    loss.backward()
    assert model[0].weight.grad is not None


def test_inference_mode_is_left_for_a_while() -> None:
    model = careless()
    with torch.inference_mode():
        with untouched(model):
            assert not torch.is_inference_mode_enabled()
            assert not torch.is_grad_enabled()
            assert not model(torch.randn(5, 4)).is_inference()
            with torch.enable_grad():
                assert model(torch.randn(5, 4)).requires_grad
        assert torch.is_inference_mode_enabled()
    assert model.added.tolist() == [0, 0, 0]


def test_a_model_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    with untouched(model):
        assert model(torch.ones(2, 4)).shape == (2, 4)
        with torch.inference_mode():
            model[1].running_mean.add_(1)
    assert model[1].running_mean.tolist() == [0, 0, 0, 0]


def test_a_lazy_layer_gets_its_shape() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    with untouched(model):
        model(torch.ones(2, 4))
    assert model[1].running_mean.tolist() == [0, 0, 0]


def test_what_is_no_module_runs_in_the_same_way() -> None:
    before = torch.get_rng_state()
    with untouched(lambda x: x):
        torch.rand(3)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)


def allows_tensor_float() -> bool:
    matmul = torch.backends.cuda.matmul
    return bool(matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32)


@pytest.fixture
def tensor_float() -> Iterator[None]:
    """The user allows TensorFloat-32."""
    matmul = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)
    before = getattr(matmul, name)
    setattr(matmul, name, value)
    yield
    setattr(matmul, name, before)


@pytest.mark.usefixtures("tensor_float")
def test_full_precision_unless_told_otherwise() -> None:
    model = nn.Linear(2, 2)
    with untouched(model):
        assert not allows_tensor_float()
    with untouched(model, precise=False):
        assert allows_tensor_float()
    assert allows_tensor_float()


def test_modes_alone() -> None:
    model = careless()
    model.net[2].eval()
    with same_modes(model):
        model.eval()
        model.net[2].train()
    assert [part.training for part in model.modules()] == [True, True, True, True, False]


def test_where_a_model_is_at_home() -> None:
    assert home(nn.Linear(2, 2).double()) == (torch.device("cpu"), torch.float64)
    with pytest.raises(InputError, match="on the device meta, without values"):
        home(nn.Linear(2, 2, device="meta"))
    assert home(nn.BatchNorm1d(3, affine=False).half()) == (torch.device("cpu"), torch.float16)
    assert home(nn.ReLU()) == (torch.device("cpu"), torch.float32)
    assert home(nn.ReLU(), like=torch.zeros(2, dtype=torch.float64)) == (torch.device("cpu"), torch.float64)
    assert home(nn.ReLU(), like=torch.zeros(2, dtype=torch.int64)) == (torch.device("cpu"), torch.float32)
