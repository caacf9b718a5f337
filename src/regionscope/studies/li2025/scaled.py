"""What is smaller than in the paper, in words, by study and size."""

from __future__ import annotations

from regionscope.studies.study import Size

_Words = dict[Size, str]

_SMOKE = (
    "96 digits, tiny networks, 4 of the 27 settings, 4 epochs and 6 lines: it shows that the study runs, and nothing "
    "about its claim."
)
_DIGITS = (
    "8x8 digits (360 to train on, 1,437 to test on) in place of CIFAR-10, 150 epochs (MLP: 200), batches of 16, "
    "32 and 64 in place of 256, 512 and 1,024, which would be more than half of the data. Epochs and batches were "
    "chosen after a first look, in which small learning rates did not fit the data; nothing changed after these runs."
)
_ASSUMED = "Momentum 0.9 is an assumption: the paper says SGD only."
_CNN = "A CNN of depth 3 and width 16 with BatchNorm in place of ResNet18."
_NETS = (
    "An MLP (3 x 64), a CNN (depth 3, width 16) and ResNet18 at width 8 (one seed) in place of ResNet18, "
    "EfficientNetB0 and SENet18."
)
_RATES = (
    "The MLP has learning rates 0.05, 0.02 and 0.005, since without BatchNorm 0.1 does not train and 0.001 does not "
    "fit the data in this time (seen in a first look, before these runs); on Fashion-MNIST and MNIST 0.05 with batches "
    "of 16 does not train either."
)
_IMAGES = "1,000 training and 5,000 test images of Fashion-MNIST and of MNIST (one seed) for the MLP, 150 epochs."
_LINES = (
    "100 lines between training points (MLP: 200), 50 between test points and in random directions (MLP: 100), 16 "
    "hulls in each higher dimension (MLP: 20), 40 lines along the training (MLP: 50), in place of 100."
)

_RESNET = (
    "ResNet18 on CIFAR-10: 50 epochs in place of 200, in bf16. 50 is the shortest of 25, 50 and 100 epochs with which "
    "every setting that was run has a training error below 1%. 1,000 lines between training points in place of "
    "100, 300 on other lines, 100 along the training."
)
_OTHERS = (
    "Other networks: 9 of the 27 settings (weight decay 1e-6), 100 epochs, 500 lines between training points, 250 on "
    "other lines."
)
_NO_DATA = "CIFAR-100 and ImageNet were not run: the data is not available here."

PRIMARY: _Words = {"smoke": _SMOKE, "desk": f"{_CNN} {_DIGITS} {_LINES} {_ASSUMED}", "full": f"{_RESNET} {_ASSUMED}"}
COUNTED: _Words = {
    "smoke": _SMOKE,
    "desk": f"{_CNN} 8x8 digits (360 to train on) in place of CIFAR-10, 150 epochs in place of 200. Three seeds of one "
    "setting (learning rate 0.01, batch 32, decay 1e-6); Table 4's planes are 16 each.",
    "full": f"{_RESNET} One setting (learning rate 0.01, batch 512, decay 1e-6), 1,000 lines and 100 planes for Table "
    f"4. {_ASSUMED}",
}
NETWORKS: _Words = {
    "smoke": _SMOKE,
    "desk": f"{_NETS} {_DIGITS} {_RATES} {_LINES} {_ASSUMED}",
    "full": f"{_RESNET} {_OTHERS} {_ASSUMED}",
}
DATA_SETS: _Words = {
    "smoke": _SMOKE,
    "desk": f"{_NETS} {_DIGITS} {_RATES} {_IMAGES} {_LINES} {_ASSUMED}",
    "full": f"{_RESNET} {_OTHERS} {_NO_DATA} {_ASSUMED}",
}
AUGMENTED: _Words = {
    "smoke": _SMOKE,
    "desk": "An MLP (3 x 64) on 1,000 training and 5,000 test images of Fashion-MNIST, batches of 16, 32 and 64, one "
    f"seed. {_RATES} An MLP gains less from crops and flips than a convolutional network would.",
    "full": f"{_RESNET} With mixup and with crops and flips: the 9 settings of weight decay 1e-6, one seed, 500 lines; "
    f"small learning rates do not fit their data in 50 epochs with either. These runs took 11 minutes of one H200. "
    f"{_ASSUMED}",
}
OPTIMISERS: _Words = {
    "smoke": _SMOKE,
    "desk": f"An MLP (3 x 64) in place of nine networks. {_DIGITS} {_RATES} One seed for Adam and for "
    f"Adagrad. {_ASSUMED}",
    "full": f"{_RESNET} Adam and Adagrad: 9 settings each (weight decay 1e-6), 30 epochs, one seed, 500 lines; the "
    f"other eight networks were not run. These runs took 8 minutes of one H200. {_ASSUMED}",
}
_RESCALED = (
    "Three MLPs (3 x 64) trained on 8x8 digits, 100 lines each; the paper has no experiment here, and a larger network "
    "would show the same."
)
REPARAMETRISED: _Words = {"smoke": _SMOKE, "desk": _RESCALED, "full": _RESCALED}
THEORY: _Words = {
    "smoke": "16 units, 6 points, 2 runs, few steps.",
    "desk": "60 units, 8 or 12 points, 8 runs for each learning rate; the paper has no experiment here.",
    "full": "200 units, 50 runs for each learning rate; the paper has no experiment here.",
}
CIFAR10: _Words = {
    "smoke": _SMOKE,
    "desk": f"ResNet18 at width 8, one seed. {_DIGITS} {_LINES} {_ASSUMED}",
    "full": f"{_RESNET} Runs that were not made are counted in the notes; those of the committed page took 32 minutes "
    f"of one H200, four to six at a time. {_ASSUMED}",
}
OTHER_NETWORKS: _Words = {
    **NETWORKS,
    "full": "EfficientNetB0, SENet18, MobileNetV2 and VGG19 on CIFAR-10: 9 of the 27 settings (weight decay 1e-6), 100 "
    "epochs in place of 200, in bf16, 500 lines between training points, 250 on other lines. VGG19 has the learning "
    f"rate 0.05 in place of 0.1, as in the paper. {_ASSUMED}",
}
EXACT: _Words = {
    "smoke": f"{_SMOKE} Of those, 4 lines of one network.",
    "desk": f"One ResNet18 at width 8. {_DIGITS}",
    "full": "50 epochs in place of 200, one network (learning rate 0.01, batch 512, decay 1e-6), 20 lines.",
}
