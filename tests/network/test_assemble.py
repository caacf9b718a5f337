"""The plan of a program: which values are live at each step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regionscope.network import assemble, trace


class Dense(nn.Module):
    """Every layer reads all values before it, and the sum of two of them is the output."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 * (i + 1), 2) for i in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        seen = [x]
        for layer in self.layers:
            seen.append(torch.relu(layer(torch.cat(seen, 1))))
        return seen[-1] + seen[1]


def chain(layers: int) -> nn.Module:
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(2, 2), nn.ReLU())])


def plan_of(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> assemble._Plan:
    plans: list[assemble._Plan] = []

    class Seen(assemble._Plan):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            plans.append(self)

    monkeypatch.setattr(assemble, "_Plan", Seen)
    trace(model, (2,))
    return plans[0]


@pytest.mark.parametrize("model", [chain(4), Dense(4), nn.Sequential(), nn.Sequential(nn.Linear(2, 2))])
def test_live_values_are_those_made_before_and_read_later(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(model, monkeypatch)
    for i in range(len(plan.steps) + 1):
        live = {x for x, last in plan.last_read.items() if plan.made_at[x] < i <= last}
        assert set(plan.live[i]) == live
        assert len(plan.live[i]) == len(live)


def test_a_chain_of_any_depth_has_one_live_value_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(chain(200), monkeypatch)
    assert max(map(len, plan.live)) == 1
