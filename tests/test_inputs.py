"""Every instrument takes a tensor, an array, a Dataset or a DataLoader, and data and classifiers of other libraries."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import regionscope as rs
from regionscope.errors import InputError
from regionscope.inputs import read_array, read_examples
from regionscope_lab.data import Dataset as LabDataset
from regionscope_lab.zoo import mlp

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3
NET = mlp([3, 8, 3], seed=1)


class Rows(Dataset[tuple[Tensor, int]]):
    """Pairs that are made when they are asked for, and a list of those that were."""

    def __init__(self) -> None:
        self.loaded: list[int] = []

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        self.loaded.append(i)
        return X[i], int(Y[i])


KINDS: dict[str, Callable[[], Any]] = {
    "array": lambda: X.numpy(),
    "list": lambda: X.tolist(),
    "TensorDataset": lambda: TensorDataset(X, Y),
    "Dataset": Rows,
    "lab Dataset": lambda: LabDataset("rows", X, Y, 3),
    "DataLoader": lambda: DataLoader(TensorDataset(X, Y), batch_size=5, shuffle=True, drop_last=True),
    "DataLoader of rows": lambda: DataLoader(Rows(), batch_size=4),
}
UNLABELLED: dict[str, Callable[[Any], Any]] = {
    "region_count": lambda x: rs.region_count(NET, x, slices=4).counts,
    "region_count refined": lambda x: rs.region_count(NET, x, dim=2, slices=2, grid=5, method="refined").counts,
    "linear_region_count": lambda x: rs.measures.linear_region_count(NET, x, slices=4).counts,
    "random directions": lambda x: rs.region_count(NET, x, slices=4, through="direction").counts,
    "lines from the origin": lambda x: rs.region_count(NET, x, slices=4, through="origin").counts,
    "local_complexity": lambda x: rs.local_complexity(NET, x, dims=2, radius=0.5).total,
    "soft_local_complexity": lambda x: rs.complexity.soft_local_complexity(NET, x, dims=2, radius=0.5),
    "integrated_gradients": lambda x: rs.integrated_gradients(NET, x, target=0).attributions,
    "deformation": lambda x: rs.complexity.deformation(NET, x, dims=2).diameter["input"],
    "trusted_radius": lambda x: torch.tensor(rs.complexity.trusted_radius(NET, x, radii=[0.01, 0.1], dims=2)),
    "draw_points": lambda x: torch.stack(
        [rs.complexity.draw_points(x, x, n=4).train, rs.complexity.draw_points(x, x, n=4).test]
    ),
}
LABELLED: dict[str, Callable[..., Any]] = {
    "error_rate": lambda x, *y: rs.measures.error_rate(NET, x, *y).value,
    "error_rate of a function": lambda x, *y: (
        rs.measures.error_rate(lambda rows: torch.as_tensor(rows).argmax(1), x, *y).value
    ),
    "generalisation_gap": lambda x, *y: rs.measures.generalisation_gap(NET, (x, *y) if y else x, (X[:6], Y[:6])).value,
    "output_margin": lambda x, *y: rs.measures.output_margin(NET, x, *y, batch_size=5).value,
    "sharpness": lambda x, *y: rs.measures.sharpness(NET, x, *y).value,
    "sharpness of some": lambda x, *y: rs.measures.sharpness(NET, x, *y, samples=5, seed=3).value,
}


@pytest.mark.parametrize("name", UNLABELLED)
def test_inputs_of_every_kind_give_one_result(name: str) -> None:
    wanted = UNLABELLED[name](X).float()
    for kind, make in KINDS.items():
        assert torch.equal(UNLABELLED[name](make()).float(), wanted), kind


@pytest.mark.parametrize("name", LABELLED)
def test_labels_come_with_the_inputs_or_beside_them(name: str) -> None:
    wanted = LABELLED[name](X, Y)
    for kind, make in KINDS.items():
        assert LABELLED[name](make(), Y.tolist()) == wanted, kind
        if kind not in ("array", "list"):
            assert LABELLED[name](make()) == wanted, kind


def test_only_what_is_drawn_is_loaded() -> None:
    for draw in (
        lambda rows: rs.complexity.draw_points(rows, X, n=2),
        lambda rows: rs.region_count(NET, rows, slices=1),
        lambda rows: rs.measures.sharpness(NET, rows, samples=2),
    ):
        rows = Rows()
        draw(rows)
        assert len(set(rows.loaded)) <= 3  # the first one for its shape, and two


def test_a_loader_stands_for_the_items_of_its_dataset() -> None:
    def doubled(batch: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        return 2 * torch.stack([x for x, _ in batch]), torch.tensor([y for _, y in batch])

    def single(batch: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        return torch.stack([x for x, _ in batch]), torch.tensor(batch[0][1])

    assert torch.equal(read_examples(DataLoader(Rows(), collate_fn=doubled)).all(), 2 * X)
    ((inputs, labels),) = read_examples(DataLoader(Rows(), collate_fn=single)).pairs(len(X))
    assert torch.equal(inputs, X)
    assert labels.tolist() == [Rows()[i][1] for i in range(len(X))]
    chosen = DataLoader(Rows(), sampler=SubsetRandomSampler([4, 2]))
    assert torch.equal(read_examples(chosen).all(), X[[4, 2]])
    assert torch.equal(read_examples(DataLoader(Subset(Rows(), [1, 5]))).all(), X[[1, 5]])


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return iter(X)


class Ragged(Dataset[Tensor]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Tensor:
        return torch.zeros(i + 1)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (Stream(), "got Stream"),
        (DataLoader(Stream()), "Pass the dataset itself"),
        (DataLoader(TensorDataset(X), sampler=WeightedRandomSampler([1.0] * 12, 12)), "WeightedRandomSampler"),
        (DataLoader(TensorDataset(X), batch_size=None), "Pass the dataset itself"),
        (Ragged(), "inputs of one shape"),
        ([[1.0, 2.0], [3.0]], "several shapes"),
        ({"ids": X, "mask": X}, r"got dict with the keys 'ids', 'mask'. Pass the value .*, such as inputs\['ids'\]\."),
        (UserDict(x=X), "got UserDict with the keys 'x'"),
        ([{"x": X[0]}], "input 0 to be an array of numbers, got dict"),
        (DataLoader(X, collate_fn=lambda batch: {"x": batch}), "input 0 to be an array of numbers, got dict"),
        (DataLoader(X, collate_fn=lambda batch: ({"x": batch}, 0)), "input 0 to be an array of numbers, got dict"),
        (DataLoader(X, collate_fn=lambda batch: UserDict(x=batch)), "input 0 to be an array of numbers, got UserDict"),
        (DataLoader(X, collate_fn=lambda batch: None), "input 0 to be an array of numbers, got NoneType"),
        (np.array([["a"]]), "real numbers"),
        (torch.zeros(3), "first axis"),
        (7, "got int"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(inputs: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        rs.local_complexity(NET, inputs, dims=2)


def test_missing_labels_are_one_sentence() -> None:
    for inputs in (X, TensorDataset(X), list(X)):
        with pytest.raises(InputError, match="Expected labels, got inputs alone"):
            rs.measures.error_rate(nn.Linear(3, 3), inputs)


class Negated(TensorDataset):
    """A subclass whose items are not those of its tensors."""

    def __getitem__(self, i: int) -> tuple[Tensor, ...]:
        x, y = super().__getitem__(i)
        return -x, y


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Negated(X, Y), -X),
        (DataLoader(Negated(X, Y)), -X),
        (DataLoader(X, collate_fn=lambda batch: -torch.stack(batch)), -X),
        (DataLoader(X, sampler=SubsetRandomSampler(range(4))), X[:4]),
        ([([0.0, 1.0, 2.0], 1), ([3.0, 4.0, 5.0], 0)], torch.arange(6.0).reshape(2, 3)),
        (np.flip(X.numpy(), 0), X.flip(0)),
    ],
    ids=["subclass", "loader of a subclass", "collated tensor", "part of a tensor", "list of pairs", "turned array"],
)
def test_items_are_those_that_a_loop_would_see(given: Any, expected: Tensor) -> None:
    assert torch.equal(read_examples(given).all().to(expected), expected)


def test_a_sampler_over_other_data_is_refused() -> None:
    for sampler in (SequentialSampler(range(6)), RandomSampler(range(6))):
        with pytest.raises(InputError, match="Pass the dataset itself"):
            read_examples(DataLoader(TensorDataset(X, Y), sampler=sampler))


UNREADABLE: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "sparse": (lambda x: x.to_sparse(), "a sparse tensor .* Call to_dense"),
    "without values": (lambda x: x.to("meta"), "on the device meta, without values"),
    "complex": (lambda x: x + 1j, "complex numbers"),
    "complex array": (lambda x: (x + 1j).numpy(), "complex64"),
    "sparse items": (lambda x: [row.to_sparse() for row in x], "Call to_dense"),
    "complex items": (lambda x: TensorDataset(x + 1j), "complex numbers"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_inputs_that_are_no_real_numbers_are_refused(kind: str) -> None:
    change, words = UNREADABLE[kind]
    for measure in UNLABELLED.values():
        with pytest.raises(InputError, match=words):
            measure(change(X))
    for measure in LABELLED.values() if kind in ("sparse", "without values", "complex") else ():
        with pytest.raises(InputError, match=words):
            measure(change(X), Y)


def test_long_doubles_become_doubles() -> None:
    found = read_examples(X.numpy().astype(np.longdouble)).all()
    assert torch.equal(found, X.double())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_integers_count_as_real_numbers_of_the_same_value(dtype: torch.dtype) -> None:
    pixels = torch.randint(0, 256, (12, 3), generator=torch.Generator().manual_seed(0))
    measures: dict[str, Callable[[Any], Any]] = {
        "inputs": lambda x: rs.region_count(NET, x, slices=20).counts,
        "refined": lambda x: rs.region_count(NET, x, slices=5, method="refined").counts,
        "exact": lambda x: rs.region_count(NET, x, slices=5, method="exact").counts,
        "direction": lambda x: rs.region_count(NET, x, slices=20, through="direction").counts,
        "origin": lambda x: rs.region_count(NET, x, slices=20, through="origin").counts,
        "function": lambda x: rs.region_count(lambda rows: rows[:, 0] > rows[:, 1], x, slices=20).counts,
        "complexity": lambda x: rs.local_complexity(NET, x, radius=20.0).total,
        "line": lambda x: rs.linear_regions(NET, rs.Segment(x[0], x[1])).sizes,
        "plane": lambda x: rs.linear_regions(NET, rs.Box.through(x[:3], margin=0.2)).sizes,
    }
    whole = pixels.to(dtype)
    for name, measure in measures.items():
        assert torch.equal(measure(whole), measure(whole.float())), name
        if name != "function":
            assert torch.equal(measure(whole.numpy()), measure(whole.numpy().astype(np.float32))), name


POINTS = np.array([[0.0, 0.0], [0.0, 1.0], [3.0, 0.0], [3.0, 1.0]])
NAMES = np.array(["cat", "cat", "dog", "dog"])


class Photos(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        return Image.fromarray(np.full((2, 2), 60 * i, dtype=np.uint8)), i % 2


def test_pil_images_need_a_transform() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    for instrument in (rs.measures.error_rate, rs.local_complexity, rs.region_count):
        with pytest.raises(InputError, match=r"got a PIL image\. Give the dataset the transform"):
            instrument(net, Photos())
    with pytest.raises(InputError, match=r"point 0 .* got a pair\. Pass the input alone"):
        rs.Segment((torch.zeros(2), 1), (torch.ones(2), 0))


def test_read_only_arrays_are_read_without_a_warning() -> None:
    locked = POINTS.copy()
    locked.flags.writeable = False
    assert torch.equal(read_array(locked), torch.from_numpy(POINTS))
    assert torch.equal(read_examples(locked).all(), torch.from_numpy(POINTS))


def test_estimators_take_class_names_and_networks_are_asked_for_where_they_are_needed() -> None:
    estimator = LogisticRegression().fit(POINTS, NAMES)
    assert rs.measures.error_rate(estimator, POINTS, NAMES).value == 0.0
    assert rs.measures.error_rate(estimator, POINTS, ["dog", *NAMES[1:]]).value == 0.25
    with pytest.raises(InputError, match=r"Expected labels among 'cat', 'dog', got .*'fox'"):
        rs.measures.error_rate(estimator, POINTS, ["fox", *NAMES[1:]])
    for measure in (rs.measures.sharpness, rs.measures.output_margin):
        with pytest.raises(
            InputError, match=r"Expected an estimator of the classes 0, 1, 2, .*got classes_ \('cat', 'dog'\)"
        ):
            measure(estimator, POINTS, [0, 0, 1, 1])
    assert rs.linear_regions(estimator, rs.Segment(POINTS[0], POINTS[3])).n_linear_regions == 1
    with pytest.raises(InputError, match=r"got the class Linear\. Create an instance first: Linear\(\.\.\.\)\."):
        rs.linear_regions(torch.nn.Linear, rs.Segment(POINTS[0], POINTS[3]))
    with pytest.raises(InputError, match=r"got OrderedDict\. If it is a state dict, load it into a module"):
        rs.linear_regions(torch.nn.Linear(2, 2).state_dict(), rs.Segment(POINTS[0], POINTS[3]))
