"""Common mistakes in Python: each is one sentence about what was expected and found, and one about what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope import complexity, exact, measures, plot
from regionscope.explorer import inline
from regionscope_lab import shallow
from regionscope_lab.data import Dataset, DataSplit, load, two_moons
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import Sweep, query, read_runs, run_sweep
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NET = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
WEIGHTS = NET.state_dict()
X = torch.eye(2).repeat(3, 1)
NAN = torch.tensor([0.0, float("nan")])
DATA = Dataset("own", X, torch.tensor([0, 1] * 3), 2)
PROPERTY = rs.Property(2, 1, (), (2,), "own")
TWO_LAYER = shallow.initial_two_layer(4, 3)
STATE_DICT = "got OrderedDict. If it is a state dict, load it into a module"

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a tensor as a slice": (lambda: rs.linear_regions(NET, X), "got Tensor. Build one from inputs"),
    "a tensor among slices": (lambda: rs.region_count(NET, slices=[X]), "got Tensor. Build one from inputs"),
    "a plane through a data set": (lambda: rs.Box.through(DATA), "got Dataset. Pass a list of points, or a tensor"),
    "a state dict, counted": (lambda: rs.region_count(WEIGHTS, X), STATE_DICT),
    "a state dict, complexity": (lambda: rs.local_complexity(WEIGHTS, X), STATE_DICT),
    "a state dict, norms": (lambda: measures.parameter_norms(WEIGHTS), STATE_DICT),
    "a state dict, monitored": (lambda: rs.Monitor({"norm": lambda _: 1.0})(0, WEIGHTS), STATE_DICT),
    "a class": (lambda: rs.linear_regions(nn.Linear, SQUARE), "got the class Linear. Create an instance first"),
    "a path": (lambda: rs.linear_regions("net.onnx", SQUARE), "got str. Read an ONNX file with read_onnx(path)"),
    "inputs and labels": (lambda: rs.region_count(NET, (X, DATA.labels)), "(6, 2) and labels (6,). Pass the inputs"),
    "no initial weights": (lambda: measures.distance_from(NET, None), "got NoneType. Pass a copy of the module"),
    "other initial weights": (lambda: measures.distance_from(NET, {}), "is missing there. Pass a copy of this model"),
    "one radius": (lambda: complexity.trusted_radius(NET, X, radii=0.1), "got 0.1. Write radii=(0.005, 0.05)"),
    "a shape that is a number": (lambda: complexity.uniform_points(3, 2), "got 2. Write a tuple such as (2,)"),
    "frames of a text": (lambda: complexity.orthonormal_frames("a"), "got 'a'. Write a tuple such as (2,)"),
    "a watch on a tensor": (lambda: rs.ComplexityWatch(X), "got Tensor. Draw them with draw_points(train, test)"),
    "a list of measures": (lambda: rs.Monitor([len]), 'got a list. Write {"regions": lambda model: ...}'),
    "a listener alone": (lambda: rs.Monitor({"a": lambda _: 1.0}, listeners=3), "got 3. Pass a list, such as [print]"),
    "a step that is a text": (lambda: rs.Monitor({"a": lambda _: 1.0})("a", NET), "got 'a'. Count the steps"),
    "ONNX without a path": (lambda: rs.read_onnx(None), "got NoneType. Pass a string or a Path"),
    "VNN-LIB without a path": (lambda: rs.read_vnnlib(NET), "got Sequential. Pass a string or a Path"),
    "a property that is a path": (lambda: rs.verify(NET, "p.vnnlib"), "got str. Read it from a file with read_vnnlib"),
    "a tensor as a history": (lambda: plot.complexity_figure(X), "got Tensor. Measure with a ComplexityWatch"),
    "a result without a name": (lambda: plot.complexity_layers(X), 'got Tensor. Write {"train": local_complexity('),
    "a network as a level set": (lambda: plot.level_set_figure(NET), "got Sequential. Compute it with"),
    "a network in the explorer": (lambda: inline(NET), "got Sequential. Compute one, for example with regionscope."),
    "data by name": (lambda: load("digits"), 'got str. Write load(DataSpec(name="digits"))'),
    "a split of tensors": (lambda: DataSplit(X, X), "got Tensor. Write Dataset(name, inputs, labels, n_classes)"),
    "a width alone": (lambda: mlp(2), "got 2. Write a list such as [2, 32, 32, 2]"),
    "a monitor alone": (lambda: train(NET, DATA, Training(), monitors=rs.Monitor({"a": len})), "a list of Monitor"),
    "no folder of runs": (lambda: read_runs(None), "Expected a path, got NoneType. Pass a string or a Path"),
    "no sweep": (lambda: run_sweep(None, "runs"), "got NoneType. Read one with Sweep.from_toml(path)"),
    "no experiment": (lambda: run_sweep([None], "runs"), "got NoneType. Write Experiment(data="),
    "no base of a sweep": (lambda: Sweep.of(None), "got NoneType. Write Experiment(data="),
    "no settings": (lambda: Sweep.from_dict(None), "got None. Pass a dict"),
    "no query": (lambda: query(".", None), "got NoneType. Write a query such as"),
    "no run to open": (lambda: RunFolder.open(None), "got NoneType. Pass a string or a Path"),
    "no run to create": (lambda: RunFolder.create(".", None), "got NoneType. Write Experiment(data="),
    "an unknown device": (lambda: rs.linear_regions(NET, SQUARE).to("gpu"), "have, got 'gpu'. Pass cpu"),
    "a slice on no device": (lambda: SQUARE.to(None), "have, got 'None'. Pass cpu"),
    "edges of a text": (lambda: exact.SizeHistogram("a"), "edges, a list of numbers, got strings such as 'a'. If they"),
    "no fixed inputs": (lambda: PROPERTY.fixed(None), 'got None. Write a dict such as {2: "0.1"}'),
    "a block without a name": (lambda: rs.block(NET, None, X), "got None. See model.named_modules()"),
    "a block without a context": (lambda: rs.block(NET, "1", None), "as context, got NoneType. Convert it first"),
    "a flow of a module": (lambda: shallow.gradient_flow(NET, None), "got Sequential. Write Network(w, b, v)"),
    "pieces of a module": (lambda: shallow.breakpoints(NET), "got Sequential. Write Network(w, b, v)"),
    "a sample of no teacher": (lambda: shallow.sample(None, 3), "got NoneType. Make one, for example with random_"),
    "a sample of lists": (lambda: shallow.Sample([0.0], [1.0]), "for x, got list. Pass a tensor of float64"),
    "points of another shape": (lambda: shallow.sharpness(TWO_LAYER, X), "(6, 2). Pass a row for each point"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_what_to_do(mistake: str) -> None:
    wrong, words = MISTAKES[mistake]
    with pytest.raises(rs.RegionscopeError) as caught:
        wrong()
    message = str(caught.value)
    assert words in message
    assert re.match(r"Expected .+\. [A-Z].+\.$", message, re.S), message


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda value: two_moons(value), "n of two_moons"),
        (lambda value: Training(epochs=value), "training.epochs"),
        (lambda value: rs.first_flip(NET, X[0], X[1], max_distance=value), "max_distance"),
        (lambda value: complexity.trusted_radius(NET, X, radii=(0.1, 0.2), tolerance=value), "tolerance"),
        (lambda value: measures.correlate([1, 2, 3], [2, 3, 1], resamples=value), "resamples"),
        (lambda value: measures.sharpness(NET, X, DATA.labels, samples=value), "samples"),
        (lambda value: run_sweep([], "runs", workers=value), "workers"),
        (lambda value: shallow.region_bound(value), "r"),
        (lambda value: shallow.random_teacher(2, radius=value), "radius"),
        (lambda value: shallow.initial_network(3, sigma_h=value, sigma_o=1.0), "sigma_h"),
        (lambda value: shallow.FlowOptions(max_tau=value), "max_tau"),
        (lambda value: shallow.largest_sigma_o(3, delta=value), "delta"),
        (lambda value: shallow.random_sphere(3, value), "d"),
    ],
)
def test_a_text_in_place_of_a_number_is_named(call: Callable[[str], object], name: str) -> None:
    with pytest.raises(rs.InputError, match=rf"Expected .*{name}.*, got 'many'\."):
        call("many")
