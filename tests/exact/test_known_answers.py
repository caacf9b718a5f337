"""The corpus of known answers: it rebuilds, its checksums hold, and the slow twin finds the same counts."""

from __future__ import annotations

import math

import pytest
import torch

from regionscope.network import trace
from twins.known_answers import KnownAnswer, known_answers
from twins.reference import reference_regions

CORPUS = list(known_answers())
SMALL = [answer for answer in CORPUS if answer.n_activation_regions <= 120]


@pytest.mark.parametrize("answer", CORPUS, ids=lambda answer: answer.name)
def test_an_answer_builds_without_touching_the_random_stream(answer: KnownAnswer) -> None:
    state = torch.get_rng_state()
    model, slice = answer.build(), answer.slice
    assert torch.equal(torch.get_rng_state(), state)
    outputs = trace(model, slice.input_shape)(slice.embed(slice.corners))
    assert bool(torch.isfinite(outputs).all())
    assert answer.n_linear_regions <= answer.n_activation_regions == list(answer.by_layer.values())[-1]


@pytest.mark.slow
@pytest.mark.parametrize("answer", SMALL, ids=lambda answer: answer.name)
def test_the_reference_agrees(answer: KnownAnswer) -> None:
    program = trace(answer.build(), answer.slice.input_shape)
    partition, decision = reference_regions(program, answer.slice)
    assert partition.by_layer == answer.by_layer
    assert partition.n_linear_regions == answer.n_linear_regions
    assert decision.count == answer.n_decision_regions


def test_closed_forms_hold() -> None:
    known = {answer.name: answer for answer in CORPUS}
    assert known["|x|"].n_linear_regions == 2
    assert known["x = relu(x) - relu(-x)"].n_linear_regions == 1
    for depth in (1, 2, 3, 5, 8):
        assert known[f"sawtooth of depth {depth}"].n_linear_regions == 2**depth
    for n in (2, 4, 7):
        assert known[f"{n} lines in general position"].n_linear_regions == 1 + n + math.comb(n, 2)
        assert known[f"{n} lines through one point"].n_linear_regions == 2 * n


def test_seeded_weights_are_those_of_a_plain_sequential() -> None:
    """The counts 206, 1151 and 4113 belong to nn.Sequential 2-[w]*3-2 after torch.manual_seed(5)."""
    known = {answer.name: answer for answer in CORPUS}
    for width, count in ((16, 206), (32, 1151), (64, 4113)):
        answer = known[f"2-[{width}]*3-2, seed 5"]
        assert answer.n_activation_regions == answer.n_linear_regions == count
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        first = torch.nn.Linear(2, 16)
    assert torch.equal(first.weight, known["2-[16]*3-2, seed 5"].build()[0].weight)
