"""The readers of image files, on small files of the same formats, whole and damaged."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec
from regionscope_lab.data import images as image_files
from regionscope_lab.data import load
from regionscope_lab.data.imagenet import read_image
from small_files import idx_files, images, new_pickle, old_pickle, write

SMALL10 = replace(image_files.CIFAR10, n_train=4, n_test=6)
SMALL100 = replace(image_files.CIFAR100, n_train=30, n_test=6)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR with a handful of images in each file."""
    monkeypatch.setattr(image_files, "CIFAR10", SMALL10)
    monkeypatch.setattr(image_files, "CIFAR100", SMALL100)


def cifar10_parts() -> dict[str, tuple[np.ndarray, list[int]]]:
    names = [(name, 4) for name in SMALL10.train] + [("test_batch", 6)]
    return {name: (images(n, 3072, seed=i), [(i + k) % 10 for k in range(n)]) for i, (name, n) in enumerate(names)}


def expected10() -> tuple[torch.Tensor, torch.Tensor]:
    parts = [cifar10_parts()[name] for name in SMALL10.train]
    pixels = torch.from_numpy(np.concatenate([part[0] for part in parts]))
    return pixels.reshape(-1, 3, 32, 32).float() / 255, torch.tensor([label for part in parts for label in part[1]])


def write_binary(folder: Path) -> Path:
    rows = {
        f"{name}.bin": b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True))
        for name, (pixels, labels) in cifar10_parts().items()
    }
    return write(folder / SMALL10.binary, rows)


@pytest.mark.parametrize(
    ("name", "folder", "packed"), [("mnist", "MNIST/raw", False), ("fashion_mnist", "FashionMNIST/raw", True)]
)
def test_idx_files_plain_and_compressed(tmp_path: Path, name: str, folder: str, packed: bool) -> None:
    write(tmp_path / folder, idx_files(), packed=packed)
    split = load(DataSpec(name=name, normalise=False), root=tmp_path)
    assert split.test.inputs.shape == (20, 1, 28, 28)
    assert torch.equal(split.train.inputs[:, 0], torch.from_numpy(images(40, 28, 28)).float() / 255)
    assert split.train.labels.tolist() == [i % 10 for i in range(40)]


def test_mnist_has_its_published_normalisation(tmp_path: Path) -> None:
    write(tmp_path / "MNIST/raw", idx_files())
    plain = load(DataSpec(name="mnist", normalise=False, n_train=20, options={"flatten": True}), root=tmp_path)
    split = load(DataSpec(name="mnist", n_train=20, options={"flatten": True}), root=tmp_path)
    assert split.train.labels.bincount().tolist() == [2] * 10
    assert split.input_shape == (784,)
    torch.testing.assert_close(split.train.inputs, (plain.train.inputs - 0.1307) / 0.3081)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (
            "t10k-images-idx3-ubyte",
            idx_files()["t10k-images-idx3-ubyte"][:-9],
            "15,696 bytes in .*, got 15,687; .* Run",
        ),
        ("t10k-images-idx3-ubyte", idx_files()["t10k-images-idx3-ubyte"] + b"x", "15,696 bytes in .*, got more"),
        ("t10k-images-idx3-ubyte", b"\0\0\x08", "a header of 16 bytes .*, got 3"),
        (
            "t10k-images-idx3-ubyte",
            b"<!DOCTYPE html> an error page",
            "which starts with 00000803, .*, got 3c21444f",
        ),
        ("t10k-labels-idx1-ubyte", idx_files(n_test=21)["t10k-labels-idx1-ubyte"], "got 20 images .* and 21 labels"),
        ("t10k-labels-idx1-ubyte", b"\0\0\x08\x01\0\0\0\x14" + b"\x0a" * 20, "labels from 0 to 9 .*, got 10"),
        ("t10k-images-idx3-ubyte", b"\0\0\x08\x03" + b"\xff" * 12 + b"pixels", "got 22"),
    ],
)
def test_damaged_idx_files(tmp_path: Path, file: str, content: bytes, sentence: str) -> None:
    write(tmp_path / "MNIST/raw", {**idx_files(), file: content})
    with pytest.raises(InputError, match=sentence):
        load(DataSpec(name="mnist"), root=tmp_path)


def test_a_broken_gz_and_a_missing_file(tmp_path: Path) -> None:
    file = write(tmp_path / "MNIST/raw", idx_files(), packed=True) / "train-images-idx3-ubyte.gz"
    whole = file.read_bytes()
    for content, words in (
        (whole[: len(whole) // 2], f"got {len(whole) // 2:,} bytes that cannot be decompressed"),
        (gzip.compress(b"ab") + b"garbage", "Expected a gzip file"),
        (None, r"got no such file\. Run: REGIONSCOPE_DATA=\S+ regionscope-lab data get mnist"),
    ):
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(InputError, match=words):
            load(DataSpec(name="mnist"), root=tmp_path)


@pytest.mark.usefixtures("small")
def test_cifar10_binary(tmp_path: Path) -> None:
    write_binary(tmp_path)
    split = load(DataSpec(name="cifar10", normalise=False), root=tmp_path)
    pixels, labels = expected10()
    assert torch.equal(split.train.inputs, pixels)
    assert torch.equal(split.train.labels, labels)
    assert split.test.inputs.shape == (6, 3, 32, 32)
    normal = load(DataSpec(name="cifar10"), root=tmp_path)
    mean, std = torch.tensor([0.49140, 0.48216, 0.44653]), torch.tensor([0.24703, 0.24349, 0.26159])
    torch.testing.assert_close(normal.train.inputs, (pixels - mean[:, None, None]) / std[:, None, None])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("style", ["python 2", 2, 4])
def test_cifar10_pickles_of_all_ages(tmp_path: Path, style: str | int) -> None:
    files = {
        name: old_pickle(pixels, {"labels": labels})
        if isinstance(style, str)
        else new_pickle({"data": pixels, "labels": labels, "batch_label": b"one of five"}, style)
        for name, (pixels, labels) in cifar10_parts().items()
    }
    write(tmp_path / SMALL10.pickled, files)
    split = load(DataSpec(name="cifar10", normalise=False), root=tmp_path)
    pixels, labels = expected10()
    assert torch.equal(split.train.inputs, pixels)
    assert torch.equal(split.train.labels, labels)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("layout", "kind", "classes"), [("binary", "fine", 100), ("pickled", "coarse", 20)])
def test_cifar100_in_both_layouts(tmp_path: Path, layout: str, kind: str, classes: int) -> None:
    parts = {"train": images(30, 3072), "test": images(6, 3072, seed=1)}
    labels = {"fine": [(7 * i) % 100 for i in range(30)], "coarse": [i % 20 for i in range(30)]}
    files = {}
    for name, pixels in parts.items():
        fine, coarse = labels["fine"][: len(pixels)], labels["coarse"][: len(pixels)]
        files[f"{name}.bin"] = b"".join(
            bytes([c, f]) + row.tobytes() for c, f, row in zip(coarse, fine, pixels, strict=True)
        )
        files[name] = old_pickle(pixels, {"fine_labels": fine, "coarse_labels": coarse})
    folder = SMALL100.binary if layout == "binary" else SMALL100.pickled
    write(
        tmp_path / folder, {name: raw for name, raw in files.items() if name.endswith(".bin") == (layout == "binary")}
    )
    split = load(DataSpec(name="cifar100", normalise=False, options={"labels": kind}), root=tmp_path)
    assert split.n_classes == classes
    assert split.train.labels.tolist() == labels[kind]
    assert torch.equal(split.train.inputs.flatten(1), torch.from_numpy(parts["train"]).float() / 255)


@pytest.mark.usefixtures("small")
def test_damaged_cifar(tmp_path: Path) -> None:
    folder = write_binary(tmp_path)
    file = folder / "data_batch_3.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-3073])  # a whole image less is not seen from the length alone
    with pytest.raises(
        InputError, match=r"12,292 bytes in .*data_batch_3\.bin.*, got 9,219; .* Run: REGIONSCOPE_DATA=.* regionscope"
    ):
        load(DataSpec(name="cifar10"), root=tmp_path)
    file.write_bytes(b"\x0b" + whole[1:])
    with pytest.raises(InputError, match=r"labels from 0 to 9 in .*data_batch_3\.bin"):
        load(DataSpec(name="cifar10"), root=tmp_path)
    file.unlink()
    with pytest.raises(InputError, match=r"data_batch_3\.bin', got no such file"):
        load(DataSpec(name="cifar10"), root=tmp_path)


def picture(path: Path, width: int, height: int, colour: tuple[int, int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), colour).save(path)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Three classes, six training and two test images each; the red of an image tells its class."""
    for k, name in enumerate(("n01440764", "n01443537", "n02097047")):
        for i in range(6):
            picture(tmp_path / "imagenet/train" / name / f"{name}_{i}.JPEG", 40 + i, 30, (100 * k, 50, 50))
        for i in range(2):
            picture(tmp_path / "imagenet/val" / name / f"ILSVRC_{i}.JPEG", 30, 50, (100 * k, 50, 50))
    return tmp_path


def test_an_imagenet_folder(photographs: Path) -> None:
    spec = DataSpec(name="imagenet", n_train=6, n_test=3, normalise=False, options={"size": 16})
    split = load(spec, root=photographs)
    assert split.train.inputs.shape == (6, 3, 16, 16)
    assert split.n_classes == 3
    assert split.train.labels.bincount().tolist() == [2, 2, 2]
    assert split.test.labels.tolist() == [0, 1, 2]
    red = split.train.inputs[:, 0].mean(dim=(1, 2)) * 255
    assert (red - 100 * split.train.labels).abs().max() < 3
    normal = load(replace(spec, normalise=True), root=photographs)
    torch.testing.assert_close(normal.train.inputs[:, 1], (split.train.inputs[:, 1] - 0.456) / 0.224)
    assert torch.equal(load(spec, root=photographs / "imagenet").train.inputs, split.train.inputs)


def test_resize_and_centre_crop(tmp_path: Path) -> None:
    board = np.zeros((256, 300, 3), dtype=np.uint8)
    board[16:240, 38:262] = 255  # exactly the centre that must remain
    Image.fromarray(board).save(tmp_path / "a.png")
    assert bool((read_image(tmp_path / "a.png", 224) == 255).all())
    Image.new("L", (20, 900), 7).save(tmp_path / "grey.png")
    assert read_image(tmp_path / "grey.png", 32).shape == (3, 32, 32)


def test_damaged_imagenet_folders(photographs: Path, tmp_path: Path) -> None:
    def refused(root: Path, words: str, **options: float) -> None:
        with pytest.raises(InputError, match=words):
            load(DataSpec(name="imagenet", options=options), root=root)

    refused(photographs, r"memory_gib = 0\.01 GiB, got 0\.0 GiB for 24 images of 3 x 224 x 224", memory_gib=0.01)
    picture(photographs / "imagenet/val/n99999999/a.JPEG", 30, 30, (0, 0, 0))
    refused(photographs, r"the classes of the folder train, got .*n99999999")
    shutil.rmtree(photographs / "imagenet/val/n99999999")
    (photographs / "imagenet/train/n01440764/n01440764_0.JPEG").write_bytes(b"not an image")
    refused(photographs, "n01440764_0.JPEG', got 12 bytes")
    empty = tmp_path / "empty"
    (empty / "train").mkdir(parents=True)
    refused(empty, "Expected a folder for each class")
    (empty / "train" / "n01440764").mkdir()
    refused(empty, "Expected images in .*, got none")
    refused(tmp_path / "nowhere", r"image-net\.org")
