"""Your own data: a ``.npz`` or ``.csv`` file, a folder of images, or a Python function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.file_io import ARRAY_FILE_ERRORS, read_csv
from regionscope.inputs import read_array, read_examples
from regionscope.user_code import call_function
from regionscope_lab.data.dataset import Dataset, DataSplit, derived_seed, stratified_choice
from regionscope_lab.data.images import Pixels, chosen_parts
from regionscope_lab.user_files import IMAGE_ENDINGS, check_source

if TYPE_CHECKING:
    from regionscope_lab.config import DataSpec

_IMAGES = {"test_share": 0.2, "flatten": False, "symmetric": False}
OPTIONS: dict[str, dict[str, Any]] = {"npz": _IMAGES, "csv": {"test_share": 0.2}, "folder": {**_IMAGES, "size": 0}}


def kind_of(name: str) -> str:
    """One of "function", "npz", "csv" and "folder"."""
    return "function" if ".py:" in name else Path(name).suffix[1:] if name.endswith((".npz", ".csv")) else "folder"


def read_user_data(spec: DataSpec, options: dict[str, Any]) -> tuple[DataSplit, bool]:
    """Both parts, and whether they are images of pixels, which are scaled to [0, 1]; other numbers stay as they are."""
    check_source(spec.name, spec.source)
    kind, classes = kind_of(spec.name), 0
    if kind == "function":
        returned = call_function(spec.name, options, what="data")
        classes = returned.n_classes if isinstance(returned, DataSplit) else 0
        parts = _parts_of((returned.train, returned.test) if isinstance(returned, DataSplit) else returned, spec.name)
    else:
        path = Path(spec.name)
        read = {"npz": _read_npz, "csv": _read_csv}
        parts = read[kind](path) if kind in read else _read_folder(path, options["size"])
    share = 0.2 if kind == "function" else options["test_share"]
    train, test = parts if len(parts) == 2 else _divided(parts[0], share, spec)
    least = int(min(train[1].min(), test[1].min()))
    if not classes and least > 0:
        raise InputError(
            f"Expected labels 0, 1, ..., classes - 1 from {spec.name}, got {least} to {int(train[1].max())}. Subtract "
            f"{least}, or return a DataSplit, which says how many classes there are."
        )
    pixels = train[0].dtype == torch.uint8 and train[0].ndim == 4
    classes = classes or int(max(train[1].max(), test[1].max())) + 1
    made = [
        part.dataset(spec.name, classes)
        if pixels
        else Dataset(spec.name, part.images.to(torch.float32), part.labels, classes)
        for part in chosen_parts(Pixels(*train), Pixels(*test), spec)
    ]
    return DataSplit(*made), pixels


def _read_npz(path: Path) -> list[tuple[Tensor, Tensor]]:
    """x and y, and x_test and y_test where the file has them."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name in ("x", "y", "x_test", "y_test")}
            held = ", ".join(file.files) or "nothing"
    except (AttributeError, *ARRAY_FILE_ERRORS) as error:
        raise InputError(
            f"Expected an .npz file of numbers at {str(path)!r}, got: {error}. "
            "Save it with numpy.savez(path, x=x, y=y)."
        ) from error
    if not {"x", "y"} <= arrays.keys() or ("x_test" in arrays) != ("y_test" in arrays):
        raise InputError(
            f"Expected the arrays x (n, ...) and y (n,) in {str(path)!r}, and x_test with y_test or neither, got "
            f"{held}. Write it with np.savez(path, x=x, y=y)."
        )
    parts = [_pair(arrays["x"], arrays["y"], str(path))]
    return parts + ([_pair(arrays["x_test"], arrays["y_test"], str(path))] if "x_test" in arrays else [])


def _read_csv(path: Path) -> list[tuple[Tensor, Tensor]]:
    """Inputs and labels; the labels are the column called label, target or y, else the last one."""
    header, table = read_csv(path)
    if not len(table):
        raise InputError(f"Expected examples in {str(path)!r}, one a line, got none. Write numbers, then the label.")
    column = _label_column(header, table.shape[1])
    labels = table[:, column]
    fractions = labels[labels != np.floor(labels)]  # NaN too
    if table.shape[1] < 2 or len(fractions):
        got = f"{fractions[0]:g}" if len(fractions) else f"{table.shape[1]} column"
        raise InputError(
            f"Expected whole numbers as labels in column {column + 1} of {str(path)!r}, after at least one column of "
            f"inputs, got {got}. Put the labels in the last column, or call their column label."
        )
    return [_pair(np.delete(table, column, axis=1), labels.astype(np.int64), str(path))]


def _label_column(header: Sequence[str], columns: int) -> int:
    named = [i for i, name in enumerate(header) if name.lower() in ("label", "target", "y")]
    return named[0] if len(named) == 1 else columns - 1


def column_names(name: str) -> tuple[str, ...]:
    """The names of the inputs in the header of a ``.csv`` file; none for other data of yours, or without a header."""
    if kind_of(name) != "csv":
        return ()
    header, _ = read_csv(Path(name))
    labels = _label_column(header, len(header))
    return tuple(text for i, text in enumerate(header) if i != labels)


def _parts_of(returned: Any, name: str) -> list[tuple[Tensor, Tensor]]:
    """One part or two from what a function returned: (x, y), a Dataset, or a pair of either."""
    advice = (
        "Return a DataSplit, inputs and labels (x, y), a torch Dataset of (input, label) pairs, or two of these: the "
        "training part and the test part."
    )
    try:
        if isinstance(returned, tuple | list) and len(returned) == 2:
            if isinstance(returned[0], Tensor | np.ndarray):
                return [_pair(returned[0], returned[1], name)]
            return [
                _pair(part[0], part[1], name) if isinstance(part, tuple | list) else _dataset(part) for part in returned
            ]
        return [_dataset(returned)]
    except (TypeError, AttributeError, IndexError) as error:
        raise InputError(f"Expected data from {name}, got {type(returned).__name__}. {advice}") from error


def _dataset(returned: Any) -> tuple[Tensor, Tensor]:
    if isinstance(returned, Dataset):
        return returned.inputs, returned.labels
    if not hasattr(returned, "__len__"):
        raise TypeError
    examples = read_examples(returned)
    return examples.take_pairs(torch.arange(len(examples), device="cpu"))


def _pair(x: Any, y: Any, name: str) -> tuple[Tensor, Tensor]:
    inputs, labels = (
        read_array(values, f"{what} from {name} to be an array of real numbers").cpu()
        for values, what in ((x, "inputs x"), (y, "labels y"))
    )
    if inputs.ndim < 2 or labels.shape != inputs.shape[:1] or len(inputs) < 2:
        raise InputError(
            f"Expected at least two inputs x of shape (n, ...) and labels y of shape (n,) from {name}, got "
            f"{tuple(inputs.shape)} and {tuple(labels.shape)}. "
            "Check the shapes of x and y."
        )
    if labels.is_floating_point() or labels.is_complex() or int(labels.min()) < 0:
        raise InputError(
            f"Expected labels 0, 1, ..., classes - 1 as integers from {name}, got {labels.dtype} from {labels.min()}. "
            "Number the classes first."
        )
    if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
        raise InputError(f"Expected finite inputs from {name}, got NaN or infinity. Remove or replace them first.")
    return inputs, labels.long()


def _read_folder(path: Path, size: int) -> list[tuple[Tensor, Tensor]]:
    """CLASS/*.png, or train/CLASS/*.png with test/ or val/ beside it; classes are numbered by name.

    All images are in colour if one of them is.
    """
    folders = _part_folders(path)
    classes = class_names(str(path))
    images, labels = [], []
    for folder in folders:
        _check_classes(folder, classes, trained=folder is folders[0])
        files = [(file, label) for label, name in enumerate(classes) for file in _image_files(folder / name)]
        if len(classes) < 2 or len(files) < 2:
            raise InputError(
                f"Expected images ({', '.join(IMAGE_ENDINGS)}) in one folder for each class below {str(folder)!r}, got "
                f"{len(classes)} folders with {len(files)} images. "
                "Put the images of each class into a folder of its own."
            )
        labels.append(torch.tensor([label for _, label in files], device="cpu"))
        images.append(_read_images([file for file, _ in files], size))
    channels = max(len(image) for part in images for image in part)
    stacked = (torch.stack([image.expand(channels, -1, -1) for image in part]) for part in images)
    return list(zip(stacked, labels, strict=True))


def class_names(name: str) -> tuple[str, ...]:
    """The names of the classes of a folder of images, in the order of the labels; none for other data of yours."""
    if kind_of(name) != "folder":
        return ()
    return tuple(sorted(directory.name for directory in _class_folders(_part_folders(Path(name))[0])))


def _class_folders(folder: Path) -> list[Path]:
    """The folders of classes, without hidden folders."""
    return [directory for directory in folder.iterdir() if directory.is_dir() and not directory.name.startswith(".")]


def _part_folders(path: Path) -> list[Path]:
    """The folders of the training and the test part, or the only one."""
    test = next((path / name for name in ("test", "val") if (path / name).is_dir()), None)
    return [path / "train", test] if test is not None and (path / "train").is_dir() else [path]


def _image_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*")) if file.suffix.lower() in IMAGE_ENDINGS]


def _check_classes(folder: Path, classes: Sequence[str], *, trained: bool) -> None:
    """Raise ``InputError`` if a part has images of a class that the training part does not have, or if the training
    part (``trained``) has none of a class.
    """
    with_images = {directory.name for directory in _class_folders(folder) if _image_files(directory)}
    others, empty = sorted(with_images.difference(classes)), sorted(set(classes) - with_images)
    if others:
        raise InputError(
            f"Expected the classes of the training part in {str(folder)!r}, got images of {', '.join(others)} too. "
            "Add training images of each class, or remove these folders."
        )
    if trained and with_images and empty:
        raise InputError(
            f"Expected images ({', '.join(IMAGE_ENDINGS)}) of each class in {str(folder)!r}, got none in "
            f"{', '.join(empty)}. Add images, or remove these folders."
        )


def _read_images(files: Sequence[Path], size: int) -> list[Tensor]:
    """uint8 images (1, h, w) or (3, h, w), all of one size or resized to ``size`` and cropped."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    images: list[Tensor] = []
    for file in files:
        try:
            with Image.open(file) as opened:
                picture: Any = opened
                if opened.mode.startswith("I"):  # grey values up to 65535, which convert() clips at 255
                    picture = Image.fromarray(np.rint(np.array(opened) / 257).astype(np.uint8))
                picture = picture.convert("L" if picture.mode in ("1", "L") else "RGB")
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
            raise InputError(
                f"Expected an image in {str(file)!r}, got a file that cannot be read: {error}. "
                "Replace or remove this file."
            ) from error
        picture = ImageOps.fit(picture, (size, size), Image.Resampling.BILINEAR) if size else picture
        pixels = torch.from_numpy(np.array(picture, dtype=np.uint8))
        images.append(pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1))
        if images[-1].shape[1:] != images[0].shape[1:]:
            raise InputError(
                f"Expected images of one size, got (height, width) = {tuple(images[0].shape[1:])} and "
                f"{tuple(images[-1].shape[1:])} in {file.name}. Set the option size, as in data.options.size=32."
            )
    return images


def _divided(everything: tuple[Tensor, Tensor], share: float, spec: DataSpec) -> list[tuple[Tensor, Tensor]]:
    """A seeded training and test part, the latter with the same share of each class."""
    x, y = everything
    if not 0 < share < 1:
        raise InputError(f"Expected test_share between 0 and 1, got {share}. Choose 0.2, for example.")
    in_test = torch.zeros(len(y), dtype=torch.bool, device="cpu")
    in_test[stratified_choice(y, share, seed=derived_seed(spec.seed, "test part"))] = True
    if not bool(in_test.any()):
        raise InputError(
            f"Expected a class with at least two points in {spec.name}, to hold out a test part, got {len(y)} classes "
            "of one point each. Add points, or pass a test part."
        )
    return [(x[~in_test], y[~in_test]), (x[in_test], y[in_test])]
