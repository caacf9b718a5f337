"""Batches in a seeded order, augmented on the device, and the generators that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope_lab.config import Training
from regionscope_lab.data.augment import crop_flip, mixup
from regionscope_lab.data.dataset import derived_seed
from regionscope_lab.train.optimiser import loss_targets

_CHUNK = 1 << 26  # bytes of inputs that are put in order at once


class Randomness:
    """Three streams of one training: the order of batches, augmentation, and what the network draws (dropout).

    The order is drawn on the CPU, so that it is the same on every device.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        self._network_seed = derived_seed(seed, "network")
        self.order = torch.Generator().manual_seed(seed)
        self.augment = torch.Generator(device).manual_seed(derived_seed(seed, "augment"))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Context in which torch's global generators are those of this training; restores them at the end."""
        cuda = self._device.type == "cuda"
        with torch.random.fork_rng(devices=[self._device] if cuda else []):
            torch.default_generator.manual_seed(self._network_seed)
            if cuda:
                with torch.cuda.device(self._device):
                    torch.cuda.manual_seed(self._network_seed)
            yield

    def state(self) -> dict[str, Tensor]:
        """The states of the three streams."""
        states = {
            "order": self.order.get_state(),
            "augment": self.augment.get_state(),
            "network": torch.get_rng_state(),
        }
        if self._device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self._device)
        return states

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a ``state``. Refuses a state of another kind of device, which has other streams."""
        states = self.state()
        if state.keys() != states.keys() or state["augment"].shape != states["augment"].shape:
            raise InputError(
                f"Expected a state that was saved on the device type {self._device.type}, got another one, which "
                "draws other random numbers. Resume on the kind of device where it was saved, or start without "
                "it."
            )
        self.order.set_state(state["order"])
        torch.set_rng_state(state["network"])
        self.augment.set_state(state["augment"])
        if "cuda" in states:
            torch.cuda.set_rng_state(state["cuda"], self._device)


class Batches:
    """The training set, one epoch after another in a new order."""

    def __init__(
        self, inputs: Tensor, labels: Tensor, training: Training, classes: int, randomness: Randomness, model: nn.Module
    ) -> None:
        self._inputs = inputs
        self._targets = loss_targets(inputs, labels, training, classes)
        self._training, self._classes, self._randomness = training, classes, randomness
        self._size = training.batch_size
        self._layout = torch.channels_last if inputs.is_cuda and inputs.ndim == 4 else torch.preserve_format
        self.per_epoch = batches_per_epoch(len(inputs), training.batch_size, model)
        self.order = torch.empty(0, dtype=torch.int64, device=inputs.device)
        if training.augment == "crop_flip" and inputs.ndim != 4:
            raise InputError(
                'Expected images (n, channels, height, width) for augment "crop_flip", got shape '
                f'{tuple(inputs.shape)}. Use augment "none".'
            )

    def shuffle(self) -> None:
        """Draw the order of the next epoch."""
        order = torch.randperm(len(self._inputs), generator=self._randomness.order, device="cpu")
        self.order = order.to(self._inputs.device, non_blocking=True)

    def examples(self, batches: int) -> int:
        """How many examples the first ``batches`` batches of an epoch hold."""
        return min(batches * self._size, len(self._inputs))

    def after(self, done: int) -> Iterator[tuple[Tensor, Tensor]]:
        """(inputs, targets) of the epoch's batches after the first ``done``.

        Several batches are gathered at once, which is faster; what is drawn for a batch is drawn when it is handed out.
        """
        size = self._size
        plain = self._training.augment == "none" and self._training.mixup == 0
        row = self._inputs[0].numel() * self._inputs.element_size()
        together = max(1, _CHUNK // max(1, row * size))
        for start in range(done, self.per_epoch, together):
            stop = min(start + together, self.per_epoch)
            chosen = self.order[start * size : stop * size]
            parts = zip(self._inputs[chosen].split(size), self._targets[chosen].split(size), strict=True)
            if plain and self._layout is torch.preserve_format:
                yield from parts
            else:
                for inputs, targets in parts:
                    changed, soft = (inputs, targets) if plain else self._augmented(inputs, targets)
                    yield changed.to(memory_format=self._layout), soft

    def _augmented(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        generator = self._randomness.augment
        if self._training.augment == "crop_flip":
            inputs = crop_flip(inputs, generator)
        if self._training.mixup > 0:
            inputs, targets = mixup(inputs, targets, self._training.mixup, generator, classes=self._classes)
        return inputs, targets


def batches_per_epoch(n: int, size: int, model: nn.Module) -> int:
    """ceil(n / size), but a last batch of one example is left out for batch normalisation, which cannot take it."""
    normalised = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    full, rest = divmod(n, size)
    if normalised and (size == 1 or (full == 0 and rest == 1)):
        raise InputError("Expected batches of at least 2 examples for batch normalisation, got 1. Raise batch_size.")
    return full + (1 if rest > (1 if normalised else 0) else 0)
