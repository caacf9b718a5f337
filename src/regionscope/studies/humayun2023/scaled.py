"""What is smaller than in the paper, in words.

The paper gives no batch size, and a number of steps (100,000) for the network of Figure 14 only. "Depth" is not defined
there either; every page says what it counts here.
"""

from __future__ import annotations

from regionscope.studies.study import Size

_LOOKED = "Images and steps were chosen after a first look, so that the networks fit their data in this time."
_STEPS = "The paper gives neither the number of steps nor the batch size: 100,000 steps of 128 images."
DEPTH = "Depth counts linear layers, the last one among them: depth 4 has three hidden layers."
_CNN_DEPTH = "Depth counts convolutions, without the linear layer at the end."
_UNKNOWN = "the paper gives no batch size, and a number of steps (100,000) for Figure 14 only"
_OPEN = (
    "100,000 steps, which the paper names for Figure 14 only; the paper gives no batch size, and 200 is that of Liu et "
    f"al. 2022, whose setup it follows. {DEPTH}"
)

DENSE: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 16, 60 steps: too short for any phase.",
    "desk": f"5,000 steps of 100 images ({_UNKNOWN}), LC at 300 train, test and random points in place of 1,000 and "
    f"10,000; two seeds. {DEPTH}",
    "full": _OPEN,
}
GROKKING: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 16, 80 steps: too short for any phase.",
    "desk": f"60,000 steps of 100 images ({_UNKNOWN}), depth 3 and 4, LC at 300 points of each kind; two seeds. A "
    f"first look at 12,000 steps ended before test accuracy rose. {DEPTH}",
    "full": _OPEN,
}
SMALL_IMAGES: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 3, 12 steps: too short for any phase.",
    "desk": "500 images of CIFAR-10 in place of 50,000, width 8 (the paper names 32, for Figure 7 only), 1,000 steps, "
    f"LC at 48 points of each kind in place of 2,000; two seeds. {_CNN_DEPTH}",
    "full": f"{_STEPS} {_CNN_DEPTH}",
}
RESIDUAL: dict[Size, str] = {
    "smoke": "64 digits of 8 x 8 pixels, width 1, 4 steps: too short for any phase.",
    "desk": "500 images of CIFAR-10 in place of 50,000, width 8 in place of 64, 600 steps, LC at 24 points of each "
    f"kind in place of 1,000; two seeds. {_LOOKED}",
    "full": _STEPS,
}
RESIDUAL_GPU: dict[Size, str] = {
    **RESIDUAL,
    "full": "8,000 steps of 256 images (the paper gives neither number) with products in bf16; one seed, so that ± is "
    "over the points; 14 looks after the start; accuracy from 2,000 images.",
}
MIGRATED: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 16, 60 steps, 2 triangles: too short for any phase.",
    "desk": f"5,000 steps of 100 images ({_UNKNOWN}); folds on 4 triangles between training points for each of two "
    f"seeds, at the stored steps nearest to start, valley, peak and end. {DEPTH}",
    "full": _OPEN,
}
SAMPLES: dict[Size, str] = {
    **DENSE,
    "desk": f"{DENSE['desk']} 1,000, 3,000 and 10,000 samples; the full size goes up to 50,000.",
}
RANDOM_LABELS: dict[Size, str] = {
    **SAMPLES,
    "desk": f"{SAMPLES['desk']} At 10,000 samples the training ends before all labels are memorised, so that the peak "
    "there is a lower bound.",
}
DEFORMED_CNN: dict[Size, str] = {
    "smoke": "100 digits of 8 x 8 pixels, width 3, 12 steps; 4 training points, 5 directions.",
    "desk": "24 training points in place of 1,000, and 20 directions (the paper takes 25 for LC of a CNN); the network "
    "has width 8 (the paper names 32, for Figure 7 only) and saw 500 images of CIFAR-10 in place of 50,000 for 1,000 "
    "steps; two seeds. "
    f"{_CNN_DEPTH}",
    "full": SMALL_IMAGES["full"],
}
DEFORMED_RESNET: dict[Size, str] = {
    "smoke": "64 digits of 8 x 8 pixels, width 1, 4 steps; 4 training points, 5 directions.",
    "desk": "24 training points in place of 1,000, 20 directions; the network has width 8 in place of 64 and saw 500 "
    "images of CIFAR-10 in place of 50,000 for 600 steps; two seeds. It is the one with BN, which the paper leaves "
    "open.",
    "full": f"The network is the one with BN, which the paper leaves open. {RESIDUAL['full']}",
}
