"""Rules for Fourier transforms, whose real and imaginary parts are linear: rfft, fft, rfft2, fft2, stft."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.network.record import Call, Data, Pending, rule
from regionscope.network.rules.indexing import select

COMPLEX = "it makes complex numbers; their real and imaginary parts are accepted"


@dataclass(frozen=True, eq=False, kw_only=True)
class Complex(Pending):
    """Complex numbers. parts: their real and imaginary parts, along a last dimension."""

    parts: Data


def _complex(call: Call, parts: Data) -> Complex:
    return Complex("", parts.shape[:-1], parts.axis, refusal=call.refusal(COMPLEX), parts=parts)


for _name in ("rfft", "fft", "rfft2", "fft2"):

    @rule(getattr(torch.fft, _name), when="real and imaginary parts")
    def _transform(
        call: Call, x: Data, size: Any = None, dim: Any = None, norm: Any = None, *, n: Any = None, s: Any = None,
        _name: str = _name,
    ) -> Complex:  # fmt: skip
        dim = ((-2, -1) if _name.endswith("2") else -1) if dim is None else dim
        sizes = next((given for given in (size, n, s) if given is not None), None)
        dims = [call.row_dim(x, d) + 1 for d in dim] if isinstance(dim, list | tuple) else call.row_dim(x, dim) + 1
        return _complex(call, call.affine(partial(_spectrum, name=_name, options=(sizes, dims, norm)), x))


def _spectrum(x: Tensor, *, name: str, options: tuple[Any, ...]) -> Tensor:
    return torch.view_as_real(getattr(torch.fft, name)(x, *options))


@rule("stft", when="real and imaginary parts")
def _stft(
    call: Call, x: Data, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, *args: Any, return_complex: bool = True, **options: Any,
) -> Data:  # fmt: skip
    if x.ndim != 2:
        call.refuse_shapes("it needs 2 dimensions with the batch", x)
    run = partial(_short_spectra, sizes=(n_fft, hop_length, win_length), args=args, options=options)
    parts = call.affine(run, x, constants=() if window is None else (call.constant(window),))
    return _complex(call, parts) if return_complex else parts


def _short_spectra(
    x: Tensor, window: Tensor | None = None, *, sizes: tuple[Any, ...], args: tuple[Any, ...], options: dict[str, Any]
) -> Tensor:
    if window is None:  # of ones, of which torch warns
        window = x.new_ones(sizes[2] or sizes[0])
    options = options | {"return_complex": True}
    spectra = torch.stft(x, *sizes, window, *args, **options)  # type: ignore[call-arg]
    return torch.view_as_real(spectra)


@rule("real", takes=(Complex,), view=True, any_axis=True, when="of a Fourier transform")
def _real(call: Call, x: Data) -> Data:
    return select(call, x.parts, -1, 0) if isinstance(x, Complex) else x


@rule("imag", takes=(Complex,), view=True, any_axis=True, when="of a Fourier transform")
def _imag(call: Call, x: Data) -> Data:
    if not isinstance(x, Complex):
        call.refuse_shapes("real numbers have no imaginary part", x)
    return select(call, x.parts, -1, 1)


@rule("view_as_real", takes=(Complex,), view=True, any_axis=True, when="of a Fourier transform")
def _view_as_real(call: Call, x: Data) -> Data:
    if not isinstance(x, Complex):
        call.refuse_shapes("it needs complex numbers", x)
    return x.parts
