"""Errors, gap and norms against closed forms, and inputs that parameter measures refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from measures.labelled_points import X, Y
from regionscope import measures
from regionscope.errors import InputError
from small_slices import mlp


def test_errors_and_the_gap() -> None:
    guess = lambda x: (x[:, 0] > 0).long()  # noqa: E731
    wrong = float((guess(X) != Y).double().mean())
    error = measures.error_rate(guess, X, Y)
    assert error.value == pytest.approx(wrong)
    assert error.stderr == pytest.approx(math.sqrt(wrong * (1 - wrong) / 39))
    perfect = (X, guess(X))
    gap = measures.generalisation_gap(guess, perfect, (X, Y), batch_size=7)
    assert (gap.train_error.value, gap.test_error.value, gap.value) == (0.0, wrong, wrong)
    assert gap.stderr == pytest.approx(error.stderr)
    assert str(gap).startswith("0.225 ± 0.067 (train error 0 ± 0 (n = 40), test error ")
    net = mlp(3, 8, 3)
    assert measures.error_rate(net, X.numpy(), Y.numpy()).value == pytest.approx(
        float((net(X).argmax(1) != Y).double().mean())
    )


def test_norms_by_hand() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
        net[0].bias.copy_(torch.tensor([1.0, 0.0]))
        net[1].weight.copy_(torch.tensor([[0.0, 2.0]]))
    norms = measures.parameter_norms(net)
    assert norms.l1 == 10.0
    assert norms.l2 == pytest.approx(math.sqrt(9 + 16 + 1 + 4))
    assert norms.frobenius == {"0.weight": 5.0, "0.bias": 1.0, "1.weight": 2.0}
    assert norms.spectral == pytest.approx({"0.weight": 4.0, "1.weight": 2.0})
    assert measures.parameter_norms(net, which="weights").l1 == 9.0
    zero = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
    assert measures.distance_from(net, zero) == pytest.approx(norms.l2)
    assert measures.distance_from(net, zero, which="weights") == pytest.approx(math.sqrt(29))
    assert measures.distance_from(net, net) == 0.0


NET = mlp(3, 4, 3)
OUTPUTS = (
    measures.error_rate,
    measures.output_margin,
    measures.sharpness,
    lambda net, x, y: measures.generalisation_gap(net, (x, y), (x, y)),
)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: measures.error_rate(NET, X, Y.double()), r"got float64 of shape \(40,\)\. Pass labels\.long\(\)"),
        (lambda: measures.error_rate(NET, X, torch.eye(3)[Y]), r"Pass labels\.argmax\(1\), if they are one-hot"),
        (lambda: measures.error_rate(NET, X, ["cat"] * 40), "got strings such as 'cat'. If they are labels, number"),
        (lambda: measures.error_rate(NET, X, Y[:3]), "one label for each of 40"),
        (lambda: measures.error_rate(NET, X[:0], Y[:0]), "at least one input, got 0"),
        (lambda: measures.error_rate(lambda x: x * math.nan, X, Y), "NaN for 40 of 40"),
        (lambda: measures.output_margin(nn.Flatten(0), X, Y), "shape"),
        (lambda: measures.output_margin(nn.Identity(), X * math.nan, Y), "NaN"),
        (
            lambda: measures.output_margin(nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False)), X, Y),
            "running stat",
        ),
        (lambda: measures.distance_from(NET, mlp(3, 5, 3)), "0.weight"),
        (lambda: measures.distance_from(NET, {}), "missing"),
        (lambda: measures.parameter_norms(NET, which="biases"), "which"),
        (lambda: measures.sharpness(nn.Flatten(), X, Y), "a model with trainable parameters, got none"),
        (lambda: measures.sharpness(NET, X * math.nan, Y), "finite"),
        (lambda: measures.sharpness(NET, X, Y[:2]), "40 inputs, got 2 labels"),
        (lambda: measures.sharpness(NET, X[:0], Y[:0]), "at least one input, got 0"),
        (lambda: measures.sharpness(NET, X, Y, samples=0), "samples"),
        (lambda: measures.sharpness(NET, X, Y, max_products=0), "max_products to be a whole .*got 0"),
        (lambda: measures.sharpness(NET, X, Y, batch_size=0), "batch_size .*, got 0"),
        (lambda: measures.sharpness(NET, X[:, :2], Y), r"failed on inputs of shape \(40, 2\)"),
        (lambda: measures.sharpness(NET, X, Y + 0.5), r"loss failed on outputs of shape \(40, 3\) and labels"),
        *((partial(measure, nn.Linear(3, 1), X, Y - 1), "0 to 1 for 2 classes, got -1 to 1") for measure in OUTPUTS),
        *((partial(measure, nn.Linear(3, 2), X, Y), "0 to 1 for 2 classes, got 0 to 2") for measure in OUTPUTS),
        *((partial(measure, nn.Linear(3, 3), X, Y + 1), "got 1 to 3. Subtract 1") for measure in OUTPUTS),
    ],
)
def test_bad_input_is_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda net: torch.compile(nn.DataParallel(net))])
def test_wrappers_of_torch_do_not_count(wrap: Callable[[nn.Module], nn.Module]) -> None:
    net, start = mlp(3, 4, 3, seed=0), mlp(3, 4, 3, seed=1)
    wanted = measures.distance_from(net, start)
    assert wanted > 0
    for model in (net, wrap(net)):
        for initial in (start, start.state_dict(), wrap(start), wrap(start).state_dict()):
            assert measures.distance_from(model, initial) == wanted
    assert measures.parameter_norms(wrap(net)) == measures.parameter_norms(net)
    with pytest.raises(InputError, match=r"'0\.weight', of shape \(4, 3\), is missing there"):
        measures.distance_from(net, {f"other.{name}": value for name, value in wrap(start).state_dict().items()})


def test_weights_without_numbers_are_named_and_infinite_ones_have_no_spectral_norm() -> None:
    sparse, empty = nn.Linear(2, 2), nn.Linear(2, 2, device="meta")
    sparse.weight = nn.Parameter(sparse.weight.detach().to_sparse())
    for model, words in (
        (sparse, "Call to_dense"),
        (empty, "without values"),
        (nn.Linear(2, 2, dtype=torch.complex64), "complex"),
    ):
        for measure in (measures.parameter_norms, lambda each: measures.distance_from(each, nn.Linear(2, 2))):
            with pytest.raises(InputError, match=f"parameter 'weight' .*{words}"):
                measure(model)
    for value in (math.inf, math.nan):
        model = nn.Linear(2, 2)
        nn.init.constant_(model.weight, value)
        assert math.isnan(measures.parameter_norms(model).spectral["weight"])


class _TokenClassifier(nn.Module):
    """Classes of token ids (n, t), which bfloat16 does not hold: above 256, it rounds to other tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.out = nn.Embedding(3000, 8), nn.Linear(8, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.tokens(ids.long()).mean(1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_token_ids_are_not_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, ids = _TokenClassifier().to(dtype).eval(), torch.randint(1000, 2000, (50, 6))
    logits = model(ids).detach().double()
    labels = logits.argmax(1)
    assert measures.error_rate(model, ids, labels).value == 0
    assert measures.generalisation_gap(model, (ids, labels), TensorDataset(ids, labels)).value == 0
    top = logits.topk(2, dim=1).values
    assert measures.output_margin(model, ids, labels).value == pytest.approx(float((top[:, 0] - top[:, 1]).mean()))
    sharp = [measures.sharpness(model, given, labels, dtype=torch.float64).value for given in (ids, ids.double())]
    assert sharp[0] == pytest.approx(sharp[1])


def test_whole_numbers_that_half_precision_does_not_hold_are_refused() -> None:
    model, table = nn.Linear(3, 2).bfloat16(), torch.tensor([[1, 2, 256], [3, 4, 5]])
    labels = torch.tensor([0, 1])
    assert measures.error_rate(model, table, labels).n == 2
    for measure in (measures.error_rate, measures.output_margin, measures.sharpness):
        with pytest.raises(InputError, match=r"whole numbers up to 256, which torch\.bfloat16 holds, got 257"):
            measure(model, table + (table == 256), labels)


def test_an_embedding_of_positions_takes_no_tokens() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions, self.features, self.out = nn.Embedding(6, 4), nn.Linear(6, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(torch.relu(self.features(x) + self.positions(torch.arange(6)).mean(0)))

    torch.manual_seed(0)
    model, table = Positions(), torch.randint(0, 9, (30, 6))
    labels = model(table.float()).argmax(1)
    assert measures.error_rate(model, table, labels).value == 0
    for measure in (measures.output_margin, measures.sharpness):
        assert measure(model, table, labels).value == measure(model, table.float(), labels).value
