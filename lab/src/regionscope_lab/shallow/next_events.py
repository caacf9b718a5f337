"""The two data points that each fold could meet next: how far away they are, and when it will be there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope_lab.shallow.events import ON_FOLD, QUIET, at_points, length_of
from regionscope_lab.shallow.modes import Modes, guards
from regionscope_lab.shallow.rosenbrock import Field
from regionscope_lab.shallow.rows import FlowRows


@dataclass(frozen=True)
class NextEvents(FlowRows):
    """Guards of B flows with k units, all (B, 2, k); see ``guards`` for index and sign.

    at, length: the point x and |(x, 1)|. Kept from step to step and renewed only for flows whose modes changed.
    """

    index: Tensor
    sign: Tensor
    at: Tensor
    length: Tensor

    @staticmethod
    def of(modes: Modes, x: Tensor) -> NextEvents:
        """The guards of ``modes`` on the points x (B, n)."""
        index, sign = guards(modes, x.shape[1])
        values = at_points(x, index)
        return NextEvents(index, sign, values, torch.sqrt(1 + values * values))

    def gap(self, theta: Tensor) -> Tensor:
        """sign * (w x + b): positive as long as the fold has not met the point."""
        return self.sign * torch.addcmul(theta[:, 1:2], theta[:, :1], self.at)

    def over(self, new: Tensor) -> Tensor:
        """Which flows (B,) have a fold that went past its point."""
        return (self.gap(new) < -ON_FOLD * length_of(new)[:, None] * self.length).flatten(1).any(1)

    def due(self, theta: Tensor, here: Field) -> Tensor:
        """Which flows (B,) have a fold that is at its point and moving over it."""
        close = self.gap(theta) <= ON_FOLD * length_of(theta)[:, None] * self.length
        return (close & (self.gap(here.speed) < 0) & (self.sign != 0)).flatten(1).any(1)

    def wait(self, theta: Tensor, here: Field, h: Tensor, scale: Tensor) -> Tensor:
        """The time (B,) to just behind the first event that a step of h would have to be cut at, or inf.

        By the present speed. Late by half of what would be quiet, so that a small error of the guess does not matter.
        """
        rate = self.gap(here.speed)
        away = self.gap(theta).clamp(min=0)
        time = torch.where(rate < 0, away / -rate.clamp(max=-1e-300), torch.inf)
        pull = at_points(here.pull.r, self.index) * self.length
        weight = pull * (theta[:, 2].abs() + length_of(theta))[:, None]
        leeway = QUIET * scale[:, None] / weight.clamp(min=1e-300)
        cut = time + leeway < h[:, None, None]
        return torch.where(cut, time + 0.5 * leeway, torch.inf).flatten(1).amin(1)
