"""The two kinds of operation a program is made of: ``Affine`` maps and ``Fold``s (piecewise-linear maps)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from regionscope.network.fold_sites import FoldSites

Memory = Literal["fresh", "view", "shared"]


@dataclass(frozen=True, eq=False)
class Fixed:
    """``function`` with its arguments behind the tensors fixed. Unlike a lambda it can be pickled."""

    function: Callable[..., Tensor]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *tensors: Any) -> Tensor:
        return self.function(*tensors, *self.args, **self.kwargs)


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation:
    """``function(*inputs, *constants)`` on tensors whose first dimension counts rows; rows never see each other.

    Functions are picklable, so that a program can go to another process: no lambdas and no nested functions.

    in_place: the same function, allowed to overwrite its first input and return it; None when there is no such form.
    memory: "fresh" - the result owns its memory; "view" - it may share the memory of the first input;
        "shared" - rows or columns of the result may share memory with each other, so it is never written to.
    scratch: bytes of temporary memory a row needs while the function runs.
    rounding: the size of the rounding errors of the result in units of rounding, from the same arguments. None for a
        function that is as exact as the sum of its inputs times constants.
    suits: takes other constants, and says whether the function may run with them. None: it may with any of the same
        shapes.
    """

    function: Callable[..., Tensor]
    constants: tuple[Tensor, ...] = ()
    in_place: Callable[..., Tensor] | None = None
    memory: Memory = "fresh"
    scratch: int = 0
    rounding: Callable[..., Tensor] | None = None
    suits: Callable[..., bool] | None = None


@dataclass(frozen=True, eq=False)
class ChannelMap:
    """``y = scale * x + shift`` for each channel (dimension 1), both of shape (channels,)."""

    scale: Tensor
    shift: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine(Operation):
    """An affine map of its inputs.

    followed_by: the single operation that does this one and then a channel map, where that costs nothing extra.
    channel_map: set when the operation is itself a channel map (BatchNorm), so that it can be merged into its producer.
    """

    followed_by: Callable[[ChannelMap], Affine] | None = None
    channel_map: ChannelMap | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Fold(Operation):
    """A continuous piecewise-linear map. ``folds(*inputs, *constants)`` says where it folds."""

    kind: str
    folds: Callable[..., FoldSites]
    n_units: int
