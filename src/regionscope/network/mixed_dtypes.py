"""Constants that a forward makes in float32, beside weights that are read in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from regionscope.network.proxy import Traced


class MixedDtypes(TorchFunctionMode):
    """While it is open, functions take constants of several floating-point dtypes and compute in ``dtype``.

    ``h = torch.zeros(1, 3)``, the first state of a recurrent network, is float32. Its weights are read in float64, and
    torch refuses to multiply the two. In-place functions are left alone: a cast would write into a copy.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = (tuple(args), dict(kwargs or {}))
        try:
            return func(*given[0], **given[1])
        except RuntimeError:
            constants = [x for x in tree_leaves(given) if _is_real_constant(x)]
            if func.__name__.endswith("_") or len({x.dtype for x in constants}) < 2:
                raise
            args, named = tree_map(lambda x: x.to(self._dtype) if _is_real_constant(x) else x, given)
            return func(*args, **named)


def _is_real_constant(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, Traced) and value.is_floating_point()
