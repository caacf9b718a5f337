"""A folder of images sorted into classes, as ImageNet is kept: train/<class>/*.JPEG and val/<class>/*.JPEG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope_lab.data.dataset import balanced_choice, derived_seed
from regionscope_lab.data.images import Pixels

_ENDINGS = {".jpeg", ".jpg", ".png"}
_GIB = 2**30


def read_imagenet(
    folder: Path,
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    size: int = 224,
    memory_gib: float = 8.0,
    seed: int = 0,
) -> tuple[Pixels, Pixels, int]:
    """Training and test images (n, 3, size, size) and the number of classes, numbered by their folders' names.

    Only the chosen images, evenly over the classes, are opened, one after the other. Memory is checked before: float32
    images of more than ``memory_gib`` are refused.
    """
    if size < 1:
        raise InputError(f"Expected size of imagenet of at least 1, got {size}. Choose 64, for example.")
    classes = sorted(entry.name for entry in _entries(folder / "train") if entry.is_dir())
    if not classes:
        raise InputError(
            f"Expected a folder for each class, such as n01440764, in {str(folder / 'train')!r}, got none. "
            "Unpack the archive of the training images there."
        )
    parts = [
        _choose(folder / where, classes, n, derived_seed(seed, f"{part} subset"))
        for where, n, part in (("train", n_train, "train"), ("val", n_test, "test"))
    ]
    n = sum(len(paths) for paths, _ in parts)
    wanted = n * 3 * size * size * 4 / _GIB
    if wanted > memory_gib:
        raise InputError(
            f"Expected at most memory_gib = {memory_gib:g} GiB, got {wanted:,.1f} GiB for {n:,} images of 3 x "
            f"{size} x {size}. Lower n_train and n_test or the size, or raise memory_gib."
        )
    train, test = (_read(paths, labels, size) for paths, labels in parts)
    return train, test, len(classes)


def read_image(path: Path, size: int) -> Tensor:
    """One image (3, size, size) uint8: shorter side resized to size * 256 / 224 (bilinear), centre cropped, RGB."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as file:
            picture = file.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        got = f"{path.stat().st_size:,} bytes" if path.exists() else "no such file"
        raise InputError(f"Expected an image at {str(path)!r}, got {got} ({error}). Replace or remove it.") from error
    short = round(size * 256 / 224)
    w, h = picture.size
    resized = (short, max(short, int(short * h / w))) if w <= h else (max(short, int(short * w / h)), short)
    picture = picture.resize(resized, Image.Resampling.BILINEAR)
    left, top = round((resized[0] - size) / 2), round((resized[1] - size) / 2)
    cut: np.ndarray[Any, Any] = np.array(picture.crop((left, top, left + size, top + size)), dtype=np.uint8)
    return torch.from_numpy(cut).permute(2, 0, 1)


def _choose(folder: Path, classes: list[str], n: int | None, seed: int) -> tuple[list[Path], Tensor]:
    paths: list[Path] = []
    labels: list[int] = []
    for entry in _entries(folder):
        if not entry.is_dir():
            continue
        if entry.name not in classes:
            raise InputError(
                f"Expected the classes of the folder train, got {str(entry)!r}. Remove this folder, or add it to train."
            )
        inside = [path for path in _entries(entry) if path.suffix.lower() in _ENDINGS]
        paths += inside
        labels += [classes.index(entry.name)] * len(inside)
    if not paths:
        raise InputError(
            f"Expected images in {str(folder)!r}, got none. Put them into a folder for each class, such as "
            f"{str(folder / classes[0])!r}, as {', '.join(sorted(_ENDINGS))} files."
        )
    numbers = torch.tensor(labels, device="cpu")
    if n is None or n == len(paths):
        return paths, numbers
    chosen = balanced_choice(numbers, n, seed=seed, what=str(folder))
    return [paths[i] for i in chosen.tolist()], numbers[chosen]


def _read(paths: list[Path], labels: Tensor, size: int) -> Pixels:
    images = torch.empty((len(paths), 3, size, size), dtype=torch.uint8, device="cpu")
    for i, path in enumerate(paths):
        images[i] = read_image(path, size)
    return Pixels(images, labels)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"The folder {str(folder)!r} of imagenet cannot be listed ({error.strerror}). "
            "Provide train/<class>/*.JPEG and val/<class>/*.JPEG."
        ) from error
