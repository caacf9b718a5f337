"""``integrated_gradients``: attributions along straight paths, exact because a path has finitely many linear pieces.

Integrated gradients (Sundararajan et al. 2017) attribute f(x) - f(b) to the entries of x:

    attribution_i = (x_i - b_i) * integral over t in [0, 1] of df/dx_i (b + t (x - b))

On a linear piece of the path the gradient is constant, so the integral is a sum over pieces: the gradient of each times
its share of the path. ExactLine (Sotoudeh and Thakur 2019) computes it in the same way for small networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import check_memory, check_positive, check_progress
from regionscope.errors import CallFailed, InputError, NotPiecewiseAffine
from regionscope.exact.questions.output_weights import Target, output_weights
from regionscope.exact.questions.paths import PathPieces, Paths, input_gradients, pieces_of, rises
from regionscope.exact.questions.quadrature_steps import StepsNeeded, quadrature_errors
from regionscope.formatting import estimated
from regionscope.inputs import Inputs, read_array, read_examples
from regionscope.network import Program, Values, select_output, trace
from regionscope.network.output import Arguments, Output
from regionscope.tolerance import TINY
from regionscope.types import Progress, Reading

Numbers = float | Tensor | np.ndarray[Any, Any] | list[Any] | tuple[Any, ...]
_ROUNDING = 2.0**-44  # of the largest target on a path: a total variation below this is rounding


@dataclass(frozen=True, eq=False)
class Attributions:
    """Exact integrated gradients of n inputs.

    attributions: (n, *input_shape) float64. For each input they sum to the target at the input minus the mean target
        over the baselines.
    gap: (n,) rounding error of that sum, relative to the total variation of the target along the path; the largest over
        the baselines. Below 1e-10 in float64.
    pieces: (n,) number of linear pieces on the paths to an input, all baselines together.
    """

    attributions: Tensor
    gap: Tensor
    pieces: Tensor
    paths: Paths | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        pieces, gap = estimated(float(self.pieces.double().mean()), None), float(self.gap.max())
        return f"Attributions(shape={tuple(self.attributions.shape)}, mean_pieces={pieces}, largest_gap={gap:.1e})"

    def readings(self) -> tuple[Reading, ...]:
        """The mean number of pieces on the paths to an input, and the largest gap."""
        return ("", float(self.pieces.double().mean()), None), ("gap", float(self.gap.max()), None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"paths": None}  # the network is made of functions, which pickle does not take

    def steps_needed(
        self, tolerance: float, *, k_max: int = 1000, memory: int | None = None, progress: Progress | None = None
    ) -> StepsNeeded:
        """Smallest number of steps beyond which the error stays small, for each quadrature rule of Captum.

        tolerance: relative error allowed, |approximate - exact| / |exact| in the Euclidean norm over an input.
        k_max: largest number of steps to try.

        The error is not monotone in the number of steps, so all numbers up to ``k_max`` are tried. A node that falls
        exactly on a breakpoint uses the gradient after it. Cost: that of the attributions, and one product of two
        matrices (5 ``k_max``, pieces) and (pieces, d).
        """
        if self.paths is None:
            raise InputError(
                "Expected attributions with their network, got a pickled copy without it. Call "
                "integrated_gradients again."
            )
        check_positive(tolerance=tolerance)
        check_progress(progress)
        errors = quadrature_errors(self.paths, k_max=k_max, memory=memory, progress=progress)
        return StepsNeeded.of(errors, tolerance)


def integrated_gradients(
    model: nn.Module | Program,
    inputs: Inputs,
    *,
    baseline: Numbers = 0.0,
    target: Target | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Attributions:
    """Exact integrated gradients of a piecewise-affine network, with any number of linear pieces on the path.

    inputs: (n, *input_shape), as a tensor, an array, a list, a Dataset or a DataLoader.
    baseline: one number for all entries, one input, or several inputs (m, *input_shape). With several, the attributions
        are the mean over the baselines (expected gradients, Erion et al. 2021).
    target: what is attributed, linear in the outputs: the index of a class; a pair (i, j) for output i minus output j;
        c weights as floats; an integer tensor (n,) or a float tensor (n, c) with one target for each input. A network
        with one output needs none.
    memory: bytes of live values held at a time, as in ``linear_regions``.
    progress: called with the finished share of the work, 0 to 1.
    output, args: for a model that returns several tensors or takes further arguments, as in ``linear_regions``.

    Softmax is not piecewise affine, so its outputs are refused; attribute the logits. Differs from Captum's
    ``IntegratedGradients`` in that nothing is approximated and no number of steps is chosen. Cost: ``linear_regions``
    on the paths, and a forward and a backward pass for each piece.

    >>> relu = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
    >>> _ = relu.load_state_dict({"0.weight": torch.tensor([[2.0, 1.0]]), "0.bias": torch.tensor([-1.0])})
    >>> found = integrated_gradients(relu, torch.tensor([[1.0, 1.0]]))
    >>> found.pieces.tolist(), [round(value, 12) for value in found.attributions[0].tolist()]
    ([2], [1.333333333333, 0.666666666667])
    """
    check_memory(memory)
    check_progress(progress)
    rows = read_examples(inputs).all()
    program = read_logits(select_output(model, output, args), rows)
    device = program.device
    ends = _finite(rows, "inputs").to(device)
    starts = _baselines(baseline, program.input_shape).to(device)
    weights = output_weights(target, len(rows), program.n_outputs).to(device)
    n, m = len(ends), len(starts)
    pairs = torch.cartesian_prod(torch.arange(n, device=device), torch.arange(m, device=device))
    return attribute(Paths(program, ends, starts, pairs, weights), memory=memory, progress=progress)


def attribute(
    paths: Paths, *, times_inputs: bool = True, memory: int | None = None, progress: Progress | None = None
) -> Attributions:
    """Attributions of the inputs of the paths, the mean over the paths to each.

    times_inputs: whether the mean gradient along a path is multiplied by input minus baseline.
    """
    n, d, device = len(paths.inputs), paths.inputs[0].numel(), paths.inputs.device
    total = torch.zeros(n, d, dtype=torch.float64, device=device)
    sum_up, variation, size = torch.zeros(3, len(paths), dtype=torch.float64, device=device)
    pieces = torch.zeros(n, dtype=torch.int64, device=device)
    for some in pieces_of(paths, memory=memory, progress=progress):
        path_ids, place = some.path.unique_consecutive(return_inverse=True)
        mean = input_gradients(paths.program, _weighted(some, place, len(path_ids)))
        start, end = paths.ends(path_ids)
        product = mean * (end - start)
        to = paths.pairs[path_ids, 0]
        total.index_add_(0, to, product if times_inputs else mean)
        sum_up.index_add_(0, path_ids, product.sum(1))
        variation.index_add_(0, some.path, (some.high - some.low).abs())
        size.scatter_reduce_(0, some.path, torch.maximum(some.high.abs(), some.low.abs()), "amax")
        pieces.index_add_(0, paths.pairs[some.path, 0], torch.ones_like(some.path))
    gap = (sum_up - rises(paths, memory=memory)).abs() / torch.maximum(variation, _ROUNDING * size).clamp(min=TINY)
    of = paths.pairs[:, 0]
    worst = torch.zeros(n, dtype=torch.float64, device=device).scatter_reduce_(0, of, gap, "amax")
    mean_over = total / torch.bincount(of, minlength=n)[:, None]
    return Attributions(mean_over.reshape(paths.inputs.shape), worst, pieces, paths)


def _weighted(some: PathPieces, place: Tensor, n: int) -> Values:
    """The gradients of the pieces, weighted by their lengths and added up by path; place: (pieces,) below n."""
    index = torch.arange(len(place), device=place.device)
    weighted = {}
    for name, rows in some.gradient.items():
        lengths = rows.new_zeros(n, len(place))
        lengths[place, index] = (some.end - some.start).to(rows.dtype)
        weighted[name] = (lengths @ rows[..., None].flatten(1)).reshape(n, *rows.shape[1:])
    return weighted


def read_logits(model: nn.Module | Program, rows: Tensor) -> Program:
    """The network, read in float64 for inputs like these rows; a softmax at its end is refused with advice."""
    input_shape = tuple(rows.shape[1:])
    if isinstance(model, Program):
        if model.input_shape != input_shape:
            raise CallFailed(
                f"Expected inputs of shape (n, {_listed(model.input_shape)}), got (n, {_listed(input_shape)}). "
                "Reshape the inputs."
            )
        model.require_continuous("this instrument")
        return model.in_float64()
    try:
        return trace(model, input_shape, points=lambda: rows[:3])
    except NotPiecewiseAffine as refused:
        if "softmax" not in str(refused).lower():
            raise
        raise NotPiecewiseAffine(
            f"Expected outputs that are piecewise affine, got a softmax. Leave it off and attribute the logits: "
            f"target=i, or target=(i, j) for the log-odds of two classes. ({refused})"
        ) from refused


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def _finite(rows: Tensor, what: str) -> Tensor:
    values = rows.detach().double()
    if not bool(values.isfinite().all()):
        raise InputError(f"Expected finite {what}, got NaN or infinite entries. Remove them first.")
    if len(values) == 0:
        raise InputError(f"Expected at least one of {what}, got 0. Pass one row or more.")
    return values


def _baselines(baseline: Numbers, shape: tuple[int, ...]) -> Tensor:
    """One row for each baseline (m, *shape)."""
    if np.ndim(baseline) == 0:
        return _finite(read_array(baseline).reshape(1), "baselines").expand(1, *shape).clone()
    read = _finite(read_array(baseline), "baselines")
    if tuple(read.shape) == shape:
        return read[None]
    if tuple(read.shape[1:]) == shape:
        return read
    raise InputError(
        f"Expected a baseline that is one number, or of shape ({_listed(shape)}), or several of shape "
        f"(m, {_listed(shape)}), got {tuple(read.shape)}. "
        "Reshape the baseline."
    )
