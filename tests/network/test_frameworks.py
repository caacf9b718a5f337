"""TorchScript, and policies of Stable-Baselines3: what is read is what these libraries compute."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Block(nn.Module):
    """A residual block that checks the shape of what it gets, as scripts of torchvision do."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4:
            raise ValueError("Expected images")
        return torch.relu_(self.drop(self.norm(self.conv(x))) + x)


class Images(nn.Module):
    """Layers whose ATen names differ from those of torch, a loop over blocks, and sizes that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act = nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.1)
        self.blocks, self.pool = nn.ModuleList([Block(4), Block(4)]), nn.MaxPool2d(2)
        self.clip, self.head = nn.Hardtanh(-2.0, 2.0), nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x))
        for block in self.blocks:
            x = block(x)
        for i in range(2):
            x = x - 0.1 * i * x.flip(1)
        x = self.clip(self.pool(torch.cat([x, x], 1)[:, 2:6]))
        return self.head(x.view(x.size(0), -1))


def saved(script: Any) -> Any:
    """The script as a file, read back."""
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, torch.zeros(2, 1, 8, 8))])
def test_a_torchscript_file_has_the_regions_of_the_module(make: Callable[[nn.Module], Any]) -> None:
    torch.manual_seed(0)
    net, x = Images().eval(), torch.randn(2, 1, 8, 8)
    net.blocks[0].norm.running_mean.normal_()
    line = rs.Segment(x[0], x[1])
    script = saved(make(net))
    part = rs.linear_regions(script, line)
    part.check()
    assert list(part.by_layer.values()) == list(rs.linear_regions(net, line).by_layer.values())
    assert rs.decision_regions(script, line).count == rs.decision_regions(net, line).count
    torch.testing.assert_close(part.program(x.double()), rs.trace(net, (1, 8, 8))(x.double()))
    assert script.training == make(net).training


def test_a_part_of_the_output_of_a_script_is_chosen() -> None:
    network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4)).double()
    line = rs.Segment([-2.0, 1.0, 0.5], [2.0, 0.0, -1.0])
    script, two = torch.jit.script(network), lambda scores: scores[:, :2]
    part, expected = (rs.linear_regions(model, line, output=two) for model in (script, network))
    torch.testing.assert_close(part.outputs, expected.outputs)
    with pytest.raises(rs.UntraceableModel, match=r"in which '0' is TorchScript\. Pass that alone, with output="):
        rs.linear_regions(nn.Sequential(script, nn.Flatten()), line)


def test_a_script_that_cannot_be_read_is_refused_by_name() -> None:
    with pytest.raises(rs.NotPiecewiseAffine, match=r"'tanh' calls .*tanh, which is not piecewise affine"):
        rs.trace(torch.jit.script(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))), (2,))
    with pytest.raises(rs.InputError, match="ValueError"):
        rs.trace(torch.jit.script(Block(4)), (4, 4))


@pytest.fixture(scope="module")
def baselines() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("stable_baselines3", reason="needs stable-baselines3")


@pytest.mark.parametrize(
    ("name", "environment"),
    [(name, "CartPole-v1") for name in ("PPO", "DQN")] + [(name, "Pendulum-v1") for name in ("A2C", "SAC", "TD3")],
)
def test_the_actor_of_a_policy_acts_as_the_policy(name: str, environment: str, baselines: Any) -> None:
    act = {"policy_kwargs": {"activation_fn": nn.ReLU}}
    model = getattr(baselines, name)("MlpPolicy", environment, seed=0, device="cpu", **act)
    program = rs.trace(model)
    torch.manual_seed(0)
    observations = torch.randn(50, *program.input_shape)
    actions, _ = model.predict(observations.numpy(), deterministic=True)
    outputs = program(observations.double())
    if environment == "CartPole-v1":
        assert outputs.argmax(1).tolist() == actions.tolist()
    elif name == "A2C":
        torch.testing.assert_close(outputs.clamp(-2, 2).float(), torch.from_numpy(actions))
    else:
        torch.testing.assert_close(2 * torch.tanh(outputs).float(), torch.from_numpy(actions))
    path = rs.Polyline(observations[:5])
    rs.linear_regions(model.policy, path).check()


def test_an_actor_of_images_divides_them_by_255(baselines: Any) -> None:
    spaces: Any = import_module("gymnasium.spaces")
    box, actions = spaces.Box(0, 255, (1, 36, 36), dtype="uint8"), spaces.Discrete(3)
    policy = import_module("stable_baselines3.dqn").CnnPolicy(box, actions, lambda _: 1e-3)
    images = torch.randint(0, 255, (2, 1, 36, 36), dtype=torch.uint8)
    torch.testing.assert_close(rs.trace(policy)(images.double()).float(), policy.q_net(images).detach())


@pytest.mark.parametrize("name", ["ResNet", "RegNet"])
def test_a_hugging_face_model_of_relu_comes_from_a_config_and_a_state_dict(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
    small = {"embedding_size": 4, "hidden_sizes": [8, 8], "depths": [1, 1]}
    small |= {"layer_type": "basic"} if name == "ResNet" else {"layer_type": "x", "groups_width": 4}
    config = getattr(transformers, f"{name}Config")(num_channels=1, num_labels=3, **small)
    kind = getattr(transformers, f"{name}ForImageClassification")
    torch.manual_seed(0)
    state = kind(config).state_dict()
    model = kind(config)
    model.load_state_dict(state)
    images = torch.randn(2, 1, 24, 24)
    part = rs.linear_regions(model, rs.Segment(*images), output="logits")
    part.check()
    expected = model.eval()(images).logits
    torch.testing.assert_close(part.outputs[[0, -1]].float(), expected.detach(), rtol=1e-4, atol=1e-5)
