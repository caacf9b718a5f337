"""Gradient flow of many univariate networks at once, event by event, in a time scale that reaches the late phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.shallow.events import Missed, missed_events, settle
from regionscope.shallow.losses import Loss, check_loss, log_threshold
from regionscope.shallow.modes import Modes, modes_of
from regionscope.shallow.rosenbrock import Field, evaluate, rosenbrock_step

__all__ = ["ENDS", "FlowOptions", "Flows", "Moment", "integrate"]

ENDS = ("direction", "log-loss", "time", "stalled", "steps")


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """How far and how finely to integrate.

    rtol: tolerated error of a step, relative to a unit's size (and to a thousandth of the root mean square size).
    max_log_loss: stop when -log L reaches it. direction_tol: stop when the direction theta / |theta| moved by at most
    this while |theta|^2 doubled, after every point was classified. stall: stop when |grad F| |theta| is below it: the
    flow ends in a critical point with L > 0. max_steps: attempted steps of one flow. max_step: largest step in tau.
    max_tau: stop exactly there.
    """

    loss: Loss = "exponential"
    rtol: float = 1e-5
    max_log_loss: float = 1e4
    direction_tol: float = 1e-4
    stall: float = 1e-9
    max_steps: int = 20_000
    max_step: float = torch.inf
    max_tau: float = torch.inf

    def __post_init__(self) -> None:
        check_loss(self.loss)
        if not (0 < self.rtol < 1 and self.max_steps >= 1 and self.max_step > 0 and self.direction_tol >= 0):
            raise InputError("rtol must lie in (0, 1), and max_steps, max_step and direction_tol must be positive.")


@dataclass(frozen=True)
class Flows:
    """State and account of B flows; every field has the leading dimension B.

    theta: (B, 3, k) rows w, b, v. F = -log L. tau: rescaled time. log_t: logarithm of the time of the flow on L.
    log_t0: log t where L < l(0) / n, NaN before. direction_change: |u - u'| over the last doubling of |theta|^2, NaN
    before. steps, rejected: attempted steps, and those that were cut at an event or rejected. slid: kinks that began to
    slide. crossed: kinks that crossed a point at the end of a step, or left one they slid on. quiet: kinks that crossed
    a point within a step, late or weakly enough that it moves the state by less than a tenth of the tolerated error.
    ambiguous, pinned: see ``events``. end: -1 while running, else the index of the reason in ENDS.
    """

    theta: Tensor
    modes: Modes
    F: Tensor
    tau: Tensor
    log_t: Tensor
    log_t0: Tensor
    direction_change: Tensor
    steps: Tensor
    rejected: Tensor
    crossed: Tensor
    slid: Tensor
    quiet: Tensor
    ambiguous: Tensor
    pinned: Tensor
    end: Tensor

    def take(self, rows: Tensor) -> Flows:
        """The flows ``rows``."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        taken: dict[str, Any] = {name: v.take(rows) if isinstance(v, Modes) else v[rows] for name, v in values.items()}
        return Flows(**taken)

    @staticmethod
    def joined(parts: Sequence[Flows]) -> Flows:
        """All flows of ``parts``, one after another."""
        merged: dict[str, Any] = {}
        for f in fields(Flows):
            values = [getattr(part, f.name) for part in parts]
            if isinstance(values[0], Modes):
                merged[f.name] = Modes(*(torch.cat([getattr(m, g.name) for m in values]) for g in fields(Modes)))
            else:
                merged[f.name] = torch.cat(values)
        return Flows(**merged)


Moment = Callable[[Flows, Tensor], None]


def integrate(theta: Tensor, x: Tensor, y: Tensor, options: FlowOptions, *, on_step: Moment | None = None) -> Flows:
    """Gradient flow from theta (B, 3, k) on sorted points x (B, n) with labels y (B, n) in {-1, 1}.

    Each flow has its own step size, modes and end; flows that have ended leave the batch. ``on_step`` sees the running
    flows and their rows in the batch after every round. Cost of a round: about three O(k + n) evaluations and one (n,
    n) factorisation for each running flow.
    """
    work = _Work(theta, x, y, options)
    done: list[tuple[Tensor, Flows]] = []
    rows = torch.arange(len(theta), device=theta.device)
    while len(rows):
        work.advance()
        if on_step is not None:
            on_step(work.flows, rows)
        over = work.flows.end >= 0
        # Copying the batch costs as much as a step: let a third of it end before the rest moves together.
        if int(over.sum()) * 3 >= len(rows):
            done.append((rows[over], work.flows.take(over.nonzero()[:, 0])))
            rows = rows[~over]
            work.keep((~over).nonzero()[:, 0])
    order = torch.cat([r for r, _ in done]).argsort()
    return Flows.joined([part for _, part in done]).take(order)


class _Work:
    """The running flows and the memory of the step size control."""

    def __init__(self, theta: Tensor, x: Tensor, y: Tensor, options: FlowOptions) -> None:
        self.x, self.y, self.options = x, y, options
        modes = modes_of(theta, x)
        here = evaluate(theta, modes, x, y, options.loss)
        start = settle(theta, modes, x, here.pull.r * y)
        self.here = evaluate(start.theta, start.modes, x, y, options.loss)
        count = torch.zeros(len(theta), dtype=torch.long, device=theta.device)
        nan = torch.full_like(self.here.pull.F, torch.nan)
        self.flows = Flows(
            start.theta, start.modes, self.here.pull.F, torch.zeros_like(nan), torch.full_like(nan, -torch.inf), nan,
            nan, count, count, start.crossed, start.slid, count, start.ambiguous, start.pinned, count - 1,
        )  # fmt: skip
        size = theta.flatten(1).norm(dim=1)
        self.h_full = 1e-3 * (size + 1e-3) / (self.here.speed.flatten(1).norm(dim=1) + 1e-3 * (size + 1e-3))
        self.h_next = self.h_full.clone()
        self.reference = start.theta / size.clamp(min=1e-300)[:, None, None]
        self.reference_size = size

    def keep(self, rows: Tensor) -> None:
        self.flows = self.flows.take(rows)
        self.x, self.y = self.x[rows], self.y[rows]
        force = type(self.here.pull)(*(getattr(self.here.pull, f.name)[rows] for f in fields(self.here.pull)))
        self.here = Field(self.here.q[rows], force, self.here.g[rows], self.here.speed[rows])
        for name in ("h_full", "h_next", "reference", "reference_size"):
            setattr(self, name, getattr(self, name)[rows])

    def advance(self) -> None:
        """One attempted step of every running flow."""
        flows, here, options = self.flows, self.here, self.options
        theta, modes = flows.theta, flows.modes
        fastest = here.g.square().sum(1).amax(1).sqrt()
        h = torch.minimum(self.h_next, 1 / fastest.clamp(min=1e-300)).clamp(max=options.max_step, min=1e-300)
        h = torch.minimum(h, (options.max_tau - flows.tau).clamp(min=1e-300))
        new, error = rosenbrock_step(theta, here, h, modes, self.x, self.y, options.loss)
        there = evaluate(new, modes, self.x, self.y, options.loss)
        size = torch.maximum(theta, new.nan_to_num()).square().sum(1).sqrt()
        scale = options.rtol * (size + 1e-3 * size.square().mean(1, keepdim=True).sqrt())
        ratio = (error.square().sum(1).sqrt() / scale.clamp(min=1e-300)).amax(1)
        falls = here.pull.F - 1e-9 * (1 + here.pull.F.abs()) > there.pull.F
        bad = ~(ratio <= 1) | ~torch.isfinite(there.pull.F) | falls
        missed = missed_events(theta, here, new.nan_to_num(), there, h, modes, self.x, self.y, scale)
        early = torch.isfinite(missed.share) & ~bad
        running = flows.end < 0
        ok = ~bad & ~early & running
        self._control(h, ratio, bad, early, missed.share)
        self._accept(ok, running, new, missed, h)

    def _control(self, h: Tensor, ratio: Tensor, bad: Tensor, early: Tensor, share: Tensor) -> None:
        """The next step size: by the error, unless an event cuts it short; then the old size comes again after it."""
        factor = 0.9 * ratio.nan_to_num(nan=1e6, posinf=1e6).clamp(min=1e-6) ** (-1 / 3)
        shrunk = h * factor.clamp(0.1, 0.5)
        grown = h * factor.clamp(0.3, 4.0)
        self.h_full = torch.where(
            bad, shrunk, torch.where(early, self.h_full, torch.maximum(grown, self.h_full * (h < 0.9 * self.h_full)))
        )
        self.h_next = torch.where(early, h * share.nan_to_num(posinf=1.0), self.h_full)

    def _accept(self, ok: Tensor, running: Tensor, new: Tensor, missed: Missed, h: Tensor) -> None:
        flows, options = self.flows, self.options
        theta = torch.where(ok[:, None, None], new, flows.theta)
        modes = missed.modes.where(ok, flows.modes)
        plane = theta[:, :2] - modes.normal * (modes.normal * theta[:, :2]).sum(1, keepdim=True)
        theta = torch.cat([plane, theta[:, 2:]], 1)
        here = evaluate(theta, modes, self.x, self.y, options.loss)
        settled = settle(theta, modes, self.x, here.pull.r * self.y)
        theta, modes = settled.theta, settled.modes
        if bool((settled.crossed + settled.slid + settled.pinned).any()):
            here = evaluate(theta, modes, self.x, self.y, options.loss)
        log_t = torch.where(ok, _later(flows.log_t, self.here, here, h), flows.log_t)
        threshold = log_threshold(self.x.shape[1], options.loss)
        found = ok & torch.isnan(flows.log_t0) & (threshold < here.pull.F)
        part = (threshold - flows.F) / (here.pull.F - flows.F).clamp(min=1e-300)
        log_t0 = log_t - (1 - part.clamp(0, 1)) * (log_t - flows.log_t).nan_to_num(posinf=0.0)
        step = ok.long()
        self.flows = replace(
            flows, theta=theta, modes=modes, F=torch.where(ok, here.pull.F, flows.F), log_t=log_t,
            tau=torch.where(ok, self._arrive(flows.tau, h), flows.tau), log_t0=torch.where(found, log_t0, flows.log_t0),
            steps=flows.steps + running.long(), rejected=flows.rejected + (running & ~ok).long(),
            crossed=flows.crossed + settled.crossed * step, slid=flows.slid + (settled.slid + missed.slid) * step,
            quiet=flows.quiet + missed.quiet * step, ambiguous=flows.ambiguous + settled.ambiguous * step,
            pinned=flows.pinned + settled.pinned * step,
        )  # fmt: skip
        self.here = here
        self._judge()

    def _arrive(self, tau: Tensor, h: Tensor) -> Tensor:
        end = torch.full_like(tau, self.options.max_tau)
        return torch.where(end - tau <= h * (1 + 1e-12), end, tau + h)

    def _judge(self) -> None:
        """Which flows have reached an end, and the direction change over each doubling of |theta|^2."""
        flows, options = self.flows, self.options
        size = flows.theta.flatten(1).norm(dim=1)
        doubled = (size * size >= 2 * self.reference_size * self.reference_size) & (flows.F > 0)
        direction = flows.theta / size.clamp(min=1e-300)[:, None, None]
        change = (direction - self.reference).flatten(1).norm(dim=1)
        moved = torch.where(doubled, change, flows.direction_change)
        self.reference = torch.where(doubled[:, None, None], direction, self.reference)
        self.reference_size = torch.where(doubled, size, self.reference_size)
        reasons = (
            doubled & (change <= options.direction_tol) & ~torch.isnan(flows.log_t0),
            options.max_log_loss <= flows.F,
            flows.tau >= options.max_tau,
            self.here.speed.flatten(1).norm(dim=1) * size <= options.stall,
            flows.steps >= options.max_steps,
        )
        end = flows.end
        for code, reached in enumerate(reasons):
            end = torch.where((end < 0) & reached, code, end)
        self.flows = replace(flows, direction_change=moved, end=end)


def _later(log_t: Tensor, here: Field, there: Field, h: Tensor) -> Tensor:
    """log of t + integral of e^F over the step, with F its cubic Hermite interpolant, by log-linear pieces."""
    f0, f1 = here.pull.F[:, None], there.pull.F[:, None]
    d0 = here.speed.square().sum((1, 2))[:, None] * h[:, None]
    d1 = there.speed.square().sum((1, 2))[:, None] * h[:, None]
    s = torch.linspace(0, 1, 33, dtype=f0.dtype, device=f0.device)
    cubic = f0 + s * d0 + s * s * (3 * (f1 - f0) - 2 * d0 - d1) + s**3 * (d0 + d1 - 2 * (f1 - f0))
    line = f0 + s * (f1 - f0)
    steep = torch.maximum(d0, d1) > 4 * (f1 - f0).abs() + 1e-12  # a stiff transient: the Hermite ends mislead
    curve = torch.where(steep, line, cubic)
    left, right = curve[:, :-1], curve[:, 1:]
    gap = (right - left).abs()
    # integral of e^(linear) = e^max (1 - e^-gap) / gap, times the length of the piece
    mean = torch.where(gap < 1e-6, -gap / 2, torch.log(-torch.expm1(-gap) / gap.clamp(min=1e-300)))
    pieces = torch.maximum(left, right) + mean + torch.log(h[:, None] / 32)
    return torch.logaddexp(log_t, torch.logsumexp(pieces, 1))
