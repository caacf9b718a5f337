"""Random numbers that a model draws inside ``untouched``: they are put back, and those of other threads stay drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regionscope.network import Draws, untouched


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
