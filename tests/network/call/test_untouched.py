"""Running a model in ``untouched``: what holds inside, and that the model itself is never touched."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from careless import Careless
from regionscope.errors import InputError
from regionscope.network import Draws, device_and_dtype, same_modes, untouched
from regionscope.network.call import forward


def careless() -> Careless:
    return Careless(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))


def snapshot(model: nn.Module) -> list[object]:
    buffers = [(name, id(value)) for part in model.modules() for name, value in part._buffers.items()]
    state = [(name, value.tolist(), value._version) for name, value in model.state_dict().items()]
    return [buffers, state, [part.training for part in model.modules()], torch.get_rng_state().tolist()]


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


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_snapshot_of_the_weights() -> None:
    model, x = nn.Linear(4, 4), torch.ones(1, 4)
    wanted = model(x)
    with untouched(model) as private:
        in_another_thread(lambda: nn.init.zeros_(model.weight))
        assert torch.equal(private(x), wanted)
    assert not model.weight.any()


def test_a_graph_that_waits_for_its_backward_pass() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    loss = model(torch.randn(8, 4)).sum()
    with untouched(model) as private:
        private(torch.randn(8, 4))
    loss.backward()
    assert model[0].weight.grad is not None


def test_inference_mode_is_left_for_a_while() -> None:
    model = careless()
    with torch.inference_mode():
        with untouched(model) as private:
            assert not torch.is_inference_mode_enabled()
            assert not torch.is_grad_enabled()
            assert not private(torch.randn(5, 4)).is_inference()
            with torch.enable_grad():
                assert private(torch.randn(5, 4)).requires_grad
        assert torch.is_inference_mode_enabled()
    assert model.added.tolist() == [0, 0, 0]


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


def test_what_is_no_module_runs_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # other tests may leave threads behind
    before = torch.get_rng_state()
    with untouched(lambda x: x):
        torch.rand(3)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)


# random numbers


def draw(how: str) -> None:
    {
        "rand": lambda: torch.rand(3),
        "random_": lambda: torch.empty(3, dtype=torch.int64).random_(),
        "dropout": lambda: nn.functional.dropout(torch.ones(3)),
        "seed": lambda: (torch.manual_seed(3), torch.rand(3)),
        "own": lambda: torch.rand(3, generator=torch.Generator().manual_seed(0)),
    }[how]()


def test_what_could_draw_but_does_not_counts_as_no_draw() -> None:
    x = torch.ones(1, 2, 3, 4)
    for draw, wanted in (({}, False), ({"dropout_p": 0.0, "is_causal": True}, False), ({"dropout_p": 0.5}, True)):
        with Draws(x.device) as draws:
            nn.functional.scaled_dot_product_attention(x, x, x, **draw)
            nn.functional.rrelu(x)
        draws.put_back()
        assert draws.happened is wanted


@pytest.mark.parametrize("how", ["rand", "random_", "dropout", "seed", "own"])
def test_random_numbers_are_put_back(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1 if how == "seed" else 2)
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda *_: draw(how))
    before = torch.get_rng_state()
    with untouched(model) as private:
        private(torch.ones(1, 2))
        private(torch.ones(1, 2))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", ["rand", "random_", "dropout", "own"])
def test_random_numbers_of_a_module_that_is_not_copied(how: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, the states of the generators tell whether it draws; beside other threads its operations do."""
    watched: list[object] = []
    monkeypatch.setattr(Draws, "__torch_dispatch__", seen_by(watched, Draws.__torch_dispatch__))
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    model = nn.Linear(2, 2).eval()
    model.register_forward_hook(lambda *_: draw(how))
    before = torch.get_rng_state()
    with untouched(model, copy=False) as private:
        private(torch.ones(1, 2))
        assert bool(watched) is (threads == 2)
        watched.clear()
        private(torch.ones(1, 2))
        assert bool(watched) is (how != "own")  # all further calls of a model that draws
        monkeypatch.setattr(threading, "active_count", lambda: 2)  # a thread that starts meanwhile
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_that_a_thread_of_the_model_draws_stay_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts in the first call, which begins without other threads."""
    ready, stop = threading.Event(), threading.Event()
    drawn: list[Tensor] = []
    monkeypatch.setattr(threading, "active_count", lambda: 1 + len(drawn))

    def work() -> None:
        drawn.append(torch.rand(3))
        ready.set()
        stop.wait(60)

    def start(*_: Any) -> None:
        if not drawn:
            threading.Thread(target=work).start()
            ready.wait(60)

    model = nn.Linear(2, 2).eval()
    model.register_forward_hook(start)
    with untouched(model, copy=False) as private:
        private(torch.ones(1, 2))
    again = torch.rand(3)
    stop.set()
    assert not torch.equal(again, drawn[0])


def test_a_mode_does_not_see_how_the_generators_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    class Names(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with untouched(nn.Linear(2, 2), copy=False) as private, Names():
        private(torch.ones(1, 2))
    assert "linear" in names
    assert "equal" not in names


def seen_by(watched: list[object], dispatch: Callable[..., Any]) -> Callable[..., Any]:
    def see(self: Draws, func: object, *rest: Any) -> Any:
        watched.append(func)
        return dispatch(self, func, *rest)

    return see


@pytest.mark.parametrize("inside", [0, 2])
def test_random_numbers_of_another_thread_stay_drawn(inside: int) -> None:
    """Another thread, such as a training loop, moves the generator on: it must not be given the same numbers again."""
    go, drawn, end = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        go.wait(5)
        torch.rand(7)
        drawn.set()
        end.wait(5)

    thread = threading.Thread(target=other)
    thread.start()
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda *_: draw("rand"))
    torch.manual_seed(0)
    with untouched(model) as private:
        for _ in range(inside):
            private(torch.ones(1, 2))
        go.set()
        drawn.wait(5)
    found = torch.rand(5)
    end.set()
    thread.join()
    torch.manual_seed(0)
    torch.rand(3 * inside)
    torch.rand(7)
    assert torch.equal(found, torch.rand(5))


# ways in which a forward pass reaches its modules


class Helper:
    """A plain object that holds a module."""

    def __init__(self, part: nn.Module) -> None:
        self.parts = {"it": part}

    def run(self, x: Tensor) -> Tensor:
        return self.parts["it"](x)


class Reaches(nn.Module):
    def __init__(self, function: Any, part: nn.Module) -> None:
        super().__init__()
        self.function, self.part = function, part

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


GLOBAL = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))


class ReachesGlobal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = GLOBAL

    def forward(self, x: Tensor) -> Tensor:
        return GLOBAL(x)


@pytest.mark.parametrize("way", ["closure", "default", "partial", "method", "helper", "bound helper", "list", "global"])
def test_the_copy_is_reached_on_every_way(way: str) -> None:
    part = GLOBAL

    def apply(x: Tensor, part: nn.Module = part) -> Tensor:
        return part(x)

    helper, listed = Helper(part), [part]
    function = {
        "closure": lambda x: part(x),
        "default": apply,
        "partial": functools.partial(nn.Module.__call__, part),
        "method": part.forward,
        "helper": lambda x: helper.run(x),
        "bound helper": helper.run,
        "list": lambda x: listed[0](x),
        "global": None,
    }[way]
    model = (ReachesGlobal() if way == "global" else Reaches(function, part)).train()
    x, before = torch.randn(6, 4), snapshot(model)
    with untouched(model) as private:
        found = private(x)
    assert snapshot(model) == before
    assert part.training
    part.eval()
    assert torch.equal(found, part(x))
    assert helper.parts["it"] is part


class Sealed:
    """An object that the copy cannot look into."""

    __slots__ = ("part",)

    def __init__(self, part: nn.Module) -> None:
        self.part = part


def test_a_way_that_cannot_be_followed_is_refused_before_it_does_harm() -> None:
    part = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    sealed = Sealed(part)
    model, x = Reaches(lambda x: sealed.part(x), part), torch.randn(6, 4)
    before = snapshot(model)
    with pytest.raises(InputError, match=r"a model that reaches .*got one that changes"), untouched(model) as private:
        private(x)
    assert snapshot(model) == before
    model.eval()
    with untouched(model) as private:  # harmless
        assert torch.equal(private(x), model(x))


def test_hooks_run_on_the_copy() -> None:
    model, seen = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), list[nn.Module]()
    model[1].register_forward_hook(lambda module, *_: seen.append(module))
    with untouched(model) as private:
        private(torch.ones(1, 4))
    assert seen == [private[1]]
    model(torch.ones(1, 4))
    assert seen[1:] == [model[1]]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm, nn.utils.parametrizations.weight_norm])
def test_weights_that_hooks_compute(norm: Any) -> None:
    model, x = norm(nn.Linear(4, 4)), torch.randn(3, 4)
    with untouched(model) as private:
        found = private(x)
    assert torch.equal(found, model.eval()(x))


def test_tied_weights_and_recurrent_layers() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    with untouched(model) as private:
        assert private[0].weight is private[1].weight
        assert private[0].weight is not model[0].weight
    lstm, x = nn.LSTM(4, 3), torch.randn(2, 5, 4)
    with untouched(lstm) as private_lstm:
        in_another_thread(lambda: nn.init.zeros_(lstm.weight_ih_l0))
        assert private_lstm(x)[0].std() > 0
        assert private_lstm._flat_weights[0] is private_lstm.weight_ih_l0


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_a_scripted_model() -> None:
    scripted, x = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))), torch.randn(3, 4)
    with untouched(nn.Sequential(scripted)) as private:
        assert torch.equal(private(x), private(x))
    assert scripted.training


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


@pytest.mark.parametrize("mode", [Draws, forward._Watch])
def test_watching_a_model_imports_no_compiler(mode: Any) -> None:
    """Torch wraps this method unless a mode says not to, and the wrapper imports the compiler, which takes seconds."""
    assert not hasattr(mode.__torch_dispatch__, "__wrapped__")
