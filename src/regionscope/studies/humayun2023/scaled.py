"""What is smaller than in the paper, in words; the paper leaves batch sizes and some grids open."""

from __future__ import annotations

from regionscope.studies.study import Size

__all__ = ["DENSE", "GROKKING", "RESIDUAL", "RESIDUAL_GPU", "SMALL_IMAGES"]

_LOOKED = "Images and steps were chosen after a first look, so that the networks fit their data in this time."
_OPEN = "The batch size (200) is that of Liu et al. 2022, whose setting the paper follows."

DENSE: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 16, 60 steps: too short for any phase.",
    "desk": "5,000 steps in place of 100,000, batches of 100 in place of 200, LC at 300 train, test and random points "
    "in place of 1,000 and 10,000; two seeds.",
    "full": _OPEN,
}
GROKKING: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 16, 80 steps: too short for any phase.",
    "desk": "60,000 steps in place of 100,000, batches of 100 in place of 200, depth 3 and 4, LC at 300 points of each "
    "kind; two seeds. A first look at 12,000 steps ended before test accuracy rose.",
    "full": _OPEN,
}
SMALL_IMAGES: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 3, 20 steps: too short for any phase.",
    "desk": "500 images of CIFAR-10 in place of 50,000, width 8 in place of 32, 1,000 steps, LC at 48 points of each "
    f"kind in place of 2,000; two seeds. {_LOOKED}",
    "full": "The paper gives neither the number of steps nor the batch size: 100,000 steps of 128 images.",
}
RESIDUAL: dict[Size, str] = {
    "smoke": "64 digits of 8 x 8 pixels, width 1, 6 steps: too short for any phase.",
    "desk": "500 images of CIFAR-10 in place of 50,000, width 8 in place of 64, 600 steps, LC at 24 points of each "
    f"kind in place of 1,000; two seeds. {_LOOKED}",
    "full": "The paper gives neither the number of steps nor the batch size: 100,000 steps of 128 images.",
}
RESIDUAL_GPU: dict[Size, str] = {
    **RESIDUAL,
    "full": "8,000 steps of 256 images (the paper gives neither number), one seed, accuracy from 2,000 images.",
}
