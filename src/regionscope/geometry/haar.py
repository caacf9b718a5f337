"""Random orthonormal directions."""

from __future__ import annotations

import torch
from torch import Tensor


def haar_frames(gaussian: Tensor) -> Tensor:
    """Haar-distributed frames (.., k, d) from standard normal matrices (.., d, k): their columns, made orthonormal.

    Q of the QR decomposition whose R has a positive diagonal (Mezzadri 2007, section 5). The signs that a library gives
    to R depend on the numbers: LAPACK's first direction never has a positive first coordinate.
    """
    orthonormal, upper = torch.linalg.qr(gaussian)
    negative = torch.diagonal(upper, dim1=-2, dim2=-1) < 0
    frames: Tensor = torch.where(negative[..., None], -orthonormal.mT, orthonormal.mT)
    return frames
