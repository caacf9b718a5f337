"""Gradient flow of one network with its history, and of many networks at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_positive, read_integer
from regionscope.errors import InputError
from regionscope.types import Reading, Status
from regionscope_lab.shallow.integrate import integrate
from regionscope_lab.shallow.losses import pull
from regionscope_lab.shallow.network import Network
from regionscope_lab.shallow.state import ENDS, OPTIONS_ADVICE, FlowOptions, Flows
from regionscope_lab.shallow.teachers import Sample

_CHUNK = 256  # flows worked through together: enough that the cost of calls does not matter
_SENTENCES = {
    "direction": "the direction theta / |theta| has converged",
    "log-loss": "the budget is used up: -log L has reached max_log_loss",
    "time": "tau has reached max_tau",
    "stalled": "the flow has come to rest at a critical point with positive loss",
    "steps": "max_steps were used before the direction converged",
}


@dataclass(frozen=True, eq=False)
class Flow:
    """The history of one gradient flow at s moments, including start and end.

    theta: (s, 3, k). log_inverse_loss: (s,) -log L. tau, log_t: (s,) rescaled time and log of the time. log_t0: log of
    the first time at which L < l(0) / n, so that every point is classified; NaN if never. end: the final state and the
    numbers of steps and events. status: complete if the direction converged or the flow came to rest.
    """

    sample: Sample
    options: FlowOptions
    theta: Tensor
    log_inverse_loss: Tensor
    tau: Tensor
    log_t: Tensor
    log_t0: float
    end: Flows
    status: Status

    def __len__(self) -> int:
        return len(self.theta)

    def __repr__(self) -> str:
        return (
            f"Flow(width={self.theta.shape[2]}, n={len(self.sample)}, moments={len(self)}, "
            f"-log L={float(self.log_inverse_loss[-1]):.6g}, steps={int(self.end.steps[0])})"
        )

    def readings(self) -> tuple[Reading, ...]:
        """-log of the final loss, the rescaled time, and the drift of the conserved quantities."""
        last = float(self.log_inverse_loss[-1])
        return ("", last, None), ("tau", float(self.tau[-1]), None), ("drift", self.drift, None)

    def network(self, moment: int = -1) -> Network:
        """The network at a moment, by default the last."""
        return Network.of(self.theta[moment])

    @property
    def ending(self) -> str:
        """Why the integration ended: direction converged, budget used up, or flow at rest."""
        return _SENTENCES[ENDS[int(self.end.end[0])]]

    @property
    def classified(self) -> bool:
        """Whether the loss fell below l(0) / n."""
        return not math.isnan(self.log_t0)

    @property
    def drift(self) -> float:
        """The largest change of v_j^2 - w_j^2 - b_j^2, which the flow conserves, relative to the size of the unit."""
        return float(conserved_drift(self.theta[:1], self.theta[-1:])[0])


def gradient_flow(
    network: Network, sample: Sample, options: FlowOptions | None = None, *, moments: float = 0.06
) -> Flow:
    """Gradient flow on the loss of ``network`` over ``sample``, from the given parameters.

    dtheta/dt in -dL (Clarke subdifferential; Safran et al., section 2), integrated in the time tau with d tau = L dt
    on F = -log L (``losses``), by an L-stable pair of order 3 with error control (``rosenbrock``), event by event
    (``events``). moments: a moment is kept whenever log(1 + F - F(0)) + log |theta| has grown by this much.

    Cost: width 800 on 100 points down to log L = -1,000,000 takes about 2,200 steps.
    """
    theta = check_instance("network", network, Network, advice="Write Network(w, b, v)").theta[None]
    check_instance("sample", sample, Sample, advice="Draw one with sample(teacher, n)")
    options = check_instance("options", options or FlowOptions(), FlowOptions, advice=OPTIONS_ADVICE)
    check_positive(moments=moments)
    kept: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    last = -math.inf
    base = math.nan

    def keep(flows: Flows, _: Tensor) -> None:
        nonlocal last, base
        value = float(flows.F[0])
        base = value if math.isnan(base) else base
        progress = math.log1p(max(value - base, 0.0)) + math.log(float(flows.theta[0].norm()) + 1e-300)
        if progress >= last + moments or int(flows.end[0]) >= 0:
            last = progress
            kept.append((flows.theta[0].clone(), flows.F[0], flows.tau[0], flows.log_t[0]))

    end = integrate(theta, sample.x[None], sample.y[None], options, on_step=keep)
    reason = ENDS[int(end.end[0])]
    start = (network.theta, *(_start(network, sample, options)))
    parts = [torch.stack([torch.as_tensor(moment[i]) for moment in (start, *kept)]) for i in range(4)]
    status = Status() if reason in ("direction", "stalled") else Status(complete=False, reason=_SENTENCES[reason])
    return Flow(sample, options, parts[0], parts[1], parts[2], parts[3], float(end.log_t0[0]), end, status)


def gradient_flows(
    theta: Tensor, x: Tensor, y: Tensor, options: FlowOptions | None = None, *, chunk: int = _CHUNK,
) -> Flows:  # fmt: skip
    """Gradient flow of B networks theta (B, 3, k) on B samples x, y (B, n) (or one sample (n,) for all): their ends.

    The flows are independent: each has its own steps and events, and the answer does not depend on ``chunk``, the
    number worked through together. Each flow costs less than a tenth of ``gradient_flow`` at width 100 on 50 points.
    """
    options = check_instance("options", options or FlowOptions(), FlowOptions, advice=OPTIONS_ADVICE)
    for name, value in (("theta", theta), ("x", x), ("y", y)):
        check_instance(name, value, Tensor, advice="Pass a tensor of float64")
    read_integer("chunk", chunk)
    if theta.ndim != 3 or theta.shape[1] != 3 or len(theta) == 0:
        raise InputError(f"Expected theta of shape (B, 3, k), got {tuple(theta.shape)}. Stack w, b and v of each run.")
    if not bool(torch.isfinite(theta).all()):
        raise InputError("Expected finite theta, got NaN or infinite values. Replace these values.")
    for name, value in (("x", x), ("y", y)):
        if value.ndim != 1 and not (value.ndim == 2 and len(value) in (1, len(theta))):
            raise InputError(
                f"Expected {name} of shape (n,) or ({len(theta)}, n), got {tuple(value.shape)}. "
                "Pass one sample for all networks, or one for each."
            )
    theta, x, y = (a.to(torch.float64) for a in (theta, x, y))
    x, y = (a.expand(len(theta), a.shape[-1]) for a in (x, y))
    if x.shape != y.shape:
        raise InputError(
            f"Expected x and y of one shape, got {tuple(x.shape)} and {tuple(y.shape)}. Pass one label for each point."
        )
    for row in range(len(x) if x.stride(0) else 1):
        Sample(x[row], y[row])

    def one(i: int) -> Flows:
        part = slice(i, i + chunk)
        return integrate(theta[part], x[part].contiguous(), y[part].contiguous(), options)

    return Flows.joined([one(i) for i in range(0, len(theta), chunk)])


def conserved_drift(start: Tensor, end: Tensor) -> Tensor:
    """Largest |change of v^2 - w^2 - b^2| of a unit, relative to its squared size, for theta (B, 3, k): (B,)."""
    sign = torch.tensor([-1.0, -1.0, 1.0], dtype=start.dtype, device=start.device)[:, None]
    change = ((end.square() - start.square()) * sign).sum(1).abs()
    size = torch.maximum(start.square().sum(1), end.square().sum(1))
    return (change / size.clamp(min=torch.finfo(start.dtype).tiny)).amax(1)


def _start(network: Network, sample: Sample, options: FlowOptions) -> tuple[Tensor, Tensor, Tensor]:
    zero = torch.zeros((), dtype=torch.float64, device="cpu")
    return pull(sample.y * network(sample.x), options.loss).F, zero, zero - math.inf
