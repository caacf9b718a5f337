"""The networks as such: sizes, names, seeds, shapes, gradients, blocks by their formulas, tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regionscope.errors import InputError
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Training
from regionscope_lab.data import Dataset, load
from regionscope_lab.train import evaluate, train
from regionscope_lab.zoo.inverted import ShuffleUnit
from regionscope_lab.zoo.layers import ACTIVATIONS, DropConnect, basic_block
from regionscope_lab.zoo.resnet import PreActivation
from regionscope_lab.zoo.transformer import Attention

PARAMETERS = {
    "resnet18": 11_173_962,
    "resnet34": 21_282_122,
    "preactresnet18": 11_172_170,
    "vgg19": 20_040_522,
    "mobilenetv2": 2_296_922,
    "senet18": 11_260_354,
    "shufflenetv2": 1_263_854,
    "efficientnetb0": 3_599_686,
    "regnetx200mf": 2_321_946,
    "simpledla": 15_142_970,
    "convnext": 2_515_402,
    "mlp": 3072 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10,
    "cnn": 3 * 32 * 9 + 3 * 32 * 32 * 9 + 4 * 2 * 32 + 32 * 10 + 10,
    "vit": (48 + 1) * 192 + 64 * 192 + 6 * (12 * 192**2 + 13 * 192) + 2 * 192 + 192 * 10 + 10,
}
CONVOLUTIONAL = [name for name in PARAMETERS if name not in ("mlp", "vit")]
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("resnet18", {"bn": False, "width": 16}),
    ("resnet18", {"stem": "imagenet", "width": 16}),
    ("mobilenetv2", {"activation": "relu6"}),
    ("cnn", {"bn": False, "pooling": "avg", "activation": "leaky_relu"}),
    ("cnn", {"pooling": "stride"}),
    ("cnn", {"flatten": True, "depth": 5}),
    ("cnn", {"pooling": "none", "depth": 1}),
    ("mlp", {"activation": "gelu", "depth": 4}),
]
THIN: dict[str, dict[str, Any]] = {
    key: {"width": 16} for key in ("resnet18", "resnet34", "preactresnet18", "senet18", "convnext")
}
EVERY = [*((name, THIN.get(name, {})) for name in PARAMETERS), *VARIANTS]


def images(n: int, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize(
    ("pooling", "depth", "sides"),
    [("max", 1, (9, 6)), ("avg", 2, (9, 6)), ("stride", 3, (5, 3)), ("max", 5, (3, 2)), ("none", 7, (9, 6))],
)
def test_a_flat_head_sees_every_position(pooling: str, depth: int, sides: tuple[int, int]) -> None:
    model = zoo.build("cnn", input_shape=(1, 9, 6), classes=3, depth=depth, width=4, pooling=pooling, flatten=True)
    height, width = sides
    assert model.get_submodule("head.linear").in_features == 4 * height * width
    assert model(images(2, (1, 9, 6))).shape == (2, 3)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_number_of_parameters(name: str) -> None:
    with torch.device("meta"):  # sizes alone, no numbers
        model = zoo.build(name)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize(("name", "parameters"), [("resnet18", 11_689_512), ("resnet34", 21_797_672)])
def test_the_stem_for_imagenet(name: str, parameters: int) -> None:
    """The numbers of He et al. 2015; stem and first stage turn 224 pixels into 56."""
    with torch.device("meta"):
        model = zoo.build(name, classes=1000, input_shape=(3, 224, 224), stem="imagenet")
        assert sum(p.numel() for p in model.parameters()) == parameters
        assert model.stage1(model.stem(torch.empty(1, 3, 224, 224))).shape == (1, 64, 56, 56)
        assert model.eval()(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
        for shape in ((1, 28, 28), (3, 17, 40), (2, 1, 1)):
            assert zoo.build(name, input_shape=shape, stem="imagenet").eval()(torch.empty(2, *shape)).shape == (2, 10)
    assert [layer for layer, _ in model.stem.named_children()] == ["conv1", "bn1", "relu1", "pool1"]


@pytest.mark.parametrize(("name", "options"), EVERY)
def test_it_learns_by_all_its_parameters_and_calls_each_layer_once(name: str, options: dict[str, Any]) -> None:
    model = zoo.build(name, classes=5, input_shape=(3, 16, 16), **options)
    n = 16 if name == "efficientnetb0" else 4  # its last maps are 1 x 1, and a step on the statistics of 4 may go wrong
    x, y = images(n, (3, 16, 16)), torch.arange(n) % 4
    calls: list[nn.Module] = []
    hooks = [m.register_forward_hook(lambda m, *_: calls.append(m)) for m in model.modules() if not list(m.children())]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same units are dropped in each step
            loss = functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        for hook in hooks:
            hook.remove()
    model.eval()
    with torch.no_grad():
        together = model(x)
        assert torch.equal(model(x), together), "nothing is random in eval mode"
        assert torch.allclose(model(x[1:2]), together[1:2], atol=1e-5), "rows are alone in eval mode"
    assert losses[-1] < losses[0]
    assert len(calls) == len(set(calls)) == len(hooks)
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_seed_decides_alone(name: str) -> None:
    small = {"input_shape": (1, 8, 8), **THIN.get(name, {})}
    before = torch.get_rng_state()
    first, again, other = (weights(zoo.build(name, seed=seed, **small)) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_images_of_any_size(name: str) -> None:
    with torch.device("meta"):  # shapes alone, no numbers
        for shape in ((3, 17, 40), (2, 1, 1)):
            assert zoo.build(name, input_shape=shape).eval()(torch.empty(2, *shape)).shape == (2, 10)


def test_the_mlp_by_name_is_the_mlp_by_widths() -> None:
    named = zoo.build("mlp", classes=3, input_shape=(2, 4, 5), depth=2, width=7, seed=5)
    assert torch.equal(weights(named), weights(zoo.mlp([40, 7, 7, 3], seed=5)))
    assert [name for name, _ in named.named_children()] == ["flatten1", *dict(zoo.mlp([1, 1, 1, 1]).named_children())]
    assert named(images(2, (2, 4, 5))).shape == (2, 3)
    linear = zoo.build("mlp", classes=3, input_shape=(2,), depth=0)
    assert [type(layer) for layer in linear.children()] == [nn.Linear]


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_scale_multiplies_the_initial_weights(name: str) -> None:
    plain, large = (weights(zoo.build(name, input_shape=(1, 4, 4), scale=scale)) for scale in (1, 8.0))
    assert torch.equal(large, 8 * plain)


def test_layers_carry_readable_names() -> None:
    for activation, kind in ACTIVATIONS.items():
        model = zoo.build("mlp", input_shape=(3,), activation=activation, depth=3)
        names = [name for name, layer in model.named_modules() if type(layer) is kind]
        assert [name.startswith(activation) for name in names] == [True] * 3
    names = [name for name, layer in zoo.build("resnet18", width=4).named_modules() if isinstance(layer, nn.ReLU)]
    assert names[:4] == ["stem.relu1", "stage1.block1.branch.relu1", "stage1.block1.relu", "stage1.block2.branch.relu1"]
    assert len(names) == 17


@pytest.mark.parametrize("name", ["resnet18", "preactresnet18"])
def test_resnets_without_batch_norm(name: str) -> None:
    layers = list(zoo.build(name, width=8, bn=False).modules())
    assert not any(type(layer) is nn.BatchNorm2d for layer in layers)
    inner = [layer.bias is not None for layer in layers if type(layer) is nn.Conv2d and layer.kernel_size == (3, 3)]
    assert inner == [True] * 17


def test_the_basic_block_is_its_formula() -> None:
    block = basic_block(4, 6, 2).eval()
    x = images(2, (4, 8, 8))
    b, s = block.branch, block.shortcut
    inner = torch.relu(b.bn1(functional.conv2d(x, b.conv1.weight, stride=2, padding=1)))
    branch = b.bn2(functional.conv2d(inner, b.conv2.weight, padding=1))
    expected = torch.relu(branch + s.bn1(functional.conv2d(x, s.conv1.weight, stride=2)))
    assert torch.allclose(block(x), expected)


def test_the_pre_activation_block_is_its_formula() -> None:
    x = images(2, (16, 8, 8))
    for outputs, stride in ((16, 1), (32, 2)):
        block = PreActivation(16, outputs, stride, gate=True).eval()
        active = torch.relu(block.before.bn1(x))
        b, gate = block.branch, block.branch.squeeze_excite1
        inner = b.conv2(torch.relu(b.bn1(b.conv1(active))))
        squeezed = torch.relu(gate.squeeze(inner.mean((2, 3), keepdim=True)))
        inner = inner * torch.sigmoid(gate.excite(squeezed))
        shortcut = x if stride == 1 else functional.conv2d(active, block.projection.weight, stride=2)
        assert torch.allclose(block(x), inner + shortcut, atol=1e-6)
        assert gate.squeeze.out_channels == outputs // 16


def test_an_inverted_bottleneck_is_its_formula() -> None:
    block = zoo.build("mobilenetv2", activation="relu6").stage2.block1.eval()  # stride 1, more channels
    x = 9 * images(2, (16, 8, 8))
    b, s = block.branch, block.shortcut
    wide = functional.hardtanh(b.bn1(b.conv1(x)), 0, 6)
    wide = functional.hardtanh(b.bn2(functional.conv2d(wide, b.conv2.weight, padding=1, groups=96)), 0, 6)
    assert torch.allclose(block(x), b.bn3(b.conv3(wide)) + s.bn1(s.conv1(x)), atol=1e-5)


def test_a_shuffle_unit_keeps_half_and_shuffles() -> None:
    unit = ShuffleUnit(8, 8, 1).eval()
    x = images(2, (8, 3, 3))
    expected = torch.cat([x[:, :4], unit.branch(x[:, 4:])], dim=1)
    out = unit(x)
    assert torch.equal(out, torch.channel_shuffle(expected, 2))
    assert torch.equal(out[:, ::2], x[:, :4])


def test_drop_connect_drops_whole_inputs_and_keeps_the_mean() -> None:
    layer = DropConnect(0.25)
    x = torch.ones(4000, 2, 1, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        out = layer(x)
    assert torch.equal(out[:, 0], out[:, 1])
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(out.mean()) == pytest.approx(1, abs=0.03)
    assert layer.eval()(x) is x


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "resnet19"}, r"got 'resnet19'. Did you mean 'resnet18'\? Choose from resnet18, resnet34, .* cnn"),
        ({"name": "resnet18", "depth": 3}, "of the network 'resnet18', got 'depth'.*Choose from width, bn, stem"),
        ({"name": "vgg19", "width": 3}, "'vgg19', got 'width'. Leave it out, since there is none"),
        ({"name": "resnet18", "width": 0}, "width to be a whole number of at least 1, got 0"),
        ({"name": "senet18", "width": 8}, "width to be a whole number of at least 16, got 8"),
        ({"name": "resnet18", "stem": "small"}, "got 'small'. Choose from cifar, imagenet"),
        ({"name": "resnet18", "bn": 0}, "bn to be True or False, got 0"),
        ({"name": "mlp", "depth": -1}, "depth to be a whole number of at least 0, got -1"),
        ({"name": "mlp", "activation": "swish"}, "activation, got 'swish'. Choose from relu, leaky_relu"),
        ({"name": "mlp", "scale": float("nan")}, "scale to be a finite number of at least 0, got nan"),
        ({"name": "mobilenetv2", "activation": "gelu"}, "got 'gelu'. .*Choose from relu, relu6"),
        ({"name": "efficientnetb0", "dropout": 1.0}, r"dropout to be a finite .*got 1\.0"),
        ({"name": "cnn", "pooling": "min"}, "got 'min'. Choose from max, avg, stride, none"),
        ({"name": "cnn", "input_shape": (784,)}, r"for a convolutional network, .*, got \(784,\)"),
        ({"name": "cnn", "input_shape": (3, 0, 8)}, "the sizes of one input"),
        ({"name": "mlp", "input_shape": 5}, "the sizes of one input"),
        ({"name": "gpt", "input_shape": (3, 32, 32)}, r"input_shape \(length,\).*take 'vit'"),
        ({"name": "gpt", "input_shape": (4,), "width": 10}, "multiple of heads = 4, got 10"),
        ({"name": "gpt", "input_shape": (4,), "activation": "tanh"}, "Choose from relu, gelu"),
        ({"name": "vit", "patch": 5}, "multiples of patch = 5"),
        ({"name": "vit", "input_shape": (5,)}, "channels, height, width"),
        ({"name": "mlp", "classes": 0}, "classes to be a whole number of at least 1, got 0"),
        ({"name": "mlp", "seed": 1.5}, r"seed to be a whole number of at most 64 bits, got 1\.5"),
    ],
)  # fmt: skip
def test_wrong_arguments_get_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    before = torch.get_rng_state()
    with pytest.raises(InputError, match=sentence):
        zoo.build(**arguments)
    assert torch.equal(before, torch.get_rng_state())


SMALL = {"depth": 2, "width": 8, "heads": 2}


def tiny(**options: Any) -> nn.Module:
    return zoo.build("gpt", classes=11, input_shape=(6,), **{**SMALL, **options}).eval()


def ids(n: int = 3, length: int = 6) -> Tensor:
    return torch.randint(11, (n, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_its_formula(causal: bool) -> None:
    layer = Attention(8, 2, causal=causal).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parts = layer.inputs(x).chunk(3, dim=-1)
    heads = []
    for h in range(2):
        query, key, value = (part[..., 4 * h : 4 * h + 4] for part in parts)
        scores = query @ key.transpose(1, 2) / math.sqrt(4)
        if causal:
            scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ value)
    assert torch.allclose(layer(x), layer.output(torch.cat(heads, -1)))


def test_tokens_and_their_embeddings_give_the_same() -> None:
    model, tokens = tiny(), ids()
    logits = model(tokens)
    assert logits.shape == (3, 11)
    assert torch.equal(logits, model(tokens.float()))
    assert torch.equal(logits, model(model.get_input_embeddings()(tokens)))
    assert torch.allclose(logits, model.every_position(tokens)[:, -1], atol=1e-6)


def test_no_position_sees_a_later_one() -> None:
    model, tokens = tiny(), ids()
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = model.every_position(tokens), model.every_position(changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4], after[:, 4])
    assert torch.allclose(model(tokens[:, :4]), before[:, 3], atol=1e-6)


def test_patches_have_places_and_all_see_all() -> None:
    model = zoo.build("vit", classes=3, input_shape=(1, 8, 8), patch=4, **SMALL).eval()
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    assert model.positions.shape == (4, 8)
    assert model(x).shape == (2, 3)
    moved = torch.cat([x[..., 4:], x[..., :4]], -1)
    assert not torch.allclose(model(x), model(moved), atol=1e-4)
    with torch.no_grad():
        model.positions.zero_()
    assert torch.allclose(model(x), model(moved), atol=1e-5)


def test_a_gpt_learns_a_text_at_every_position() -> None:
    """One step of the loop is one step of SGD on the mean cross-entropy over all positions."""
    split = load(DataSpec(name="text", n_train=4, n_test=4, options={"book": "gettysburg", "context": 8, "stride": 8}))
    settings = Training(epochs=1, lr=0.1, momentum=0.0, batch_size=4, schedule="constant", loss="next_token")
    mine, theirs = (zoo.build("gpt", classes=256, input_shape=(8,), **SMALL) for _ in range(2))
    done = train(mine, split, settings)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1)
    wanted = torch.cat([split.train.inputs[:, 1:].long(), split.train.labels[:, None]], 1)
    loss = functional.cross_entropy(theirs.every_position(split.train.inputs).transpose(1, 2), wanted)
    loss.backward()
    optimiser.step()
    assert done.last.loss == pytest.approx(loss.item(), rel=1e-5)
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(mine.parameters(), theirs.parameters(), strict=True))
    longer = replace(settings, epochs=30, evaluate_every=30, optimizer="adamw", lr=0.03)
    assert train(mine, split, longer).last.train_error == 0.0


def test_a_network_without_positions_is_refused() -> None:
    data = Dataset("points", torch.zeros(2, 3), torch.tensor([0, 1]), 2)
    with pytest.raises(InputError, match="method every_position"):
        train(zoo.mlp([3, 2]), data, Training(loss="next_token"))
    with pytest.raises(InputError, match=r"l from 1 to 6, got shape \(3, 7\)"):
        tiny()(ids(length=7))
    with pytest.raises(InputError, match="mixup = 0"):
        Training(loss="next_token", mixup=1.0)


def test_sequences_are_evaluated_in_batches_that_fit_their_embeddings() -> None:
    model, seen = tiny(width=512, depth=1), []
    model.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    loss, accuracy = evaluate(model, ids(350), torch.zeros(350, dtype=torch.int64))
    assert max(seen) <= 2**20 // (6 * 512)
    assert sum(seen) == 350
    assert 0 <= accuracy <= 1 < loss < 5
