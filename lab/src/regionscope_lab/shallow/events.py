"""Folds that meet data points: crossing, sliding, leaving.

At a point x_i on the fold of unit j, z = w x_i + b = 0, the speed of z has two one-sided values: ``below`` (the unit
inactive at x_i) and ``above`` = below + v r_i y_i (1 + x_i^2). The flow is the differential inclusion dtheta/dtau in
the Clarke subdifferential, whose elements give x_i any share mu in [0, 1] of its pull (A. F. Filippov, "Differential
equations with discontinuous righthand sides", 1988):

* both speeds have one sign: the fold crosses the point;
* below > 0 > above: it can go to neither side and slides; mu = below / (below - above) keeps z = 0, and the motion is
  the gradient projected on z = 0;
* a sliding unit leaves downwards when below < 0 and upwards when above > 0. If both hold at once (v went through zero)
  the inclusion has several solutions; we take the inactive side, the convention relu'(0) = 0 of every framework, and
  count it.

Units decide alone: speeds of z depend on the other units only through r, which is continuous. A sliding unit can
shrink to w = b = 0 (only if v^2 > w^2 + b^2 at the start); it then stays there, which is a solution of the inclusion,
and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope_lab.shallow.kernel import slopes
from regionscope_lab.shallow.modes import FlowRows, Modes, guards, modes_of
from regionscope_lab.shallow.rosenbrock import Field

ON_FOLD = 1e-11  # |z| at most this share of |(w, b)| |(x, 1)| counts as "the fold is at the point"
_SHARE = 0.05  # how far outside [0, 1] the share mu of a sliding unit may end before the step is shortened
QUIET = 0.1  # an event that moves the state by less than this part of the tolerated error need not be located


@dataclass(frozen=True)
class Settled:
    """State and modes after the events that are due, and how many there were, (B,) each."""

    theta: Tensor
    modes: Modes
    crossed: Tensor
    slid: Tensor
    ambiguous: Tensor
    pinned: Tensor


@dataclass(frozen=True)
class Missed:
    """What a step went past: the modes after it, and the share of the step to the first event that matters, or inf."""

    modes: Modes
    share: Tensor
    quiet: Tensor
    slid: Tensor


def one_sided(theta: Tensor, modes: Modes, x: Tensor, c: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The speeds of z at the points ``index`` (B, m, k) with the unit inactive and active there; c = r y (B, n)."""
    raw = slopes(c, replace(modes, normal=torch.zeros_like(modes.normal)), x)
    values, pulls = at_points(x, index), at_points(c, index)
    inside = (index >= modes.lo[:, None]) & (index < modes.hi[:, None])
    jump = pulls * (1 + values * values)
    along = raw[:, :1] * values + raw[:, 1:] - jump * inside
    v = theta[:, 2:]
    return v * along, v * (along + jump)


def settle(theta: Tensor, modes: Modes, x: Tensor, c: Tensor) -> Settled:
    """Let every unit whose fold is at a point, and moving over it, cross or slide."""
    n = x.shape[1]
    index, sign = guards(modes, n)
    values = at_points(x, index)
    length = torch.sqrt(1 + values * values)
    z = theta[:, :1] * values + theta[:, 1:2]
    reach = ON_FOLD * length_of(theta)[:, None] * length
    below, above = one_sided(theta, modes, x, c, index)
    rate = sign * torch.where(sign > 0, above, below)
    due = (sign != 0) & (sign * z <= reach) & (rate < 0)
    due[:, 1] &= ~due[:, 0]
    slide = due & (below > 0) & (above < 0)
    none = torch.zeros_like(modes.lo[:, 0])
    some = due.any(1)
    which = due[:, 1].long()[:, None]
    i = index.gather(1, which)[:, 0]
    inside = sign.gather(1, which)[:, 0] > 0
    slides = slide.any(1)
    lo, hi = modes.lo, modes.hi
    drop, add = some & inside, some & ~inside & ~slides
    at_lo = i == lo
    new_lo = torch.where(drop & at_lo, i + 1, torch.where(add & (i == lo - 1), i, lo))
    new_hi = torch.where(drop & ~at_lo, i, torch.where(add & (i == hi) & (i != lo - 1), i + 1, hi))
    held = torch.where(slides, i, modes.slide)
    normal = torch.stack([values.gather(1, which)[:, 0], torch.ones_like(z[:, 0])], 1) / length.gather(1, which)
    theta = torch.cat([_project(theta[:, :2], normal * some[:, None]), theta[:, 2:]], 1)
    modes = modes.changed(x, new_lo, new_hi, held)
    return Settled(theta, modes, (some & ~slides).sum(1), slides.sum(1), none, none)


def release(theta: Tensor, modes: Modes, x: Tensor, c: Tensor) -> Settled:
    """Let sliding units leave their point, and end those that have shrunk to w = b = 0."""
    held = modes.slide >= 0
    i = modes.slide.clamp(min=0)
    below, above = (side[:, 0] for side in one_sided(theta, modes, x, c, i[:, None]))
    down, up = held & (below < 0), held & (above > 0)
    suffix = modes.lo == i + 1
    pinned = held & torch.where(suffix, theta[:, 0] <= 0, theta[:, 0] >= 0)
    rise = up & ~down
    lo = torch.where(rise & suffix, i, modes.lo)
    hi = torch.where(rise & ~suffix, i + 1, modes.hi)
    hi = torch.where(pinned, lo, hi)
    theta = torch.where(pinned[:, None] & _plane(theta), 0.0, theta)
    modes = modes.changed(x, lo, hi, torch.where(up | down | pinned, -1, modes.slide))
    left = (up | down).sum(1)
    return Settled(theta, modes, left, torch.zeros_like(left), (up & down).sum(1), pinned.sum(1))


@dataclass(frozen=True)
class FlowStep(FlowRows):
    """A step h (B,) from theta to new that kept the modes, and the field at both ends; scale (B, k): error allowed."""

    theta: Tensor
    here: Field
    new: Tensor
    there: Field
    h: Tensor
    modes: Modes
    x: Tensor
    y: Tensor
    scale: Tensor


def missed_events(step: FlowStep) -> Missed:
    """What happened within a step.

    A unit that passed a point so late in the step, or a point that pulls so little, that the state is wrong by less
    than a tenth of the tolerated error is *quiet*: it changes its mode now. If it should slide it is put back on the
    point, where that moves it by less than the same amount. For the others the step is cut to just behind the event.
    """
    theta, here, new, there = step.theta, step.here, step.new, step.there
    modes, x, h, scale = step.modes, step.x, step.h[:, None], step.scale
    index, sign = guards(modes, x.shape[1])
    values = at_points(x, index)
    length = torch.sqrt(1 + values * values)
    before = (sign * (theta[:, :1] * values + theta[:, 1:2])).clamp(min=0)
    after = sign * (new[:, :1] * values + new[:, 1:2])
    over = after < -ON_FOLD * length_of(new)[:, None] * length
    passed = over.any(1)
    actual = modes_of(new, x)
    lo, hi = torch.where(passed, actual.lo, modes.lo), torch.where(passed, actual.hi, modes.hi)
    rate = sign * (here.speed[:, :1] * values + here.speed[:, 1:2]) * h[..., None]
    share = torch.where(over, _root(before, rate, after), torch.inf).amin(1)
    leeway = QUIET * scale / _nonzero(_weight(step, lo, hi))
    below, above = one_sided(new, modes, x, there.pull.r * step.y, index)
    hold = over & (below > 0) & (above < 0)
    stuck = hold.any(1)
    depth = torch.where(hold, -after / length, 0.0).amax(1)
    leeway = torch.where(stuck, torch.minimum(leeway, QUIET * scale / _nonzero(depth) * (1 - share) * h), leeway)
    loud = passed & ((1 - share) * h > leeway)
    cut = torch.where(loud, share + 0.5 * leeway / h, torch.inf).amin(1)
    held = torch.where(hold[:, 0], index[:, 0], torch.where(hold[:, 1], index[:, 1], modes.slide))
    old = stuck & passed
    lo, hi = torch.where(old, _without(modes.lo, held, True), lo), torch.where(old, _without(modes.hi, held, False), hi)
    return Missed(modes.changed(x, lo, hi, held), cut, (passed & ~stuck).sum(1), stuck.sum(1))


def _without(end: Tensor, point: Tensor, low: bool) -> Tensor:
    """The end of an active interval when ``point``, if it is the outermost one there, is taken out."""
    return torch.where(end == point, point + 1, end) if low else torch.where(end == point + 1, point, end)


def _weight(step: FlowStep, lo: Tensor, hi: Tensor) -> Tensor:
    """The speed (B, k) that a unit is wrong by while the points between its old and its new set are counted wrongly."""
    new, modes = step.new, step.modes
    total = torch.nn.functional.pad(torch.maximum(step.here.pull.r, step.there.pull.r).cumsum(1), (1, 0))
    pull = (total.gather(1, lo) - total.gather(1, modes.lo)).abs()
    pull = pull + (total.gather(1, hi) - total.gather(1, modes.hi)).abs()
    far = torch.sqrt(1 + step.x.square().amax(1, keepdim=True))
    return pull * (new[:, 2].abs() + length_of(new)) * far


def slide_end(step: FlowStep) -> Tensor:
    """Share of the step (B,) to the first sliding unit that leaves its point well before the end of the step, or inf.

    The two motions agree at the moment of leaving, so being late by a little costs its square; only far overshoots
    count.
    """
    theta, new, modes, x = step.theta, step.new, step.modes, step.x
    held = modes.slide >= 0
    i = modes.slide.clamp(min=0)[:, None]
    force = (1 + at_points(x, i)[:, 0].square()).rsqrt() * step.h[:, None]
    first = [side[:, 0] for side in one_sided(theta, modes, x, step.here.pull.r * step.y, i)]
    last = [side[:, 0] for side in one_sided(new, modes, x, step.there.pull.r * step.y, i)]
    mu0 = first[0] / _nonzero(first[0] - first[1])
    mu1 = last[0] / _nonzero(last[0] - last[1])
    matters = held & (torch.maximum(last[0].abs(), last[1].abs()) * force > QUIET * step.scale)
    edge = (mu1 > 0.5).to(mu1.dtype)
    out = matters & ((mu1 < -_SHARE) | (mu1 > 1 + _SHARE))
    share = torch.where(out, ((edge - mu0) / _nonzero(mu1 - mu0)).clamp(0.01, 0.95), torch.inf)
    turned = held & (theta[:, 0] * new[:, 0] < 0) & (new[:, 0].abs() > ON_FOLD * new[:, 2].abs())
    zero = torch.where(turned, theta[:, 0] / _nonzero(theta[:, 0] - new[:, 0]), torch.inf)
    return torch.minimum(share, zero).amin(1)


def _root(before: Tensor, rate: Tensor, after: Tensor) -> Tensor:
    """The first s in (0, 1) with before + rate s + (after - before - rate) s^2 = 0, where after < 0 <= before."""
    bend = after - before - rate
    root = torch.sqrt((rate * rate - 4 * bend * before).clamp(min=0))
    # The stable form; before >= 0 > after leaves exactly one sign change in (0, 1].
    s = torch.where(rate > 0, (-rate - root) / _nonzero(2 * bend), 2 * before / _nonzero(root - rate))
    straight = before / _nonzero(before - after)
    return torch.where((s > 0) & (s < 1), s, straight).clamp(0.0, 1.0)


def _project(plane: Tensor, normal: Tensor) -> Tensor:
    return plane - normal * (normal * plane).sum(1, keepdim=True)


def _plane(theta: Tensor) -> Tensor:
    """True on the rows w and b of theta (B, 3, k)."""
    rows = torch.zeros((1, 3, 1), dtype=torch.bool, device=theta.device)
    rows[:, :2] = True
    return rows


def length_of(theta: Tensor) -> Tensor:
    """|(w, b)| (B, k)."""
    return torch.hypot(theta[:, 0], theta[:, 1])


def _nonzero(a: Tensor) -> Tensor:
    return torch.where(a == 0, torch.finfo(a.dtype).tiny, a)


def at_points(a: Tensor, index: Tensor) -> Tensor:
    """a (B, n) at index (B, m, k)."""
    return a.gather(1, index.flatten(1)).view(index.shape)


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
