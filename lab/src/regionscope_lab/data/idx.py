"""MNIST and Fashion-MNIST: the idx files, plain or compressed, of <root>/MNIST/raw and <root>/FashionMNIST/raw."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import WrongFile
from regionscope_lab.data.files import read_exactly, read_head
from regionscope_lab.data.images import Pixels

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_BYTES = 0x08  # the type code of unsigned bytes, the only one these sets use


def read_idx_folder(folder: Path) -> tuple[Pixels, Pixels]:
    """The training and the test images of such a folder, (n, 1, 28, 28), and their labels from 0 to 9."""
    train, test = (_part(folder, *FILES[part]) for part in ("train", "test"))
    return train, test


def read_idx(path: Path, *, ndim: int) -> Tensor:
    """The array of unsigned bytes in an idx file: two zero bytes, type, ndim, the sizes (big endian), the values."""
    start = 4 + 4 * ndim
    head = read_head(path, start)
    if len(head) < start:
        raise WrongFile(f"Expected a header of {start} bytes in {str(path)!r}, got {len(head)}; the file is damaged")
    if head[:4] != bytes((0, 0, _BYTES, ndim)):
        raise WrongFile(
            f"Expected an idx file of {ndim}-dimensional bytes, which starts with 0000{_BYTES:02x}{ndim:02x}, at "
            f"{str(path)!r}, got {head[:4].hex()}"
        )
    sizes = tuple(int(n) for n in np.frombuffer(head, dtype=">u4", offset=4))
    raw = read_exactly(path, start + math.prod(sizes))
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(sizes).copy())


def _part(folder: Path, images_name: str, labels_name: str) -> Pixels:
    images_path, labels_path = _either(folder / images_name), _either(folder / labels_name)
    images, labels = read_idx(images_path, ndim=3), read_idx(labels_path, ndim=1)
    if images.shape[1:] != (28, 28):
        raise WrongFile(f"Expected images of (28, 28) pixels in {str(images_path)!r}, got {tuple(images.shape[1:])}")
    if len(images) != len(labels):
        raise WrongFile(
            f"Expected as many labels as images, got {len(images):,} images in {str(images_path)!r} and "
            f"{len(labels):,} labels in {str(labels_path)!r}"
        )
    if len(labels) and int(labels.max()) > 9:
        raise WrongFile(
            f"Expected labels from 0 to 9 in {str(labels_path)!r}, got {int(labels.max())}; the file is damaged"
        )
    return Pixels(images[:, None], labels.long())


def _either(path: Path) -> Path:
    """The plain file where there is one, else the compressed one."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.exists() and not path.exists() else path
