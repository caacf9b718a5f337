"""Instruments read what the functions of the library compute, with their options."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.default_slice import default_slice
from regionscope.errors import InputError
from regionscope.monitor import Monitor, every
from regionscope.network import Program
from regionscope_lab import instruments, zoo
from regionscope_lab.config import DataSpec, MeasureSpec, Training
from regionscope_lab.data import Dataset, DataSplit, load, random_labels, two_moons
from regionscope_lab.train import train
from regionscope_lab.zoo import mlp

FLAT = DataSplit(two_moons(100, noise=0.2, seed=0), two_moons(60, noise=0.2, seed=1))


def images() -> DataSplit:
    parts = []
    for seed, n in ((0, 40), (1, 30)):
        x = torch.randn(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
        parts.append(Dataset("images", x, (x.mean((1, 2, 3)) > 0).long(), 2))
    return DataSplit(*parts)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    model = mlp([2, 12, 12, 2], seed=3)
    train(model, FLAT, Training(epochs=10, optimizer="adam", lr=1e-2, batch_size=20, schedule="constant"))
    return model.eval()


def rows(
    model: nn.Module, instrument: str, *, split: DataSplit = FLAT, initial: Any = None, **options: Any
) -> dict[str, Any]:
    spec = MeasureSpec(instrument=instrument, name="it", options=options)
    read = instruments.build(spec, split, seed=7, initial=initial)
    return {row.name: (row.value, row.stderr) for row in Monitor({"it": read}, every(1))(0, model)}


def test_every_instrument_reads_with_its_defaults(net: nn.Module) -> None:
    start = mlp([2, 12, 12, 2], seed=3).state_dict()
    for name, options in instruments.names().items():
        found = rows(net, name, initial=start)
        assert found, name
        assert rows(net, name, initial=start, **{k: v for k, v in options.items() if v is not None}) == found
        assert len(instruments.about(name)) > 10


@pytest.mark.parametrize(("dim", "method"), [(1, "grid"), (2, "refined"), (1, "exact"), (3, "grid")])
def test_region_count(dim: int, method: str) -> None:
    model, split = nn.Sequential(nn.Flatten(), mlp([16, 6, 2])), images()
    grid = {} if method == "exact" else {"grid": 6}
    counted = rows(model, "region_count", split=split, dim=dim, slices=6, method=method, alpha=[-1, 2], **grid)
    options = {"dim": dim, "slices": 6, "method": method, "alpha": (-1, 2), "seed": 7, **grid}
    direct = rs.region_count(model, split.train.inputs, **options)
    assert counted == {"it": (direct.value, direct.stderr)}


def test_counts_at_other_points(net: nn.Module) -> None:
    found = rows(net, "linear_region_count", points=["train", "test", "random"], slices=5, pieces="activation")
    train_count = rs.measures.linear_region_count(net, FLAT.train.inputs, slices=5, seed=7, pieces="activation")
    test_count = rs.measures.linear_region_count(net, FLAT.test.inputs, slices=5, seed=7, pieces="activation")
    inside = rs.complexity.uniform_points(1000, (2,), domain=(-1.0, 1.0), seed=7)
    random_count = rs.measures.linear_region_count(net, inside, slices=5, seed=7, pieces="activation")
    assert [found[f"it.{part}"][0] for part in ("train", "test", "random")] == [
        train_count.value, test_count.value, random_count.value,
    ]  # fmt: skip
    rays = rows(net, "region_count", through="direction", length=0.5, slices=5, seed=1)
    own = rs.region_count(net, FLAT.train.inputs, slices=5, through="direction", length=0.5, seed=1)
    assert rays["it"] == (own.value, own.stderr)


def test_exact_regions_on_the_default_slice(net: nn.Module) -> None:
    square = default_slice(FLAT.train.inputs, FLAT.train.labels)
    part, decision = rs.linear_regions(net, square), rs.decision_regions(net, square)
    found = rows(net, "linear_regions", by_layer=True)
    assert found["it"] == (part.n_linear_regions, None)
    assert found["it.activation"] == (part.n_activation_regions, None)
    assert {name: value for name, (value, _) in found.items() if "layer" in name} == {
        f"it.layer.{name}": count for name, count in part.by_layer.items()
    }
    assert rows(net, "decision_regions") == {"it": (decision.count, None)}
    wide = rs.linear_regions(net, rs.Box([0.0, 0.0], torch.eye(2), 3.0)).n_linear_regions
    assert rows(net, "linear_regions", box=[-3, 3])["it"][0] == wide != part.n_linear_regions
    assert rows(net, "linear_regions", margin=1.0)["it"][0] == wide


def test_exact_regions_on_a_plane_through_three_training_points() -> None:
    model, split = nn.Sequential(nn.Flatten(), mlp([16, 12, 2])), images()
    three = rs.sampled.Hulls(split.train.inputs, dim=2, seed=7).draw(0)
    plane = rs.Box.through(three.embed(three.corners), 0.5)
    found = rows(model, "linear_regions", split=split, where="plane", margin=0.5)
    assert found["it"][0] == rs.linear_regions(model, plane).n_linear_regions > 1
    assert rows(model, "decision_regions", split=split)["it"][0] >= 1
    with pytest.raises(InputError, match=r"one or two entries .*, got 16"):
        rows(model, "linear_regions", split=split, where="box")


def test_local_complexity(net: nn.Module) -> None:
    options: dict[str, Any] = {"radius": 0.2, "n": 50}
    found = rows(net, "local_complexity", points=["train", "random"], by_layer=True, **options)
    chosen = FLAT.train.inputs[torch.randperm(100, generator=torch.Generator().manual_seed(7))[:50]]
    own = rs.local_complexity(net, chosen, dims=2, radius=0.2, seed=7)
    assert found["it.train"] == (own.mean, own.stderr)
    assert found["it.train.layer.relu1"][0] == float(own.by_layer["relu1"].double().mean())
    assert found["it.random"] != found["it.train"]
    gap = rows(net, "complexity_gap", **options)
    unseen = FLAT.test.inputs[torch.randperm(60, generator=torch.Generator().manual_seed(7))[:50]]
    test = rs.local_complexity(net, unseen, dims=2, radius=0.2, seed=7)
    assert gap["it"] == (rs.complexity.complexity_gap(own, test).value, rs.complexity.complexity_gap(own, test).stderr)
    assert gap["it.auc"][0] == rs.complexity.complexity_gap(own, test).auc


def test_regions_of_points(net: nn.Module) -> None:
    measured = rows(net, "regions_at", points=["train", "test"], n=50, norm=1)
    chosen = FLAT.train.inputs[torch.randperm(100, generator=torch.Generator().manual_seed(7))[:50]]
    result = rs.regions_at(net, chosen, norm=1)
    assert measured["it.train"] == (result.n_regions, None)
    assert measured["it.train.distance"] == (float(result.distance.median()), None)
    assert measured["it.test.label_distance"][0] > 0


def test_readings_of_weights_and_outputs(net: nn.Module) -> None:
    start = mlp([2, 12, 12, 2], seed=3)
    x, y = FLAT.train.inputs, FLAT.train.labels
    norms = rs.measures.parameter_norms(net)
    assert rows(net, "parameter_norms") == {"it.l1": (norms.l1, None), "it.l2": (norms.l2, None)}
    assert (
        rows(net, "parameter_norms", by_layer=True)["it.spectral.linear1.weight"][0] == norms.spectral["linear1.weight"]
    )
    assert rows(net, "distance_from", initial=start.state_dict())["it"][0] == rs.measures.distance_from(net, start) > 0
    assert rows(net, "output_margin")["it"][0] == rs.measures.output_margin(net, x, y).value
    assert (
        rows(net, "sharpness", dtype="float64")["it"][0]
        == rs.measures.sharpness(net, x, y, dtype=torch.float64, seed=7).value
    )
    assert rows(net, "sharpness", loss="mse")["it"] != rows(net, "sharpness")["it"]
    gap = rs.measures.generalisation_gap(net, (x, y), (FLAT.test.inputs, FLAT.test.labels))
    found = rows(net, "generalisation_gap")
    assert found["it"] == (gap.value, gap.stderr)
    assert found["it.test_error"][0] == gap.test_error.value == rows(net, "error_rate")["it"][0]
    few = torch.randperm(len(x), generator=torch.Generator().manual_seed(7))[:5]
    assert rows(net, "error_rate", points="train", n=5)["it"][0] == rs.measures.error_rate(net, x[few], y[few]).value
    assert rows(net, "error_rate", n=10**6) == rows(net, "error_rate")
    wanted = float(nn.functional.cross_entropy(net(x), y).detach())
    assert rows(net, "loss")["it"][0] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("instrument", "options", "sentence"),
    [
        ("regions", {}, "Expected an instrument, got 'regions'. Did you mean 'regions_at'"),
        ("region_count", {"slice": 3}, r"got 'slice'. Did you mean 'slices'\? Choose from points, domain, dim"),
        ("region_count", {"method": "exakt"}, "to be one of grid, refined, exact"),
        ("region_count", {"dim": 0}, "whole number of at least 1"),
        ("region_count", {"slices": 2.5}, "whole number"),
        ("region_count", {"slices": None}, "to be given"),
        ("region_count", {"alpha": [1, 0]}, "the smaller first"),
        ("region_count", {"length": 0.5}, "Expected length only with"),
        ("region_count", {"points": "all"}, "one of train, test, random"),
        ("local_complexity", {"radius": -1}, "positive number"),
        ("local_complexity", {"by_layer": 1}, "true or false"),
        ("local_complexity", {"seed": -1}, "at least 0"),
        ("linear_regions", {"margin": -0.5}, "at least 0"),
        ("output_margin", {"points": "random"}, "points with labels, got 'random'. Choose from train, test"),
        ("distance_from", {}, "initial="),
        ("sharpness", {"dtype": "int8"}, "one of float16"),
        ("linear_regions", {"dtype": "float32"}, "dtype"),
        ("generalisation_gap", {"points": "train"}, "Choose from batch_size, memory"),
    ],
)
def test_mistakes_are_said_before_training(instrument: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        instruments.build(MeasureSpec(instrument=instrument, options=options), FLAT)


def test_the_same_points_at_every_reading(net: nn.Module) -> None:
    spec = MeasureSpec(instrument="region_count", options={"slices": 5, "points": "random"})
    first, second = (instruments.build(spec, FLAT, seed=seed) for seed in (1, 2))
    assert torch.equal(first(net).counts, first(net).counts)
    assert not torch.equal(first(net).counts, second(net).counts)


def test_options_reach_the_function(net: nn.Module) -> None:
    with pytest.raises(rs.RegionscopeError, match="5 regions"):
        rows(net, "linear_regions", max_regions=5)
    assert rows(net, "error_rate", batch_size=7) == rows(net, "error_rate")
    with pytest.raises(InputError, match="one of cross_entropy, mse"):
        instruments.build(MeasureSpec(instrument="loss"), FLAT, loss="hinge")


def test_tokens_are_counted_and_measured_in_the_space_of_their_embeddings() -> None:
    split = load(DataSpec(name="modular_addition", n_train=12, n_test=6, options={"modulus": 5, "train_share": 0.6}))
    model = zoo.build("gpt", classes=6, input_shape=(3,), depth=1, width=8, heads=2, activation="relu")
    spread = model.tokens(split.train.inputs).detach().flatten(1)
    radius = float((spread - spread.mean(0)).square().sum(1).mean().sqrt())
    asked = {"n": 12, "dims": 5, "seed": 1}
    found = rows(model, "local_complexity", split=split, radius=0.3, relative=True, by_position=True, **asked)
    plain = rs.local_complexity(model, split.train.inputs, radius=0.3 * radius, dims=5, seed=1)
    assert found["it"] == pytest.approx((plain.mean, plain.stderr))
    assert sum(found[f"it.position.{i}"][0] for i in range(3)) == pytest.approx(plain.mean)
    assert plain.mean > 0
    counted = rows(model, "region_count", split=split, dim=1, slices=4, grid=20, seed=1)
    assert counted["it"][0] == rs.region_count(model, split.train.inputs, dim=1, slices=4, grid=20, seed=1).value
    with pytest.raises(InputError, match=r"position of region_count to be a whole number, got 0\.5"):
        rows(model, "region_count", split=split, position=0.5)
    with pytest.raises(InputError, match="work on tokens for by_position"):
        instruments.build(MeasureSpec(instrument="local_complexity", options={"by_position": True}), FLAT)(
            mlp([2, 3, 2])
        )


@pytest.mark.parametrize(
    ("name", "options"), [("linear_regions", {}), ("decision_regions", {}), ("linear_region_count", {"slices": 10})]
)
def test_monitors_read_the_weights_alone(name: str, options: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    split = DataSplit(random_labels(30, seed=0), random_labels(30, seed=1))
    spec = MeasureSpec(instrument=name, name="it", options=options)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    bound: list[nn.Module] = []
    rebind = Program.rebind
    monkeypatch.setattr(Program, "rebind", lambda self, module: bound.append(module) or rebind(self, module))
    monitor = rs.Monitor({"it": instruments.build(spec, split, seed=7)}, when="every 1 step")
    for step in range(3):
        with torch.no_grad():
            for weight in net.parameters():
                weight.add_(0.3 * torch.randn_like(weight))
        new = rs.Monitor({"it": instruments.build(spec, split, seed=7)}, when="every 1 step")
        found, wanted = ([(row.name, row.value) for row in each(step, net)] for each in (monitor, new))
        assert found == wanted
        assert len(bound) == step
