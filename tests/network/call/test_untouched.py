"""Running a model in ``untouched``: what holds inside, and that the model itself is never touched."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from careless import Careless
from network.call.snapshots import in_another_thread, snapshot
from regionscope.errors import InputError
from regionscope.network import device_and_dtype, same_modes, untouched


def careless() -> Careless:
    return Careless(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))


def test_the_model_stays_as_it_is() -> None:
    model = careless()
    model.net[1].eval()
    x, before = torch.randn(5, 4), snapshot(model)
    with untouched(model) as private:
        private(x)
        assert not any(part.training for part in private.modules())
        assert not torch.is_grad_enabled()
        assert private.added.tolist() == [1, 1, 1]
        assert snapshot(model)[:3] == before[:3]
    assert snapshot(model) == before


def test_everything_is_back_after_an_error() -> None:
    model = careless()
    x, before = torch.randn(5, 3), snapshot(model)
    with pytest.raises(RuntimeError, match="shapes"), untouched(model) as private:
        private(x)
    assert snapshot(model) == before
    assert torch.is_grad_enabled()


def test_a_snapshot_of_the_weights() -> None:
    model, x = nn.Linear(4, 4), torch.ones(1, 4)
    wanted = model(x)
    with untouched(model) as private:
        in_another_thread(lambda: nn.init.zeros_(model.weight))
        assert torch.equal(private(x), wanted)
    assert not model.weight.any()


def test_a_model_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    with untouched(model) as private:
        assert private(torch.ones(2, 4)).shape == (2, 4)
        private[1].running_mean.add_(1)
    assert model[1].running_mean.tolist() == [0, 0, 0, 0]


def test_a_lazy_layer_without_a_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"'0\.weight' has no shape yet"), untouched(nn.Sequential(nn.LazyLinear(3))):
        raise AssertionError


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
def test_full_precision_lasts_until_the_last_thread_leaves() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with untouched(nn.Linear(2, 2)):
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=other)
    with untouched(nn.Linear(2, 2)):
        thread.start()
        inside.wait(5)
    assert not allows_tensor_float()
    leave.set()
    thread.join()
    assert allows_tensor_float()


def test_modes_alone() -> None:
    model = careless()
    model.net[2].eval()
    with same_modes(model):
        model.eval()
        model.net[2].train()
    assert [part.training for part in model.modules()] == [True, True, True, True, False]


def test_where_a_model_is_at_home() -> None:
    assert device_and_dtype(nn.Linear(2, 2).double()) == (torch.device("cpu"), torch.float64)
    with pytest.raises(InputError, match="weights with values, got weights on the device meta"):
        device_and_dtype(nn.Linear(2, 2, device="meta"))
    assert device_and_dtype(nn.BatchNorm1d(3, affine=False).half()) == (torch.device("cpu"), torch.float16)
    assert device_and_dtype(nn.ReLU()) == (torch.device("cpu"), torch.float32)
    assert device_and_dtype(nn.ReLU(), like=torch.zeros(2, dtype=torch.float64)) == (torch.device("cpu"), torch.float64)
    assert device_and_dtype(nn.ReLU(), like=torch.zeros(2, dtype=torch.int64)) == (torch.device("cpu"), torch.float32)
