"""Options of a gradient flow, and the state of many flows with their numbers of steps and events."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import read_integer, read_number
from regionscope.errors import InputError
from regionscope_lab.shallow.losses import Loss, check_loss
from regionscope_lab.shallow.modes import FlowRows, Modes

OPTIONS_ADVICE = "Write FlowOptions(max_steps=1000), or leave it out"
ENDS = ("direction", "log-loss", "time", "stalled", "steps")


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Options of the integration of a gradient flow.

    rtol: tolerated error of a step, relative to a unit's size (and to a thousandth of the root mean square size).
    max_log_loss: the budget: stop when -log L reaches it. direction_tol: stop when every point is classified and the
    direction u = theta / |theta| has converged: |du| / d(log log t), taken over the last doubling of log t, is below
    this, and |theta|^2 grew by half meanwhile (large hidden weights hardly move early on, which is not convergence).
    The direction converges like a power of log t: the remaining change is a few times this rate. stall: stop when |grad
    F| |theta| is below it: the flow ends in a critical point with L > 0. rest: stop when -log L grew by at most this
    while tau grew tenfold and not every point is classified: the flow approaches a critical point, possibly only like a
    power of tau; 0 waits for ``stall``. max_steps: attempted steps of one flow. max_step: largest step in tau. max_tau:
    stop exactly there.
    """

    loss: Loss = "exponential"
    rtol: float = 1e-5
    max_log_loss: float = 1e6
    direction_tol: float = 0.02
    stall: float = 1e-9
    rest: float = 0.0
    max_steps: int = 20_000
    max_step: float = torch.inf
    max_tau: float = torch.inf

    def __post_init__(self) -> None:
        check_loss(self.loss)
        read_integer("max_steps", self.max_steps)
        for name in ("rtol", "max_log_loss", "direction_tol", "stall", "rest", "max_step", "max_tau"):
            if getattr(self, name) != torch.inf:
                read_number(name, getattr(self, name))
        if not (0 < self.rtol < 1 and self.max_step > 0 and self.direction_tol >= 0):
            raise InputError(
                "Expected 0 < rtol < 1, max_step > 0 and direction_tol >= 0, got "
                f"{self.rtol}, {self.max_step} and {self.direction_tol}. Leave them out for the defaults."
            )


@dataclass(frozen=True)
class Flows(FlowRows):
    """State and account of B flows; every field has the leading dimension B.

    theta: (B, 3, k) rows w, b, v. F = -log L. tau: rescaled time. log_t: logarithm of the time of the flow on L.
    log_t0: log t where L < l(0) / n, NaN before. direction_rate: |du| / d(log log t) over the last doubling of log t,
    NaN before. steps, rejected: attempted steps, and those that were cut at an event or rejected. slid: folds that
    began to slide. crossed: folds that crossed a point at the end of a step, or left one they slid on. quiet: folds
    that crossed a point within a step, late or weakly enough that it moves the state by less than a tenth of the
    tolerated error. ambiguous, pinned: see ``events``. end: -1 while running, else the index of the reason in ENDS.
    """

    theta: Tensor
    modes: Modes
    F: Tensor
    tau: Tensor
    log_t: Tensor
    log_t0: Tensor
    direction_rate: Tensor
    steps: Tensor
    rejected: Tensor
    crossed: Tensor
    slid: Tensor
    quiet: Tensor
    ambiguous: Tensor
    pinned: Tensor
    end: Tensor
