"""One of several outputs, and further arguments: every instrument finds what it finds for the plain network."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import InputError, NotPiecewiseAffine
from regionscope.network.output import select_output

Pair = namedtuple("Pair", ["features", "logits"])
X = torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3
BOX = rs.Box([0.0, 0.0], torch.eye(2), 2.0)
LINE = rs.Segment([4.5, -1.0], [-6.5, 1.5])


@dataclass
class Both:
    logits: Tensor
    features: Tensor


class Outputs(dict[str, Tensor]):
    """As the ModelOutput of transformers: names are keys and attributes, and an index counts the values."""

    def __getattr__(self, name: str) -> Tensor:
        return self[name]

    def __getitem__(self, key: Any) -> Tensor:
        return dict.__getitem__(self, key) if isinstance(key, str) else list(self.values())[key]


class Net(nn.Module):
    """2 - 8 - 3, with dropout that asks the mode of the module itself, and a buffer of its own."""

    def __init__(self, pack: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.relu, self.head = nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)
        self.register_buffer("shift", torch.tensor([0.5]))
        self.pack = pack

    def forward(self, x: Tensor, offset: Tensor | float = 0.0) -> Any:
        features = self.relu(self.hidden(x) + offset) + self.shift
        return self.pack(features, self.head(nn.functional.dropout(features, 0.5, self.training)))


PLAIN = Net(lambda features, logits: logits)
SEVERAL = {
    "dict, name": (lambda f, y: {"features": f, "logits": y}, "logits"),
    "dict, index": (lambda f, y: {"features": f, "logits": y}, 1),
    "tuple": (lambda f, y: (f, y), 1),
    "list from the end": (lambda f, y: [f, y], -1),
    "named tuple": (Pair, "logits"),
    "dataclass": (lambda f, y: Both(y, f), "logits"),
    "model output": (lambda f, y: Outputs(features=f, logits=y), "logits"),
    "function": (lambda f, y: {"deep": [f, y]}, lambda found: found["deep"][1]),
}
INSTRUMENTS: dict[str, Callable[..., Any]] = {
    "linear_regions": lambda m, **o: [rs.linear_regions(m, BOX, **o).by_layer],
    "decision_regions": lambda m, **o: rs.decision_regions(m, BOX, **o).labels.tolist(),
    "region_count": lambda m, **o: rs.region_count(m, X, slices=4, **o).counts.tolist(),
    "exact region_count": lambda m, **o: rs.region_count(m, X, slices=4, method="exact", **o).counts.tolist(),
    "linear_region_count": lambda m, **o: rs.measures.linear_region_count(m, X, slices=4, **o).counts.tolist(),
    "local_complexity": lambda m, **o: {
        k: v.tolist() for k, v in rs.local_complexity(m, X, radius=0.5, **o).by_layer.items()
    },
    "deformation": lambda m, **o: rs.complexity.deformation(m, X, **o).readings(),
    "trusted_radius": lambda m, **o: rs.complexity.trusted_radius(m, X, radii=[0.01, 0.1, 1.0], **o),
    "output_margin": lambda m, **o: rs.measures.output_margin(m, X, Y, **o).value,
    "sharpness": lambda m, **o: rs.measures.sharpness(m, X, Y, **o).value,
    "error_rate": lambda m, **o: rs.measures.error_rate(m, X, Y, **o).value,
    "generalisation_gap": lambda m, **o: rs.measures.generalisation_gap(m, (X[:6], Y[:6]), (X[6:], Y[6:]), **o).value,
    "flips": lambda m, **o: rs.flips(m, LINE, **o).coords.tolist(),
    "first_flip": lambda m, **o: vars(rs.first_flip(m, LINE.origin, LINE.basis[0], max_distance=12.0, **o))["distance"],
    "integrated_gradients": lambda m, **o: rs.integrated_gradients(m, X, target=1, **o).attributions.tolist(),
    "trace": lambda m, **o: rs.linear_regions(rs.trace(m, (2,), **o), BOX).by_layer,
    "ComplexityWatch": lambda m, **o: (
        rs.ComplexityWatch(rs.complexity.draw_points(X[:6], X[6:]), radius=0.5, **o)(0, m).levels["train"].mean
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_every_instrument_takes_one_of_several_outputs(instrument: str) -> None:
    measure = INSTRUMENTS[instrument]
    wanted = measure(PLAIN)
    kinds = list(SEVERAL) if instrument in ("linear_regions", "region_count") else ["dict, name"]
    for kind in kinds:
        pack, output = SEVERAL[kind]
        model = Net(pack).train()
        model.shift.requires_grad_(False)
        assert measure(model, output=output) == wanted, kind
        assert model.training
        assert model.hidden.training


@pytest.mark.slow
@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_every_instrument_takes_further_arguments(instrument: str) -> None:
    measure = INSTRUMENTS[instrument]
    wanted = measure(select_output(PLAIN, lambda y: y, args=[0.4]))
    assert measure(PLAIN, args=[torch.tensor(0.4, dtype=torch.float64)]) == wanted
    assert measure(PLAIN, args={"offset": 0.4}) == wanted
    assert measure(PLAIN) != wanted or instrument in ("error_rate", "generalisation_gap", "trusted_radius")


def test_a_selected_module_is_the_module_itself() -> None:
    model = Net(SEVERAL["tuple"][0])
    chosen = select_output(model, 1)
    assert [name for name, _ in chosen.named_modules()] == [name for name, _ in model.named_modules()]
    assert chosen.state_dict().keys() == model.state_dict().keys()
    chosen.eval()
    assert not model.training
    with torch.no_grad():
        chosen.hidden.weight.zero_()
    assert not model.hidden.weight.any()
    chosen.double()
    assert model.shift.dtype == torch.float64
    assert select_output(model) is model
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    chosen(X.double())
    assert calls == [1]


def test_functions_can_be_selected_from() -> None:
    found = rs.region_count(lambda x: {"logits": PLAIN.eval()(x)}, X, slices=4, output="logits")
    assert found.counts.tolist() == rs.region_count(PLAIN, X, slices=4).counts.tolist()
    weights = np.random.default_rng(0).normal(size=(2, 3))
    arrays = rs.region_count(lambda x: (x @ weights, 0), X.numpy(), slices=4, output=0)
    assert arrays.counts.min() >= 1


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("dict, name", {"output": "logit"}, "outputs 'features', 'logits' of the model, got 'logit'"),
        ("dataclass", {"output": "logit"}, "outputs 'logits', 'features' of the model, got 'logit'"),
        ("named tuple", {"output": "logit"}, "outputs 'features', 'logits' of the model, got 'logit'"),
        ("tuple", {"output": "logits"}, "named outputs for output='logits', got a tuple"),
        ("tuple", {"output": 2}, "Expected output below 2"),
        ("dataclass", {"output": 0}, "a model that returns a sequence for output=0, got Both"),
        ("plain", {"output": 0}, "got one tensor. Leave output= out"),
        ("plain", {"output": True}, "a name, an index or a function, got True"),
        ("plain", {"args": torch.ones(2)}, "a list, a tuple or a dictionary, got Tensor"),
        ("dict, name", {}, "output="),
        ("tuple", {}, "output=.* an index from 0 to 1"),
        ("named tuple", {}, "output=.* (one of 'features', 'logits'|index from 0 to 1)"),
        ("dataclass", {}, "output="),
    ],
)
def test_a_wrong_choice_is_one_sentence(kind: str, options: dict[str, Any], sentence: str) -> None:
    model = PLAIN if kind == "plain" else Net(SEVERAL[kind][0])
    for instrument in ("linear_regions", "region_count"):
        with pytest.raises(rs.RegionscopeError, match=sentence):
            INSTRUMENTS[instrument](model, **options)


def confidence(logits: Tensor) -> tuple[Tensor, ...]:
    shares = torch.softmax(logits, 1)
    entropy = -(shares * shares.log()).sum(1)
    return entropy.mean(), shares.amax(1), shares.argmax(1)


def number_or_one(value: Tensor) -> float:
    try:
        return float(value)
    except Exception:  # noqa: BLE001  (as careless code does)
        return 1.0


@pytest.mark.parametrize(
    "pack",
    [
        lambda f, y: (y, y.softmax(1)),
        lambda f, y: (y, y.logsumexp(1).mean()),
        lambda f, y: (y, y.square().mean(), f.mean()),
        lambda f, y: (y, *confidence(y)),
        lambda f, y: (y, nn.functional.cross_entropy(y, torch.zeros(len(y), dtype=torch.int64))),
        lambda f, y: (y, (f > 0).float().unsqueeze(0), f.std(1)[0], sum(torch.sigmoid(f) for _ in range(3))),
        lambda f, y: (y, f @ f.T, f.exp() if len(f) else f),
    ],
)
def test_other_outputs_need_not_be_piecewise_affine(pack: Callable[[Tensor, Tensor], Any]) -> None:
    part, wanted = rs.linear_regions(Net(pack), BOX, output=0), rs.linear_regions(PLAIN, BOX)
    assert torch.equal(part.vertices, wanted.vertices)
    assert part.n_linear_regions == wanted.n_linear_regions


@pytest.mark.parametrize(
    ("pack", "blamed"),
    [
        (lambda f, y: (y + y.softmax(1), f), "softmax"),
        (lambda f, y: (y * torch.sigmoid(f[:, :3]), f), "sigmoid"),
        (lambda f, y: (torch.cat([y, confidence(y)[1][:, None]], 1), f), "softmax"),
        (lambda f, y: (nn.functional.silu(y, inplace=True), y)[::-1], "silu"),
        (lambda f, y: (nn.functional.silu(y, True), y)[::-1], "silu"),
        (lambda f, y: (y.exp_(), y)[::-1], "exp_"),
        (lambda f, y: (torch.exp(y, out=y), y)[::-1], "exp"),
        (lambda f, y: (y.add_(y.tanh()), y)[::-1], "tanh"),
        (lambda f, y: (y.softmax(1), y.tanh()), "softmax"),
        (lambda f, y: (y, torch.ops.aten.silu_.default(y)), "silu_"),
        (lambda f, y: (y / y.softmax(1).numel(), y), "softmax"),
        (lambda f, y: (y * len(y.softmax(1)), y), "softmax"),
        (lambda f, y: (y * y.exp().ndim, y), "exp"),
        (lambda f, y: (y.to((y > 0).dtype), y), "it casts to whole numbers"),
        (lambda f, y: (y * number_or_one(y.softmax(1).amax()), y), "softmax"),
        (lambda f, y: (y * (2.0 if hasattr(y.exp(), "_version") else 1.0), y), "exp"),
        (lambda f, y: (y * y.max(1)[1].ndim, y), "indices of a maximum"),
    ],
)
def test_outputs_that_depend_on_them_in_any_way_are_refused(pack: Callable[[Tensor, Tensor], Any], blamed: str) -> None:
    with pytest.raises(NotPiecewiseAffine, match=blamed):
        rs.linear_regions(Net(pack), BOX, output=0)


def test_what_was_traced_has_its_output_already() -> None:
    program = rs.trace(PLAIN, (2,))
    with pytest.raises(InputError, match="got a traced program"):
        rs.linear_regions(program, BOX, output="logits")


# Part of a network.


class Staged(nn.Module):
    """Two stages of two layers; the first is called twice, and errors of the forward are caught."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 3), nn.ELU())]
        )

    def forward(self, x: Tensor, shift: float = 0.0) -> Tensor:
        try:
            h = self.stages[0](self.stages[0](x) + shift)
            return self.stages[1](h).softmax(1)
        except Exception:  # noqa: BLE001
            return x


def test_a_network_is_measured_up_to_a_module() -> None:
    model = Staged().train()
    before = {name: dict(vars(part)) for name, part in model.named_modules()}
    hidden, whole = select_output(model, module="stages.0"), select_output(model, module="stages.1.0", args=[0.5])
    assert torch.equal(hidden(X), model.stages[0](X))
    assert torch.equal(whole(X), model.stages[1][0](model.stages[0](model.stages[0](X) + 0.5)))
    assert list(rs.linear_regions(hidden, BOX).by_layer) == ["stages.0.1"]
    assert list(rs.linear_regions(whole, BOX).by_layer) == ["stages.0.1", "stages.0.1#2"]
    assert rs.region_count(hidden, X, slices=4).counts.tolist()
    with torch.no_grad():
        model.stages[0][0].weight.mul_(2)
    assert torch.equal(hidden(X), model.stages[0](X))
    assert {name: dict(vars(part)) for name, part in model.named_modules()} == before
    with pytest.raises(InputError, match=r"module to name a module of the model, got 'stages\.2'"):
        select_output(model, module="stages.2")
    with pytest.raises(InputError, match="runs in the forward pass, got 'stages'"):
        select_output(model, module="stages")(X)
