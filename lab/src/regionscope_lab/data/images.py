"""From the bytes of images to a data set: choose, scale, normalise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope_lab.data.dataset import Dataset, balanced_choice, derived_seed

if TYPE_CHECKING:
    from regionscope_lab.config import DataSpec


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of each channel, of pixels between 0 and 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def of(inputs: Tensor) -> Normalisation:
        """Those of ``inputs`` (n, c, h, w) themselves."""
        channels = inputs.double().movedim(1, 0).flatten(1)
        std = channels.std(dim=1, correction=0)
        return Normalisation(tuple(channels.mean(dim=1).tolist()), tuple(std.clamp_min(1e-12).tolist()))

    def apply_(self, inputs: Tensor) -> Tensor:
        """(x - mean) / std for each channel of ``inputs`` (n, c, h, w), in place."""
        mean, std = (inputs.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return inputs.sub_(mean).div_(std)


# MNIST, Fashion-MNIST and both CIFAR: of the training images, as everybody states them. ImageNet: torchvision's.
PUBLISHED = {
    "mnist": Normalisation((0.1307,), (0.3081,)),
    "fashion_mnist": Normalisation((0.2860,), (0.3530,)),
    "cifar10": Normalisation((0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159)),
    "cifar100": Normalisation((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "imagenet": Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images as they lie on disk: ``images`` (n, c, h, w) uint8 and ``labels`` (n,) int64."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise InputError(
                f"Expected one label for each image, got {len(self.images):,} images and {len(self.labels):,} labels. "
                "Use image and label files of one data set."
            )

    def subset(self, n: int | None, *, seed: int, what: str) -> Pixels:
        """n of them, evenly over the classes; all for None."""
        if n is None or n == len(self.labels):
            return self
        chosen = balanced_choice(self.labels, n, seed=seed, what=what)
        return Pixels(self.images[chosen], self.labels[chosen])

    def dataset(self, name: str, n_classes: int) -> Dataset:
        """The same images with float32 pixels between 0 and 1."""
        return Dataset(name, self.images.to(torch.float32).div_(255), self.labels, n_classes)


def chosen_parts(train: Pixels, test: Pixels, spec: DataSpec) -> list[Pixels]:
    """The number of inputs of both parts that ``spec`` asks for."""
    return [
        pixels.subset(n, seed=derived_seed(spec.seed, f"{part} subset"), what=f"The {part} part of {spec.name}")
        for pixels, part, n in ((train, "train", spec.n_train), (test, "test", spec.n_test))
    ]
