"""The sentences for networks that have no exact regions, or whose forward cannot be read."""

from __future__ import annotations

from torch import nn

from regionscope.network.activations import ACTIVATIONS

_TITLES = [entry.title for entry in dict.fromkeys(ACTIVATIONS.values()) if entry.title]
ACCEPTED = (
    f"{', '.join(_TITLES)}, clamp, max-pooling, max, min, sort, norms of order 1 and infinity, masks that make no "
    "jump, recurrent layers of ReLU, and layers that are affine in eval mode"
)
SMOOTH = (
    "GELU, SiLU, Mish, Softplus, ELU, SELU, CELU, Sigmoid, Tanh, Softsign, Hardswish, sin, cos, exp, log, sqrt, "
    "powers, products, softmax, attention, LayerNorm, GroupNorm and RMSNorm"
)
WAY_OUT = "Use decision_map() for smooth functions, region_count() or local_complexity() for other networks."
WAY_OUT_OF_RECURRENT = "Use region_count() for such networks."  # local_complexity() cannot look inside either

NO_STATISTICS = "it has no running statistics, so in eval mode too it divides by the spread of the batch"
PRODUCT = "it multiplies or divides by a value that itself depends on the input"
INDICES = "the indices of a maximum jump; use its values alone"
SPREAD = "it divides by the spread of its input"
QUANTISED = "it is quantised: rounding makes its values jump"
RECURRENT = "it multiplies values that depend on the input, or bends them smoothly"
_BEFORE = "For linear regions, use the logits before it; decision_regions() and flips() take it off themselves. "
LEAVE_OFF = {
    "softmax": f"If it is the last layer, leave it off: the predicted class stays the same. {_BEFORE}",
    "increasing": "If it is the last layer, leave it off: the order of the outputs stays the same, and "
    f"sigmoid(x) > 0.5 and tanh(x) > 0 where x > 0. {_BEFORE}",
}
JUMP_ADVICE = "On a line or a plane, linear_regions(model, slice, jumps=True) follows most jumps. "
CHECK = "a check of the data"

_CURVED = "elu selu celu gelu silu mish softplus softsign tanhshrink hardswish glu exp log sqrt "
_CURVED += "rsqrt pow square sin cos tan expm1 log1p logsumexp erf normalize std var cosine_similarity reciprocal "
_CURVED += "bilinear prod scaled_dot_product_attention multi_head_attention_forward lp_pool1d lp_pool2d cross_entropy"
_JUMPS = "sign round floor ceil trunc frac remainder fmod floordiv floor_divide heaviside gt lt ge le eq ne "
_JUMPS += "argmax argmin where bool int long bucketize mod"
_QUANTISED = "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic fake_quantize_per_tensor_affine "
_QUANTISED += "fake_quantize_per_channel_affine dequantize"
_RANDOM = "rand_like randn_like randint_like bernoulli multinomial poisson normal log_normal uniform random "
_RANDOM += "exponential geometric cauchy"

REASONS: dict[str, str] = {
    **dict.fromkeys(_CURVED.split(), ""),
    **dict.fromkeys(_JUMPS.split(), "it jumps"),
    **dict.fromkeys(("layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm"), SPREAD),
    **dict.fromkeys((f"{kind}max_pool{d}d_with_indices" for kind in ("", "adaptive_") for d in (1, 2, 3)), INDICES),
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "gumbel_softmax"), "softmax"),
    **dict.fromkeys(("sigmoid", "logsigmoid", "log_sigmoid", "tanh"), "increasing"),
    **dict.fromkeys(_QUANTISED.split(), QUANTISED),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "isposinf", "isneginf"), CHECK),
    **dict.fromkeys(_RANDOM.split(), "it is random"),
    **dict.fromkeys(("embedding", "embedding_bag"), "it takes integers, which have no slices"),
    **dict.fromkeys(("new_empty", "empty_like"), "its values are whatever memory holds"),
}
"""Known functions that are not continuous and piecewise affine, with the reason where the name does not say it.

Names are bare: ``normal`` stands for the method ``normal_`` too.
"""

LAYERS: dict[type[nn.Module], str] = {
    nn.RNNBase: RECURRENT,
    nn.RNNCellBase: RECURRENT,
    nn.MultiheadAttention: PRODUCT,
    nn.Transformer: PRODUCT,
    nn.TransformerEncoderLayer: PRODUCT,
    nn.TransformerDecoderLayer: PRODUCT,
    nn.Bilinear: PRODUCT,
}
"""Layers refused as a whole, because their forward cannot be followed to the operation that is to blame."""


def layer_reason(module: nn.Module) -> str | None:
    """The reason to refuse ``module`` before looking inside, or None."""
    if isinstance(module, nn.RNNBase | nn.RNNCellBase) and getattr(module, "nonlinearity", "tanh") == "relu":
        return None
    if ".quantized" in type(module).__module__ and type(module).__module__.startswith("torch."):
        return QUANTISED
    return next((reason for kind, reason in LAYERS.items() if isinstance(module, kind)), None)


def not_affine(subject: str, reason: str) -> str:
    """``subject`` ("'act' is GELU") is known not to be piecewise affine, or a layer whose steps cannot be seen."""
    if reason == CHECK:
        return (
            f"Expected a forward without a check of the data, but {subject}. The points of a slice are finite: leave "
            "the check out of the forward. Or use region_count(), which runs the module as it is."
        )
    advice = LEAVE_OFF.get(reason, JUMP_ADVICE if reason.startswith("it jumps") else "")
    because = f" ({reason})" if reason and reason not in LEAVE_OFF else ""
    ways_out = {RECURRENT: WAY_OUT_OF_RECURRENT, NO_STATISTICS: "Build it with track_running_stats=True."}
    way_out = ways_out.get(reason, WAY_OUT)
    return (
        f"Expected a piecewise-affine network, but {subject}, which is not piecewise affine{because}. "
        f"Exact regions accept {ACCEPTED}. {advice}{way_out}"
    )


def no_rule(subject: str, detail: str = "") -> str:
    """``subject`` may be piecewise affine, but has no rule."""
    return (
        f"Expected an operation that has a rule, but {subject}, for which there is no rule{detail}. Exact regions "
        f"accept {ACCEPTED}. If it is piecewise affine, write it with these, or add its rule (CONTRIBUTING.md shows "
        f"how). {WAY_OUT}"
    )


def of_block(message: str, name: str, way_out: str) -> str:
    """The message about a network as one about block ``name`` of a model, with advice for a block."""
    changes = {
        **dict.fromkeys((WAY_OUT, WAY_OUT_OF_RECURRENT, JUMP_ADVICE, *LEAVE_OFF.values()), ""),
        "Expected a piecewise-affine network, but": f"Expected '{name}' to be piecewise affine, but",
        "Expected an operation that has a rule, but": f"Expected rules for all of '{name}', but",
    }
    for general, special in changes.items():
        message = message.replace(general, special)
    return f"{message.strip()} {way_out}"


def of_smooth(message: str) -> str:
    """The message about a network whose smooth functions are read too."""
    changes = {
        **dict.fromkeys((WAY_OUT, WAY_OUT_OF_RECURRENT, *LEAVE_OFF.values()), ""),
        "Expected a piecewise-affine network, but": "Expected a network of functions that decision_map bounds, but",
        ", which is not piecewise affine": "",
        f"Exact regions accept {ACCEPTED}. ": f"decision_map accepts {ACCEPTED}, and {SMOOTH}. ",
        "If it is piecewise affine, add": "Add",
    }
    for general, special in changes.items():
        message = message.replace(general, special)
    return f"{message.strip()} Use region_count() for such networks."


def mixes_rows(subject: str) -> str:
    """The batch dimension must stay a batch dimension."""
    return (
        f"Expected a network that treats each row of a batch alone, but {subject} and works along the batch dimension. "
        "Keep dimension 0 for the batch, as in x.flatten(1) and x.mean(dim=1). If this is the condition of an if "
        "statement, write its branches with torch.relu, torch.maximum or torch.clamp, or use region_count()."
    )


def policy(name: str) -> str:
    """A policy of Stable-Baselines3 is more than its network."""
    return (
        f"Expected a network, got the Stable-Baselines3 policy {name}, which turns observations into actions. Pass its "
        "layers: nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net) for PPO and A2C, policy.q_net for "
        "DQN, policy.actor.mu[:-1] (without its Tanh) for TD3, nn.Sequential(policy.actor.latent_pi, policy.actor.mu) "
        "for SAC. Exact regions need activation_fn=nn.ReLU."
    )


def misfit(subject: str, shapes: str, input_shape: tuple[int, ...], reason: str, advice: str = "") -> str:
    """A layer got a value of a shape it cannot take."""
    if not advice and len(input_shape) == 4 and input_shape[0] == 1:  # an image with its batch axis
        advice = "Pass points without the batch axis, such as x[0] in place of x[:1]."
    return (
        f"Expected shapes that fit, but {subject} and cannot take a value of shape {shapes}, which it gets from inputs "
        f"of shape (v, {', '.join(map(str, input_shape))}): {reason.strip().rstrip('.')}. "
        + (advice or "Check the shape of the input points.")
    )
