"""Rules that a paper has for single networks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from regionscope.lab.config import Training

__all__ = ["Adjusted", "adjust"]


@dataclass(frozen=True)
class Adjusted:
    """The settings to train with, and one sentence on what was changed and why (empty where nothing was)."""

    training: Training
    note: str = ""


def adjust(network: str, training: Training) -> Adjusted:
    """Apply the rule for ``network``, if there is one.

    VGG19: a learning rate of 0.1 becomes 0.05. Li et al. 2025, section 4, where 0.1 does not train it.

    >>> adjust("vgg19", Training(lr=0.1)).training.lr
    0.05
    >>> adjust("resnet18", Training(lr=0.1)).training.lr
    0.1
    """
    if network == "vgg19" and training.lr == 0.1:
        note = "vgg19 is trained with a learning rate of 0.05 where 0.1 was asked for, as in Li et al. 2025."
        return Adjusted(replace(training, lr=0.05), note)
    return Adjusted(training)
