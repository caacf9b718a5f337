"""Gradient flow of many univariate networks at once, event by event, in a time scale that reaches the late phase."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regionscope_lab.shallow.events import FlowStep, NextEvents, Settled, missed_events, release, settle, slide_end
from regionscope_lab.shallow.kernel import tangent
from regionscope_lab.shallow.losses import log_threshold
from regionscope_lab.shallow.modes import Modes, modes_of
from regionscope_lab.shallow.rosenbrock import Field, evaluate, rosenbrock_step
from regionscope_lab.shallow.state import FlowOptions, Flows

OnStep = Callable[[Flows, Tensor], None]
_MEMORY = (
    "h_full", "h_next", "cuts", "failed_guess", "reference", "reference_clock", "reference_size", "rest_tau", "rest_F",
)  # fmt: skip
_GROWTH = 1.5  # of |theta|^2 over that window: late in a flow it grows like log t
_WINDOW = math.log(2.0)  # of log log t, over which the rate of the direction is taken


def integrate(theta: Tensor, x: Tensor, y: Tensor, options: FlowOptions, *, on_step: OnStep | None = None) -> Flows:
    """Gradient flow from theta (B, 3, k) on sorted points x (B, n) with labels y (B, n) in {-1, 1}.

    Each flow has its own step size, modes and end; flows that have ended leave the batch. ``on_step`` sees the running
    flows and their rows in the batch after every round. Cost of a round: about three O(k + n) evaluations and one (n,
    n) factorisation for each running flow.
    """
    integration = _Integration(theta, x, y, options)
    done: list[tuple[Tensor, Flows]] = []
    rows = torch.arange(len(theta), device=theta.device)
    while len(rows):
        with torch.inference_mode():  # 15% less time: no bookkeeping for gradients
            integration.advance()
        if on_step is not None:
            on_step(integration.flows, rows)
        over = integration.flows.end >= 0
        # Copying the batch costs as much as a step: let a tenth of it end before the rest moves together.
        if int(over.sum()) * 10 >= len(rows):
            done.append((rows[over], integration.flows.take(over.nonzero()[:, 0])))
            rows = rows[~over]
            integration.keep((~over).nonzero()[:, 0])
    order = torch.cat([r for r, _ in done]).argsort()
    return Flows.joined([part for _, part in done]).take(order)


class _Integration:
    """The running flows and the memory of the step size control.

    h_full: the step that the error allows. h_next: the next one to try, shorter on the way to an event. cuts: how often
    the present step has been cut. failed_guess: a predicted event did not come, so none is predicted until one happens.
    next_events: the points that folds could meet next.
    """

    def __init__(self, theta: Tensor, x: Tensor, y: Tensor, options: FlowOptions) -> None:
        self.x, self.y, self.options = x, y, options
        modes = modes_of(theta, x)
        here = evaluate(theta, modes, x, y, options.loss)
        start = settle(theta, modes, x, here.pull.r * y)
        self.here = evaluate(start.theta, start.modes, x, y, options.loss)
        self.next_events = NextEvents.of(start.modes, x)
        count = torch.zeros(len(theta), dtype=torch.long, device=theta.device)
        nan = torch.full_like(self.here.pull.F, torch.nan)
        self.flows = Flows(
            start.theta, start.modes, self.here.pull.F, torch.zeros_like(nan), torch.full_like(nan, -torch.inf), nan,
            nan, count, count, start.crossed, start.slid, count, count, count, count - 1,
        )  # fmt: skip
        size = theta.flatten(1).norm(dim=1)
        self.h_full = 1e-3 * (size + 1e-3) / (self.here.speed.flatten(1).norm(dim=1) + 1e-3 * (size + 1e-3))
        self.h_next = self.h_full.clone()
        self.cuts, self.failed_guess = count, count > 0
        self.reference = start.theta / size.clamp(min=1e-300)[:, None, None]
        self.reference_clock, self.reference_size = torch.zeros_like(size), size
        self.rest_tau, self.rest_F = torch.ones_like(size), self.here.pull.F.clone()

    def keep(self, rows: Tensor) -> None:
        self.flows = self.flows.take(rows)
        self.x, self.y = self.x[rows], self.y[rows]
        self.here, self.next_events = self.here.take(rows), self.next_events.take(rows)
        for name in _MEMORY:
            setattr(self, name, getattr(self, name)[rows])

    def advance(self) -> None:
        """One attempted step of every running flow."""
        flows, here, options = self.flows, self.here, self.options
        theta, modes = flows.theta, flows.modes
        fastest = here.g.square().sum(1).amax(1).sqrt()
        h = torch.minimum(self.h_next, 1 / fastest.clamp(min=1e-300)).clamp(max=options.max_step, min=1e-300)
        h = torch.minimum(h, (options.max_tau - flows.tau).clamp(min=1e-300))
        wait = self.next_events.wait(theta, here, h, self._scale(theta, theta))
        guess = (wait < h) & ~self.failed_guess & (self.cuts == 0)
        h = torch.where(guess, wait, h)
        new, error = rosenbrock_step(theta, here, h, modes, self.x, self.y, loss=options.loss)
        there = evaluate(new, modes, self.x, self.y, options.loss)
        scale = self._scale(theta, new.nan_to_num())
        ratio = (error.square().sum(1).sqrt() / scale.clamp(min=1e-300)).amax(1)
        falls = here.pull.F - 1e-9 * (1 + here.pull.F.abs()) > there.pull.F
        bad = ~(ratio <= 1) | ~torch.isfinite(there.pull.F) | falls
        running = flows.end < 0
        self._find_events(FlowStep(theta, here, new, there, h, modes, self.x, self.y, scale), ~bad & running)
        early = torch.isfinite(self.share)
        ok = ~bad & ~early & running
        self.failed_guess = (self.failed_guess | (guess & ok)) & ~early & ~(self.event & ok)
        self._choose_step_sizes(h, ratio, bad, early, falls)
        self._take_steps(ok, running, new, there, h)

    def _scale(self, theta: Tensor, new: Tensor) -> Tensor:
        """The tolerated error (B, k) of a step from theta to new."""
        size = torch.maximum(theta.abs(), new.abs()).square().sum(1).sqrt()
        return self.options.rtol * (size + 1e-3 * size.square().mean(1, keepdim=True).sqrt())

    def _find_events(self, step: FlowStep, good: Tensor) -> None:
        """What the steps went past: the share of each step to the first event that matters, and the quiet ones."""
        self.share = torch.full_like(step.h, torch.inf)
        self.event = torch.zeros_like(good)
        held = (good & (step.modes.slide >= 0).any(1)).nonzero()[:, 0]
        if len(held):
            self.share.index_copy_(0, held, slide_end(step.take(held)))
        self.passed = (good & self.next_events.over(step.new)).nonzero()[:, 0]
        if len(self.passed):
            self.missed = missed_events(step.take(self.passed))
            self.share[self.passed] = torch.minimum(self.share[self.passed], self.missed.share)
            self.event[self.passed] = True

    def _choose_step_sizes(self, h: Tensor, ratio: Tensor, bad: Tensor, early: Tensor, falls: Tensor) -> None:
        """The next step size: by the error, unless an event cuts it short; then the old size comes again after it.

        A step that has been cut three times and still has its event inside starts in a stiff transient, where the
        parabola that places the event says nothing: from then on the cuts grow.
        """
        factor = 0.9 * ratio.nan_to_num(nan=1e6, posinf=1e6).clamp(min=1e-6) ** (-1 / 3)
        # The estimate falls like h^3, late in a flow like h^4. Shrinking by no less than a half, as a rejection often
        # does, would then alternate with growing to twice the step: every other step would be rejected.
        shrunk = h * torch.where(falls & (ratio <= 1), 0.5, factor.clamp(0.1, 0.9))
        grown = torch.maximum(h * factor.clamp(0.3, 4.0), self.h_full * (h < 0.9 * self.h_full))
        self.h_full = torch.where(bad, shrunk, torch.where(early, self.h_full, grown))
        harder = 0.3 ** (self.cuts - 2).clamp(min=0).to(h.dtype)
        self.h_next = torch.where(early, h * self.share.nan_to_num(posinf=1.0) * harder, self.h_full)
        self.cuts = torch.where(early, self.cuts + 1, 0)

    def _take_steps(self, ok: Tensor, running: Tensor, new: Tensor, there: Field, h: Tensor) -> None:
        """Take the steps that stand, and the events at their ends; only flows that have some are looked at."""
        flows, options = self.flows, self.options
        self.theta = torch.where(ok[:, None, None], new, flows.theta)
        before, self.here = self.here, there.where(ok, self.here)
        count = torch.zeros((5, len(ok)), dtype=torch.long, device=ok.device)  # crossed, slid, quiet, ambiguous, pinned
        taken = ok[self.passed].nonzero()[:, 0]
        if len(taken):
            rows = self.passed[taken]
            flows.modes.put_(rows, self.missed.modes.take(taken))
            count[2, rows], count[1, rows] = self.missed.quiet[taken], self.missed.slid[taken]
            self._update_fields(rows)
        held = (ok & (flows.modes.slide >= 0).any(1)).nonzero()[:, 0]
        self._apply_events(held, release, count)
        due = (ok & self.next_events.due(self.theta, self.here)).nonzero()[:, 0]
        self._apply_events(due, settle, count)
        F = self.here.pull.F
        log_t = torch.where(ok, _later(flows.log_t, before, self.here, h), flows.log_t)
        threshold = log_threshold(self.x.shape[1], options.loss)
        classified = ok & torch.isnan(flows.log_t0) & (threshold < F)
        part = (threshold - flows.F) / (F - flows.F).clamp(min=1e-300)
        log_t0 = log_t - (1 - part.clamp(0, 1)) * (log_t - flows.log_t).nan_to_num(posinf=0.0)
        self.flows = replace(
            flows, theta=self.theta, F=torch.where(ok, F, flows.F), log_t=log_t,
            tau=torch.where(ok, self._next_tau(flows.tau, h), flows.tau),
            log_t0=torch.where(classified, log_t0, flows.log_t0),
            steps=flows.steps + running.long(), rejected=flows.rejected + (running & ~ok).long(),
            crossed=flows.crossed + count[0], slid=flows.slid + count[1], quiet=flows.quiet + count[2],
            ambiguous=flows.ambiguous + count[3], pinned=flows.pinned + count[4],
        )  # fmt: skip
        self._check_ends()

    def _apply_events(
        self, rows: Tensor, what: Callable[[Tensor, Modes, Tensor, Tensor], Settled], count: Tensor
    ) -> None:
        """Let ``release`` or ``settle`` change the flows ``rows``, and count what it did."""
        if not len(rows):
            return
        done = what(self.theta[rows], self.flows.modes.take(rows), self.x[rows], (self.here.pull.r * self.y)[rows])
        acted = (done.crossed + done.slid + done.pinned > 0).nonzero()[:, 0]
        if len(acted):
            places = rows[acted]
            self.theta.index_copy_(0, places, done.theta[acted])
            self.flows.modes.put_(places, done.modes.take(acted))
            for line, number in ((0, done.crossed), (1, done.slid), (3, done.ambiguous), (4, done.pinned)):
                count[line, places] += number[acted]
            self._update_fields(places)

    def _update_fields(self, rows: Tensor) -> None:
        """Field and guards of flows whose modes changed; sliding units are put on their points."""
        theta, modes, x = self.theta[rows], self.flows.modes.take(rows), self.x[rows]
        theta = torch.cat([tangent(theta[:, :2], modes), theta[:, 2:]], 1)
        self.theta.index_copy_(0, rows, theta)
        self.here.put_(rows, evaluate(theta, modes, x, self.y[rows], self.options.loss))
        self.next_events.put_(rows, NextEvents.of(modes, x))

    def _next_tau(self, tau: Tensor, h: Tensor) -> Tensor:
        end = torch.full_like(tau, self.options.max_tau)
        return torch.where(end - tau <= h * (1 + 1e-12), end, tau + h)

    def _check_ends(self) -> None:
        """Which flows have reached an end, and the rate of the direction over each doubling of log t."""
        flows, options = self.flows, self.options
        size = flows.theta.flatten(1).norm(dim=1)
        clock = torch.log(flows.log_t.clamp(min=1.0))
        doubled = clock >= self.reference_clock + _WINDOW
        grown = size.square() >= _GROWTH * self.reference_size.square()
        rate = flows.direction_rate
        if bool(doubled.any()):
            direction = flows.theta / size.clamp(min=1e-300)[:, None, None]
            change = (direction - self.reference).flatten(1).norm(dim=1)
            rate = torch.where(doubled, change / (clock - self.reference_clock).clamp(min=_WINDOW), rate)
            self.reference = torch.where(doubled[:, None, None], direction, self.reference)
            self.reference_clock = torch.where(doubled, clock, self.reference_clock)
            self.reference_size = torch.where(doubled, size, self.reference_size)
        tenfold = flows.tau >= 10 * self.rest_tau
        slow = tenfold & (flows.F - self.rest_F <= options.rest) & torch.isnan(flows.log_t0) & (options.rest > 0)
        self.rest_tau = torch.where(tenfold, flows.tau, self.rest_tau)
        self.rest_F = torch.where(tenfold, flows.F, self.rest_F)
        reasons = (
            doubled & grown & (rate < options.direction_tol) & ~torch.isnan(flows.log_t0),
            options.max_log_loss <= flows.F,
            flows.tau >= options.max_tau,
            slow | (self.here.speed.flatten(1).norm(dim=1) * size <= options.stall),
            flows.steps >= options.max_steps,
        )
        end = flows.end
        for code, reached in enumerate(reasons):
            end = torch.where((end < 0) & reached, code, end)
        self.flows = replace(flows, direction_rate=rate, end=end)


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
