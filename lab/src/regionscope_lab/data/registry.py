"""The list of data sets, and ``load``: a spec -> data in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regionscope.checks import unknown_name
from regionscope.errors import InputError, WrongFile
from regionscope.user_code import check_call
from regionscope_lab.data import images, user_data
from regionscope_lab.data.dataset import Dataset, DataSplit, add_label_noise, derived_seed
from regionscope_lab.data.files import data_root, download_command, find_folder
from regionscope_lab.data.imagenet import read_imagenet
from regionscope_lab.data.images import PUBLISHED, Normalisation, Pixels, chosen_parts
from regionscope_lab.data.tokens import BOOK, modular_addition_split, read_text, text_split
from regionscope_lab.data.toy import (
    digits_split,
    gaussian_quantiles_split,
    random_labels_split,
    two_moons_split,
)
from regionscope_lab.registry import Registry, check_option_names
from regionscope_lab.user_files import is_user_file

if TYPE_CHECKING:
    from regionscope_lab.config import DataSpec

ReadData = Callable[["DataSpec", Path, dict[str, Any]], DataSplit]


@dataclass(frozen=True)
class DataSource:
    """A data set: one line about it, shape and classes in words, its options with their defaults, and how it is read.

    folders: where it may lie under the data root; none for what is built in. class_names: the names that its authors
    published; none where classes are numbers, or too many to list.
    """

    about: str
    shape: str
    classes: str
    options: Mapping[str, Any]
    read: ReadData
    folders: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """The names that ``load`` knows.

    >>> names()[:4]
    ('two_moons', 'gaussian_quantiles', 'random_labels', 'modular_addition')
    """
    return _DATA_SETS.names()


def entry(name: str) -> DataSource:
    """What is known of this data set."""
    return _DATA_SETS.find(name)


def class_names(name: str) -> tuple[str, ...]:
    """The names of the classes of a data set or of a folder of images, in the order of the labels; else none."""
    return entry(name).class_names if name in names() else user_data.class_names(name)


def column_names(name: str) -> tuple[str, ...]:
    """The names of the inputs of a table, in order; none where they have no names."""
    return () if name in names() else user_data.column_names(name)


def load(spec: DataSpec, *, root: Path | str | None = None) -> DataSplit:
    """The training and the test part that ``spec`` describes, on the CPU.

    The steps in order: draw or read both parts; choose ``n_train`` and ``n_test`` inputs evenly over the classes;
    normalise images (or, with the option ``symmetric``, map [0, 1] to [-1, 1]); replace a share ``label_noise`` of the
    training labels. All randomness comes from ``spec.seed``. ``normalise`` has no effect on toy data, nor on your own
    data unless they are uint8 images. root: the data folder, see ``data_root``.
    """
    if not hasattr(spec, "label_noise"):
        raise InputError(
            f"Expected a DataSpec, got {type(spec).__name__}. "
            'Write load(DataSpec(name="digits")), with DataSpec from regionscope_lab.config.'
        )
    options = check_options(spec.name, spec.options)
    folder = data_root(root)
    try:
        split = (
            _read_user_data(spec, options) if is_user_file(spec.name) else entry(spec.name).read(spec, folder, options)
        )
    except WrongFile as error:
        raise InputError(f"{error.what}. {download_command(spec.name, folder, again=True)}") from error
    if spec.label_noise == 0:
        return split
    return replace(
        split, train=add_label_noise(split.train, spec.label_noise, seed=derived_seed(spec.seed, "label noise"))
    )


def check_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of this data set, with defaults. Raises ``InputError`` for a wrong one; reads no file."""
    if is_user_file(name) and user_data.kind_of(name) == "function":
        check_call(name, given, what="data")
        return dict(given)
    accepted = user_data.OPTIONS[user_data.kind_of(name)] if is_user_file(name) else entry(name).options
    check_option_names(name, given, accepted)
    for key, value in given.items():
        default = accepted[key]
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if type(value) not in kinds:
            raise InputError(
                f"Expected the option {key} of {name} to be of type {type(default).__name__}, got {value!r}. "
                f"Write it like {default!r}."
            )
    return {**accepted, **given}


def _read_user_data(spec: DataSpec, options: dict[str, Any]) -> DataSplit:
    split, pixels = user_data.read_user_data(spec, options)
    if pixels:
        return _finished(split, spec, {**_IMAGES, **options})
    if options.get("symmetric"):
        raise InputError(
            f"Expected uint8 images for the option symmetric, got other numbers in {spec.name}. "
            "Leave symmetric out for this data set."
        )
    return DataSplit(_flat(split.train), _flat(split.test)) if options.get("flatten") else split


def _drawn(split: Callable[..., DataSplit], n_train: int | None = None, n_test: int | None = None) -> ReadData:
    """Data that ``split`` makes from a seed; n_train, n_test: the numbers of points by default."""

    def read(spec: DataSpec, root: Path, options: dict[str, Any]) -> DataSplit:
        return split(spec.n_train or n_train, spec.n_test or n_test, seed=spec.seed, **options)

    return read


def _text(spec: DataSpec, root: Path, options: dict[str, Any]) -> DataSplit:
    text = read_text(options.pop("book"), root)
    return text_split(text, spec.n_train, spec.n_test, seed=spec.seed, **options)


def _digits(spec: DataSpec, root: Path, options: dict[str, Any]) -> DataSplit:
    split = digits_split(spec.n_train, spec.n_test, test_share=options["test_share"], seed=spec.seed)
    return _finished(split, spec, options)


def _idx(folder: str) -> ReadData:
    def read(spec: DataSpec, root: Path, options: dict[str, Any]) -> DataSplit:
        parts = images.read_idx_folder(find_folder(spec.name, root, [folder]))
        return _finished(_chosen(parts, spec, 10), spec, options)

    return read


def _cifar(spec: DataSpec, root: Path, options: dict[str, Any]) -> DataSplit:
    layout = images.CIFAR10 if spec.name == "cifar10" else images.CIFAR100
    labels = options.get("labels", "fine")
    if labels not in layout.classes:
        raise unknown_name("a valid option labels of cifar100", labels, layout.classes)
    parts = images.read_cifar(find_folder(spec.name, root, layout.folders), layout, labels=labels)
    return _finished(_chosen(parts, spec, layout.classes[labels]), spec, options)


def _imagenet(spec: DataSpec, root: Path, options: dict[str, Any]) -> DataSplit:
    how = "get it from image-net.org, with an account, and unpack it to train/<class>/*.JPEG and val/<class>/*.JPEG"
    folder = find_folder(spec.name, root, entry(spec.name).folders, advice=how).parent
    train, test, classes = read_imagenet(
        folder,
        n_train=spec.n_train,
        n_test=spec.n_test,
        size=options["size"],
        memory_gib=options["memory_gib"],
        seed=spec.seed,
    )
    return _finished(DataSplit(train.dataset(spec.name, classes), test.dataset(spec.name, classes)), spec, options)


def _chosen(parts: tuple[Pixels, Pixels], spec: DataSpec, classes: int) -> DataSplit:
    """The wanted number of images of both parts, with pixels between 0 and 1."""
    return DataSplit(*(part.dataset(spec.name, classes) for part in chosen_parts(*parts, spec)))


def _finished(split: DataSplit, spec: DataSpec, options: dict[str, Any]) -> DataSplit:
    """Normalised in place (by published numbers or those of the training part) or moved to [-1, 1]; flat if wanted."""
    if spec.normalise and options["symmetric"]:
        raise InputError(
            f"Expected data.normalise = False with the option symmetric of {spec.name}, got True. Pixels are either "
            "normalised by channel or moved to [-1, 1]; choose one."
        )
    if options["symmetric"]:
        for part in (split.train, split.test):
            part.inputs.mul_(2).sub_(1)
    if spec.normalise:
        by = PUBLISHED.get(spec.name) or Normalisation.of(split.train.inputs)
        by.apply_(split.train.inputs)
        by.apply_(split.test.inputs)
    return DataSplit(_flat(split.train), _flat(split.test)) if options["flatten"] else split


def _flat(data: Dataset) -> Dataset:
    return replace(data, inputs=data.inputs.flatten(1))


_IMAGES = {"flatten": False, "symmetric": False}

_DATA_SETS = Registry("a data set", {
    "two_moons": DataSource("two half circles", "2", "2", {"noise": 0.2}, _drawn(two_moons_split, 1000, 1000)),
    "gaussian_quantiles": DataSource(
        "rings of a normal distribution", "2", "5", {"classes": 5}, _drawn(gaussian_quantiles_split, 1000, 1000)
    ),
    "random_labels": DataSource(
        "uniform points, random labels", "2", "2", {"classes": 2, "dim": 2}, _drawn(random_labels_split, 1000, 1000)
    ),
    "modular_addition": DataSource(
        "a, b, = with a + b mod p", "3", "98", {"modulus": 97, "train_share": 0.4},
        _drawn(modular_addition_split),
    ),
    "text": DataSource(
        "bytes of a book", "64", "256", {"book": BOOK, "context": 64, "stride": 64, "test_share": 0.1}, _text
    ),
    "digits": DataSource("1,797 handwritten digits", "1, 8, 8", "10", {"test_share": 0.2, **_IMAGES}, _digits),
    "mnist": DataSource("70,000 digits", "1, 28, 28", "10", _IMAGES, _idx("MNIST/raw"), ("MNIST/raw",)),
    "fashion_mnist": DataSource(
        "70,000 clothes", "1, 28, 28", "10", _IMAGES, _idx("FashionMNIST/raw"), ("FashionMNIST/raw",),
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    "cifar10": DataSource(
        "60,000 photographs", "3, 32, 32", "10", _IMAGES, _cifar, images.CIFAR10.folders,
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    ),
    "cifar100": DataSource(
        "60,000 photographs", "3, 32, 32", "100", {"labels": "fine", **_IMAGES}, _cifar, images.CIFAR100.folders
    ),
    "imagenet": DataSource(
        "1.3 million photographs", "3, 224, 224", "1000", {"size": 224, "memory_gib": 8.0, **_IMAGES}, _imagenet,
        ("imagenet/train", "ImageNet/train", "train"),
    ),
}, more="your own is a .npz or .csv file, ./FOLDER of images or FILE.py:FUNCTION")  # fmt: skip
