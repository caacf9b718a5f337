"""``block``: one MLP block of a sequence model, read as a piecewise-affine program around a real activation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, check_module, unknown_name
from regionscope.errors import CheckFailed, InputError, NotPiecewiseAffine
from regionscope.inputs import read_array
from regionscope.network import refuse
from regionscope.network.call.forward import call_model
from regionscope.network.call.untouched import device_and_dtype, untouched
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.output import Arguments
from regionscope.network.program import Program
from regionscope.network.token_ids import read_tokens, takes_tokens
from regionscope.network.trace import trace

# How far the program in float64 may differ from the model: a share of the largest output, or, if that is more (for
# bfloat16), a number of spacings of floating-point numbers of that size.
_FLOAT32_SHARE = 1e-3
_MODEL_SPACINGS = 8
_SAMPLE_TOKENS = "For this block, sample the next token with embedding_slice() and region_count()."
_SAMPLE_MODEL = "For this block, use region_count() or local_complexity() of the whole model."


@dataclass(frozen=True, eq=False)
class Block:
    """A block as a piecewise-affine function of one token's vector, with its inputs in a context.

    program: from inputs (n, d) of the block to its outputs; pass it to ``linear_regions`` with slices of (d,) inputs.
    inputs: (t, d) float64, the block's own inputs at the real tokens of the context, after the LayerNorm in front of
    it. position: index of the requested token. name: name of the block.
    """

    program: Program
    inputs: Tensor
    position: int
    name: str

    @property
    def activation(self) -> Tensor:
        """The block's input (d,) at ``position``: the point around which to place slices."""
        return self.inputs[self.position]

    def __repr__(self) -> str:
        t, d = self.inputs.shape
        return f"Block({self.name!r}, tokens={t}, width={d}, position={self.position})"


def block(
    model: nn.Module,
    name: str | Sequence[str],
    context: Any,
    *,
    position: int = -1,
    attention_mask: Any = None,
    args: Arguments = (),
) -> Block:
    """The block ``name`` of ``model`` as a piecewise-affine program, with its real inputs in one context.

    The regions of the program are exact on any slice of the block's own input, that is, after the LayerNorm. On planes
    of the residual stream, before the LayerNorm, the block is not piecewise affine: sample those with
    ``embedding_slice(..., at=...)`` and ``region_count``.

    model: the network; a private copy of it runs once. name: name of a module that works on each token alone, such as
        "layers.3.mlp", or the names of several that run one after another (["layers.3.linear1", "layers.3.activation",
        "layers.3.linear2"]).
    context: token ids (t,), or one input of the model (*input_shape).
    position: index of the token; -1 is the last real token. attention_mask: (t,), 0 at padding.
    args: further arguments of the model.
    Raises NotPiecewiseAffine for GELU and other smooth blocks. Cost: one forward pass of the model, and ``trace``.
    """
    names = tuple(name) if isinstance(name, Iterable) and not isinstance(name, str) else (name,)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"Expected the name of a block, or a list of names, got {name!r}. See model.named_modules().")
    whole = unwrapped(check_module(model))
    shown = ", ".join(names)
    inputs, outputs = _seen(whole, names, _one_input(whole, context, attention_mask), args)
    t = len(inputs)
    if not (isinstance(position, int) and -t <= position < t):
        raise InputError(
            f"Expected position from {-t} to {t - 1} for {t} real tokens, got {position!r}. "
            "Count the tokens from 0, or from -1 backwards."
        )
    part = whole.get_submodule(names[0]) if len(names) == 1 else _Chain([_part(whole, name) for name in names])
    try:
        program = trace(part, (inputs.shape[1],), points=lambda: inputs)
    except NotPiecewiseAffine as error:
        way_out = _SAMPLE_TOKENS if takes_tokens(whole, context) else _SAMPLE_MODEL
        raise NotPiecewiseAffine(refuse.of_block(str(error), shown, way_out)) from error
    outputs_alone = program(inputs).reshape(outputs.shape)
    tolerance = max(_FLOAT32_SHARE, _MODEL_SPACINGS * torch.finfo(device_and_dtype(whole)[1]).eps)
    difference = (outputs_alone - outputs).abs()
    if not bool((difference <= tolerance * outputs.abs().max()).all()):
        raise CheckFailed(
            f"Expected '{shown}', read alone, to compute what it computes inside the model, got a difference of "
            f"{float(difference.max()):.2g}. Name all modules from the block's input to its output."
        )
    return Block(program, inputs, position % t, shown)


class _Chain(nn.Module):
    """Modules and functions that run one after another."""

    def __init__(self, parts: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        self.parts = [*parts]

    def forward(self, x: Any) -> Any:
        return reduce(lambda value, part: part(value), self.parts, x)


def _part(whole: nn.Module, name: str) -> Callable[[Any], Any]:
    part: Any = whole
    for step in name.split("."):
        part = getattr(part, step, None)
    if not callable(part):
        names = [path for path, _ in whole.named_modules() if path]
        raise unknown_name("the name of a part of the model", name, names, most=20)
    return part  # type: ignore[no-any-return]


def _one_input(whole: nn.Module, context: Any, attention_mask: Any) -> Tensor:
    device, dtype = device_and_dtype(whole)
    if takes_tokens(whole, context):
        ids, mask = read_tokens(context, attention_mask)
        if len(ids) != 1:
            raise InputError(f"Expected one context (t,), got {len(ids)}. Call block() once for each.")
        return ids[mask][None].to(device)
    return read_array(context, "one input of the model as context").to(device, dtype)[None]


def _seen(whole: nn.Module, names: Sequence[str], inputs: Tensor, args: Arguments) -> tuple[Tensor, Tensor]:
    """The input (t, d) of the first module and the output (t, c) of the last one in a forward pass, in float64."""
    seen: dict[str, Tensor] = {}

    def before(module: nn.Module, given: Any, named: Any) -> None:
        keep("in", "take", next(iter((*given, *named.values())), None))

    def after(module: nn.Module, given: Any, output: Any) -> None:
        keep("out", "return", output)

    def keep(end: str, verb: str, value: Any) -> None:
        if not isinstance(value, Tensor) or value.ndim < 2:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"Expected '{', '.join(names)}' to {verb} a tensor (..., tokens, d), got {got}. "
                "Name modules of the MLP of a transformer, as block() shows."
            )
        seen.setdefault(end, value.detach().double().flatten(0, -2))

    with untouched(whole) as private:
        ends = [_part(private, name) for name in (names[0], names[-1])]
        for name, part in zip((names[0], names[-1]), ends, strict=True):
            what = f"the first and the last part of a block, here {name!r},"
            check_instance(what, part, nn.Module, advice="Begin and end with a module")
        ends[0].register_forward_pre_hook(before, with_kwargs=True)  # type: ignore[attr-defined]
        ends[1].register_forward_hook(after)  # type: ignore[attr-defined]
        further, named = ((), args) if isinstance(args, Mapping) else (args, {})
        try:
            call_model(lambda given: private(given, *further, **named), inputs)
        except InputError as error:
            if not inputs.is_floating_point():
                raise
            raise InputError(
                f"{error} The context is one input, without the batch dimension, which block() adds: pass inputs[0] of "
                "a batch."
            ) from error
    if len(seen) < 2:
        raise InputError(
            f"Expected modules that run in the forward pass, got '{', '.join(names)}', which do not. Name others."
        )
    return seen["in"], seen["out"]
