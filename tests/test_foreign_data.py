"""Data and classifiers as other libraries have them: PIL images, read-only arrays, class names, estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import Dataset

import regionscope as rs
from regionscope.errors import InputError
from regionscope.inputs import read_array, read_examples

X = np.array([[0.0, 0.0], [0.0, 1.0], [3.0, 0.0], [3.0, 1.0]])
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
    locked = X.copy()
    locked.flags.writeable = False
    assert torch.equal(read_array(locked), torch.from_numpy(X))
    assert torch.equal(read_examples(locked).all(), torch.from_numpy(X))


def test_estimators_take_class_names_and_networks_are_asked_for_where_they_are_needed() -> None:
    estimator = LogisticRegression().fit(X, NAMES)
    assert rs.measures.error_rate(estimator, X, NAMES).value == 0.0
    assert rs.measures.error_rate(estimator, X, ["dog", *NAMES[1:]]).value == 0.25
    with pytest.raises(InputError, match=r"Expected labels among 'cat', 'dog', got .*'fox'"):
        rs.measures.error_rate(estimator, X, ["fox", *NAMES[1:]])
    for measure in (rs.measures.sharpness, rs.measures.output_margin):
        with pytest.raises(InputError, match=r"Expected a torch\.nn\.Module, got LogisticRegression"):
            measure(estimator, X, [0, 0, 1, 1])
    with pytest.raises(InputError, match=r"got LogisticRegression\. Use region_count\(\), which takes any classifier"):
        rs.linear_regions(estimator, rs.Segment(X[0], X[3]))
    with pytest.raises(InputError, match=r"got the class Linear\. Create an instance first: Linear\(\.\.\.\)\."):
        rs.linear_regions(torch.nn.Linear, rs.Segment(X[0], X[3]))
    with pytest.raises(InputError, match=r"got OrderedDict\. If it is a state dict, load it into a module"):
        rs.linear_regions(torch.nn.Linear(2, 2).state_dict(), rs.Segment(X[0], X[3]))
