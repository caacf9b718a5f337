"""``IntegratedGradients`` with the signature of Captum's class and exact attributions. Needs the ``captum`` extra.

Import it from ``regionscope.captum`` instead of ``captum.attr``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.exact.questions.attributions import attribute, read_logits
from regionscope.exact.questions.output_weights import output_weights
from regionscope.exact.questions.paths import Paths
from regionscope.extras import import_extra


def __getattr__(name: str) -> Any:
    """The class is made when it is first imported, since its base class is Captum's."""
    if name == "IntegratedGradients":
        return _integrated_gradients()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _import(module: str) -> Any:
    return import_extra(module, who="regionscope.captum needs", library="captum", extra="captum")


@cache
def _integrated_gradients() -> Any:
    base: Any = _import("captum.attr").IntegratedGradients
    log_usage: Any = _import("captum.log").log_usage  # NoiseTunnel unwraps it

    class IntegratedGradients(base):  # type: ignore[misc]
        """Exact integrated gradients where ``captum.attr.IntegratedGradients`` is expected.

        ``n_steps``, ``method`` and ``internal_batch_size`` are accepted and change nothing: there are as many steps as
        the path has linear pieces. The model must be an ``nn.Module`` that is piecewise affine, with one input tensor
        and outputs that are logits.
        """

        @log_usage()  # type: ignore[untyped-decorator]
        def attribute(
            self,
            inputs: Any,
            baselines: Any = None,
            target: Any = None,
            additional_forward_args: Any = None,
            n_steps: int = 50,
            method: str = "gausslegendre",
            internal_batch_size: int | None = None,
            return_convergence_delta: bool = False,
        ) -> Any:
            """The attributions, in the shape of the inputs, and in their type if they are floats.

            For the arguments see Captum's documentation.
            """
            if additional_forward_args is not None:
                raise InputError("Expected no additional_forward_args, got some. Wrap the model so that it needs none.")
            rows = _single(inputs, "inputs")
            start = _single(baselines, "baselines")
            result = _exact(self.forward_func, rows, start, target, self.multiplies_by_inputs)
            wrapped = (result,) if isinstance(inputs, tuple) else result
            if not return_convergence_delta:
                return wrapped
            return wrapped, self.compute_convergence_delta(
                wrapped, 0 if baselines is None else baselines, inputs, target=target
            )

    return IntegratedGradients


def _single(value: Any, what: str) -> Any:
    """The only tensor of a tuple of one."""
    if isinstance(value, tuple):
        if len(value) != 1:
            raise InputError(f"Expected {what} that are one tensor, got a tuple of {len(value)}. Wrap the model.")
        return value[0]
    return value


def _exact(model: Any, rows: Tensor, baselines: Any, target: Any, times_inputs: bool) -> Tensor:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"Expected an nn.Module, got {type(model).__name__}. Exact attributions read the layers of the model; pass "
            "the module itself."
        )
    program = read_logits(model, rows)
    n, device = len(rows), program.device
    ends = rows.detach().to(device, torch.float64)
    starts = torch.as_tensor(0.0 if baselines is None else baselines).detach().to(device, torch.float64)
    if starts.ndim and (starts.shape[1:] != ends.shape[1:] or len(starts) not in (1, n)):
        raise InputError(
            f"Expected baselines of shape {tuple(ends.shape)} or (1, {', '.join(map(str, ends.shape[1:]))}), or a "
            f"number, got {tuple(starts.shape)}. "
            "Pass one baseline for each input, or one for all."
        )
    weights = output_weights(_flat(target, program.output_shape), n, program.n_outputs).to(device)
    index = torch.arange(n, device=device)
    paths = Paths(program, ends, starts.expand_as(ends), torch.stack([index, index], 1), weights)
    dtype = rows.dtype if rows.is_floating_point() else torch.get_default_dtype()
    return attribute(paths, times_inputs=times_inputs).attributions.to(rows.device, dtype)


def _flat(target: Any, output_shape: tuple[int, ...]) -> Any:
    """Captum's target as an index, or one for each input, into the flattened outputs."""
    if isinstance(target, tuple):
        return int(np.ravel_multi_index(target, output_shape))
    if isinstance(target, list) and target and isinstance(target[0], tuple):
        return torch.tensor([int(np.ravel_multi_index(index, output_shape)) for index in target])
    return torch.tensor(target) if isinstance(target, list) else target
