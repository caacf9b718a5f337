"""Labels that are compared with outputs run from 0 to the number of outputs less one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope_lab.train.evaluation import evaluate
from regionscope_lab.train.small_mlp import train_small


@pytest.mark.parametrize(
    ("net", "labels", "words"),
    [
        (nn.Linear(6, 1), [-1, 1, 1], "0 to 1 for 2 classes, got -1 to 1"),
        (nn.Linear(6, 4), [0, 1, 4], "0 to 3 for 4 classes, got 0 to 4"),
        (nn.Linear(6, 3), [1, 2, 3], "got 1 to 3. Subtract 1"),
    ],
)
def test_labels_that_no_output_can_give_are_refused(net: nn.Module, labels: list[int], words: str) -> None:
    inputs, wanted = torch.randn(3, 6), torch.tensor(labels)
    with pytest.raises(InputError, match=words):
        rs.error_rate(net, inputs, wanted)
    with pytest.raises(InputError, match=words):
        rs.generalisation_gap(net, (inputs, wanted), (inputs, wanted))
    for measure in (rs.sharpness, rs.measures.output_margin):
        with pytest.raises(InputError, match=words):
            measure(net, inputs, wanted)
    with pytest.raises(InputError, match=words):
        rs.error_rate(lambda x: net(torch.from_numpy(x)).detach().numpy(), inputs.numpy(), wanted)


def test_predicted_labels_and_ignored_ones_may_be_any() -> None:
    inputs, wanted = torch.randn(4, 3), torch.tensor([1, 2, 2, 1])
    assert rs.error_rate(lambda x: torch.ones(len(x), dtype=torch.int64), inputs, wanted).value == 0.5
    net, ignored = nn.Linear(3, 2), torch.tensor([0, 1, -100, -100])
    wanted_sharpness = rs.sharpness(net, inputs[:2], ignored[:2]).value
    assert rs.sharpness(net, inputs, ignored).value == pytest.approx(wanted_sharpness, rel=1e-2)


def test_training_and_evaluation_refuse_labels_from_1() -> None:
    net, inputs, labels = nn.Sequential(nn.Linear(3, 2)), torch.randn(4, 3), torch.tensor([1, 2, 2, 1])
    for loss in ("cross_entropy", "mse"):
        with pytest.raises(InputError, match=r"labels 0 to 1 for 2 classes, got 1 to 2\. Subtract 1"):
            evaluate(net, inputs, labels, loss=loss)
    with pytest.raises(InputError, match=r"labels 0 to 1 for 2 classes, got 1 to 2\. Subtract 1"):
        train_small(net, inputs, labels, epochs=[1], on_epoch=print)
