"""Tables, figures and theorems of the paper, and why claims were not reproduced."""

from __future__ import annotations

from regionscope.studies.items import Cell, Item

_MLP = "1,000 images of MNIST, LC at all of them and at 10,000 test and 10,000 random points"
_WIDE = "width 200"
_CNN = "CNNs on CIFAR-10, LC at 2,000 points"
_RESNET = "ResNet18 on CIFAR-10, LC at 1,000 points"
_LATER = "not run yet"

ITEMS = (
    Item(where="Figure 1", scale=f"MLP, {_MLP}"),
    Item(
        where="Figure 2",
        scale="a toy function of two variables",
        claims=None,
        not_run=(Cell("all", "an illustration, no result"),),
    ),
    Item(where="Figure 3", scale=f"MLPs of depth 2 to 5, {_WIDE}; {_MLP}"),
    Item(where="Section 4.2", scale=f"the MLPs of Figure 3; {_MLP}"),
    Item(where="Figure 4", scale=f"{_CNN}, with and without BN, several depths"),
    Item(where="Figure 5", scale=f"{_RESNET}, with and without BN"),
    Item(
        where="Figure 6",
        scale=f"MLPs of depth 3, width 20 to 2,000; {_MLP}",
        not_run=(Cell("width 2,000", _LATER, "less at 2,000"),),
    ),
    Item(where="Figure 7", scale=f"{_CNN}, depth 5, width 32, several weight decays"),
    Item(
        where="Figure 8",
        scale=f"MLPs of several depths with initial weights times 8; {_MLP}",
        claims="train LC of the ascent|ascent of train LC|second descent of train LC|peaks of",
    ),
    Item(
        where="Figure 9",
        scale=f"MLPs of several depths with initial weights times 8; {_MLP}",
        claims="memorisation|steps to 90%|gained after the peak",
    ),
    Item(where="Figure 10", scale=f"MLP of depth 3, {_WIDE}, several numbers of images of MNIST"),
    Item(where="Figure 11", scale=f"MLP of depth 3, {_WIDE}, several numbers of images with random labels"),
    Item(
        where="Figure 12",
        scale="ResNet18 on ImageNet, LC at 1,000 test points",
        not_run=(Cell("training on ImageNet", "data not available here"),),
    ),
    Item(where="Figure 13", scale=f"MLPs of depth 3 to 5 with GELU, {_WIDE}; {_MLP}"),
    Item(where="Figure 14", scale=f"MLP of depth 3, {_WIDE}, 100,000 steps, 20 checkpoints, 500 points, r = 0.001"),
    Item(where="Figure 15", scale=f"MLP of depth 6, {_WIDE}; {_MLP}"),
    Item(where="Figure 16", scale=f"{_RESNET}, without BN, layer by layer"),
    Item(where="Figure 17", scale="random MLP of depth 18 and width 100; linear MLP of depth 50 and width 400"),
    Item(where="Figure 18", scale="a CNN trained on CIFAR-10, 1,000 training points"),
    Item(where="Figure 19", scale="a ResNet18 trained on CIFAR-10, 1,000 training points"),
)

# "Likely" marks a cause that no run has tested; the other sentences can be read off the committed pages.
_SMALL = (
    "Likely: scale. 500 images, width 8 and 1,000 steps; the CNNs without BN end with a training accuracy of 0.36 or "
    "less, so that phases that belong to fitting cannot be expected."
)
_TINY = "Likely: scale. 500 images, width 8 and 600 steps."
CAUSES: dict[str, dict[str, str]] = {
    "humayun2023-figure3": {
        "largest rise": "Disagreement, cause not known: at the coarse radius the ascent is higher and steeper in "
        "deeper networks, at the fine radius about equal from depth 3 on; 100,000 steps and three seeds.",
        "second descent": "Disagreement, cause not known: the shallowest network has a second descent at the fine "
        "radius as well.",
        "": "Measure: accuracy at the valley must be within 10% of its largest value, and it is 11 to 17% below; the "
        "paper gives no number for a peak of the accuracy.",
    },
    "humayun2023-figure4": {"": _SMALL},
    "humayun2023-figure5": {"": "Scale: 500 images, width 8 and 600 steps; on all of CIFAR-10 the phases are there."},
    "humayun2023-figure6": {
        "start": "Measure: the valley is flat (width 500: 0.44 to 0.53 from step 14 to step 152), so that the step of "
        "its lowest look is uncertain by far more than ±, which holds the distance of the looks only."
    },
    "humayun2023-figure7": {"": _SMALL},
    "humayun2023-figure8": {
        "": "Disagreement, cause not known: one peak is beyond the noise of 300 points. The paper sees its second peak "
        "by eye."
    },
    "humayun2023-figure13": {
        "": "Likely: scale. LC at 300 points; the largest rise at depth 3, from 0.15 to 0.24, stays within 3.5 "
        "standard errors."
    },
    "humayun2023-figure16": {
        "": f"{_TINY} No layer of the first stage has an ascent, so that none can have a second descent."
    },
    "humayun2023-figure18": {"": f"{_SMALL} Sizes are from 24 points."},
    "humayun2023-figure19": {"": f"{_TINY} Sizes are from 24 points."},
    "humayun2023-migration": {
        "": "Disagreement, cause not known: from 4 triangles for each of two seeds; the paper shows pictures and no "
        "number."
    },
}
