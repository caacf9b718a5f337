"""Random changes of whole batches, on the device where the batch lies, with no step that waits for the device."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from regionscope.errors import InputError


def crop_flip(batch: Tensor, generator: torch.Generator, *, padding: int = 4) -> Tensor:
    """Pad each image on all sides, crop it at a random place to its size, and mirror it with probability 1/2.

    batch: (b, c, h, w). The padding is 0, the mean colour of normalised images. The crop is drawn for each image
    separately. Cost: a copy and a gather.
    """
    if batch.ndim != 4:
        raise InputError(
            f"Expected a batch of images (b, c, h, w), got shape {tuple(batch.shape)}. Use crop_flip with images only."
        )
    if padding < 0:
        raise InputError(f"Expected padding of crop_flip of at least 0, got {padding}. Pass 4, for example.")
    _check_device(batch, generator)
    b, c, h, w = batch.shape
    device = batch.device
    down, right = torch.randint(2 * padding + 1, (2, b, 1), generator=generator, device=device)
    mirrored = torch.rand((b, 1), generator=generator, device=device) < 0.5
    rows = torch.arange(h, device=device) + down
    columns = torch.arange(w, device=device).expand(b, w)
    columns = torch.where(mirrored, w - 1 - columns, columns) + right
    padded = functional.pad(batch, (padding, padding, padding, padding))
    taken = (rows[:, :, None] * (w + 2 * padding) + columns[:, None, :]).reshape(b, 1, h * w)
    return padded.flatten(2).gather(2, taken.expand(b, c, h * w)).reshape(b, c, h, w)


def mixup(
    batch: Tensor, labels: Tensor, alpha: float, generator: torch.Generator, *, classes: int | None = None
) -> tuple[Tensor, Tensor]:
    """lam x + (1 - lam) x' and lam y + (1 - lam) y', with x' the batch in a random order and lam ~ Beta(alpha, alpha).

    Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization"; one lam for the batch, as in their code. labels:
    classes (b,), with ``classes`` the number of them, or one-hot rows (b, c). Returns inputs like ``batch`` and soft
    labels (b, c) of its dtype, which cross-entropy and squared error both take. alpha = 0 mixes nothing.
    """
    if not (alpha >= 0 and math.isfinite(alpha)):
        raise InputError(f"Expected alpha of mixup of at least 0, got {alpha}. Pass 0 to mix nothing.")
    if labels.ndim == 1 and classes is None:
        raise InputError(
            "Expected classes=, the number of classes, for integer labels, got None. "
            "Pass the number of classes of the data set."
        )
    if labels.ndim not in (1, 2) or len(labels) != len(batch):
        raise InputError(
            f"Expected integer labels (b,) or rows (b, c) for {len(batch)} inputs, got shape {tuple(labels.shape)}. "
            "Pass one label or row for each input."
        )
    _check_device(batch, generator)
    dtype = batch.dtype if batch.dtype.is_floating_point else torch.float32
    soft = (functional.one_hot(labels, classes or 0) if labels.ndim == 1 else labels).to(dtype)
    if alpha == 0:
        return batch, soft
    lam = beta_symmetric(alpha, 1, generator).to(dtype)
    order = torch.randperm(len(batch), generator=generator, device=batch.device)
    inputs = batch.to(dtype)
    return torch.lerp(inputs[order], inputs, lam), torch.lerp(soft[order], soft, lam)


def beta_symmetric(alpha: float, n: int, generator: torch.Generator) -> Tensor:
    """n independent draws (n,) float64 of Beta(alpha, alpha), on the generator's device.

    If T has Student's t distribution with 2 alpha degrees of freedom, then 1/2 + T / (2 sqrt(2 alpha + T^2)) has this
    one, and Bailey 1994 gives T^2 / (2 alpha) = (U^(-1 / alpha) - 1) cos^2(2 pi V). Exact for every alpha > 0, with
    no rejection: nothing has to come back from the device.
    """
    u, v = torch.rand((2, n), generator=generator, device=generator.device, dtype=torch.float64)
    side = torch.cos(2 * math.pi * v)
    ratio = torch.expm1(-torch.log(u) / alpha) * side.square()
    return 0.5 + 0.5 * side.sign() / torch.sqrt(1 + 1 / ratio)


def _check_device(batch: Tensor, generator: torch.Generator) -> None:
    if generator.device.type != batch.device.type:
        raise InputError(
            f"Expected a generator on {batch.device}, got {generator.device}. Make it with "
            f"torch.Generator(device={str(batch.device)!r})."
        )
