"""Policies of Stable-Baselines3 as the network of their deterministic actor."""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor, nn


class ActorNetwork(nn.Module):
    """From an observation to the numbers that choose the action.

    Action values (DQN), logits or the mean action (PPO, A2C), and the action before its Tanh (SAC, TD3, DDPG). The
    largest output is the action of a discrete space; others are clipped or squashed to their space behind it.
    """

    def __init__(self, features: nn.Module, head: nn.Module, divisor: float, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.features, self.head, self.divisor, self.input_shape = features, head, divisor, input_shape

    def forward(self, observation: Tensor) -> Any:
        return self.head(self.features(observation / self.divisor))


def actor_of(model: Any) -> Any:
    """The actor of an algorithm or a policy, or the value itself if it is none, or of another kind."""
    if not any(kind.__module__.startswith("stable_baselines3.") for kind in type(model).__mro__):
        return model
    policy = getattr(model, "policy", model)
    parts = _parts(policy)
    if parts is None or type(policy.observation_space).__name__ != "Box":
        return model
    preprocessing = sys.modules["stable_baselines3.common.preprocessing"]
    image = policy.normalize_images and preprocessing.is_image_space(policy.observation_space)
    shape = tuple(policy.observation_space.shape)
    return ActorNetwork(*parts, 255.0 if image else 1.0, shape).train(policy.training)


def _parts(policy: Any) -> tuple[nn.Module, nn.Module] | None:
    """The extractor of features and the layers behind it."""
    if hasattr(policy, "action_net") and hasattr(policy, "mlp_extractor"):
        features = getattr(policy, "pi_features_extractor", policy.features_extractor)
        return features, nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net)
    if hasattr(getattr(policy, "q_net", None), "q_net"):
        return policy.q_net.features_extractor, policy.q_net.q_net
    if (actor := getattr(policy, "actor", None)) is None:
        return None
    if hasattr(actor, "latent_pi"):
        return actor.features_extractor, nn.Sequential(actor.latent_pi, actor.mu)
    return actor.features_extractor, actor.mu[:-1] if isinstance(actor.mu[-1], nn.Tanh) else actor.mu
