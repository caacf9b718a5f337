"""``embedded``: a sequence model as a function of embeddings, or of the hidden states of one of its blocks.

Token ids have no slices: the points between two tokens lie in the space of their embeddings. A forward hook on a
private copy replaces the output of the embedding (or of a block) by the given values; the rest of the model runs as it
is. Padding is cut off before the model runs, so that a padded position never counts.
"""

from __future__ import annotations

import inspect
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_module
from regionscope.errors import InputError
from regionscope.network.call.forward import call_model
from regionscope.network.call.precision import full_precision
from regionscope.network.call.untouched import home
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.output import Arguments, Output, chosen_output
from regionscope.network.private_copy import runnable_copy
from regionscope.network.token_ids import read_tokens, without_padding

_ROWS = 64  # sequences that are embedded at a time
_ALIKE = 1e-2  # of the largest output: what differs by less is the same in half precision
_ROUNDING = 1024  # of the spacing of floating-point numbers at the largest output: the same in full precision


@dataclass(frozen=True, eq=False)
class Embedded:
    """A sequence model as a function of real numbers, and its inputs.

    model: a module from embeddings (n, t, d) to the logits (n, vocabulary) at ``position``, or to the whole output of a
        model without an axis of positions. inputs: (n, t, d), the embeddings (or hidden states) of the token ids.
        position: token whose logits are returned, from 0 to t - 1; None for all tokens, (n, t, vocabulary). at: name of
        the module whose output the inputs replace.
    """

    model: EmbeddedModel
    inputs: Tensor
    position: int | None
    at: str

    def __repr__(self) -> str:
        return f"Embedded(inputs={tuple(self.inputs.shape)}, at={self.at!r}, position={self.position})"


def embedded(
    model: nn.Module,
    ids: Any,
    *,
    at: str | None = None,
    position: int | None = -1,
    attention_mask: Any = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Embedded:
    """``model`` as a function of embeddings, with the next-token logits at one position as its output.

    model: takes token ids (n, t) and returns logits (n, t, vocabulary), those of the last token (n, 1, vocabulary) or
        (n, classes), or an object with ``logits`` (Hugging Face). Its weights are copied: the result is a snapshot.
    ids: (n, t) or (t,) whole numbers; all sequences must have the same number of real tokens.
    at: name of the module whose output is replaced, such as "blocks.2" for its hidden states; the token embedding by
        default.
    position: index of the token whose logits are returned; -1 is the last real token, None returns all of them.
    attention_mask: (n, t), 0 at padding. Padding is removed before the model runs.
    output, args: the part of the output that holds the logits, and further arguments; see ``select_output``. Raises
    InputError if the output depends on the ids in another way too, such as a second look-up after ``at``; this is
    tested on three of the sequences. Cost: one copy of the weights and six forward passes.
    """
    check_module(model, otherwise="Pass a module that takes token ids.")
    tokens, mask = read_tokens(ids, attention_mask)
    groups = list(without_padding(tokens, mask))
    if len(groups) > 1:
        lengths = ", ".join(str(group.ids.shape[1]) for group in groups)
        raise InputError(
            f"Expected sequences with the same number of real tokens, got {lengths}. A slice needs inputs of one "
            "shape: cut the sequences to one length."
        )
    real = groups[0].ids.to(home(model)[0])
    t = real.shape[1]
    if position is not None and not (isinstance(position, int) and -t <= position < t):
        raise InputError(
            f"Expected position from {-t} to {t - 1} for sequences of {t} real tokens, got {position!r}. "
            "Count the tokens from 0, or from -1 backwards."
        )
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        whole = runnable_copy(unwrapped(model))
        name = _embedding_of(whole, real[:1], args) if at is None else _named(whole, at)
        made = EmbeddedModel(whole, name, real[0], None if position is None else position % t, output, args)
        made.check(real[:3])
        inputs = made.embed(real)
        if made.position is not None:
            made.narrow_head(inputs[:2], made.position)
        return Embedded(made, inputs, made.position, name)


class EmbeddedModel(nn.Module):
    """Made by ``embedded``. It has the layers of the model under their names, and no others."""

    whole: nn.Module
    at: str
    ids: Tensor
    position: int | None
    output: Output | None
    args: Arguments
    given: threading.local

    def __init__(
        self, whole: nn.Module, at: str, ids: Tensor, position: int | None, output: Output | None, args: Arguments
    ) -> None:
        given = threading.local()
        own: dict[str, Any] = {**nn.Module().__dict__, "whole": whole, "at": at, "ids": ids, "position": position}
        own.update(output=output, args=args, given=given, training=False)
        for shared in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules"):
            own[shared] = whole.__dict__[shared]
        self.__dict__.update(own)
        whole.get_submodule(at).register_forward_hook(_Replace(given))

    def forward(self, inputs: Tensor) -> Any:
        """The logits for the embeddings ``inputs`` (n, t, d)."""
        found = self._everywhere(inputs)
        if self.position is None or found.ndim != 3:
            return found
        return found[:, self.position if found.shape[1] > 1 else 0]

    def _everywhere(self, inputs: Tensor) -> Any:
        given = self.__dict__["given"]
        given.value, given.used = inputs, False
        try:
            result = _call(self.__dict__["whole"], self.ids.expand(len(inputs), -1), self.args)
        finally:
            given.value = given.args = None
        if not given.used:
            raise self._never_runs()
        return self._chosen(result)

    def _chosen(self, result: Any) -> Tensor:
        found = chosen_output(result, self.output) if self.output is not None else _logits(result)
        if not isinstance(found, Tensor):
            raise InputError(f"Expected output to choose one tensor, got {type(found).__name__}. Choose another.")
        return found

    def check(self, ids: Tensor) -> None:
        """Refuse a model that looks at its token ids again behind ``at``, where those of one sequence stand for all,
        and one without logits at ``position``."""
        wanted = self._chosen(_call(self.__dict__["whole"], ids, self.args))
        inputs = self.embed(ids)
        found = self._everywhere(inputs)
        finite = wanted[wanted.isfinite()].abs()
        near = min(_ROUNDING * torch.finfo(inputs.dtype).eps, _ALIKE) * (finite.max() if len(finite) else 0.0)
        if found.shape != wanted.shape or bool(((found - wanted).abs() > near).any()):
            raise InputError(
                f"Expected a model whose output depends on the token ids through '{self.at}' alone, got one that looks "
                "at them again. Name a module behind all of these with at=."
            )
        n, t = ids.shape
        lengths = (1, t) if self.position == t - 1 else (t,)
        if self.position is None or (found.ndim != 3 and self.position == t - 1):
            return
        if found.ndim != 3 or found.shape[1] not in lengths:
            advice = "Choose the logits of the tokens with output=." if found.ndim == 3 else "Leave position out."
            raise InputError(
                f"Expected logits ({n}, {t}, vocabulary) for position={self.position}, got shape "
                f"{tuple(found.shape)}. {advice}"
            )

    def narrow_head(self, inputs: Tensor, position: int) -> None:
        """Let a linear layer that makes the logits run at ``position`` alone, if that gives the same logits.

        With a large vocabulary the logits of all tokens would take more memory than everything before them.
        """
        made: list[tuple[nn.Module, Tensor]] = []

        def look(module: nn.Module, args: Any, output: Any) -> None:
            made.append((module, output))

        handles = [m.register_forward_hook(look) for m in self.modules() if isinstance(m, nn.Linear)]
        try:
            everywhere = self._everywhere(inputs)
        finally:
            for handle in handles:
                handle.remove()
        t = inputs.shape[1]
        if everywhere.ndim != 3 or everywhere.shape[1] != t or not made or not torch.equal(made[-1][1], everywhere):
            return
        handle = made[-1][0].register_forward_pre_hook(_Keep(self.__dict__["given"], position, t))
        after, before = self._everywhere(inputs), everywhere[:, position : position + 1]
        if after.shape != before.shape or not torch.allclose(after, before, rtol=1e-4, atol=1e-5):
            handle.remove()

    def embed(self, ids: Tensor) -> Tensor:
        """The output (n, t, d) of the replaced module for token ids (n, t); what follows it does not run."""
        found = torch.cat([self._until_replaced(part) for part in ids.split(_ROWS)])
        if found.ndim != 3 or found.shape[:2] != ids.shape:
            raise InputError(
                f"Expected '{self.at}' to return hidden states ({len(ids)}, {ids.shape[1]}, d), got shape "
                f"{tuple(found.shape)}. Name the embedding or a block of the model."
            )
        return found

    def _until_replaced(self, ids: Tensor) -> Tensor:
        given = self.__dict__["given"]
        given.value, given.stop = None, True
        try:
            _call(self.__dict__["whole"], ids, self.args)
        except _Reached as reached:
            return reached.output
        finally:
            given.stop = False
        raise self._never_runs()

    def _never_runs(self) -> InputError:
        return InputError(f"Expected at to name a module that runs in the forward pass, got '{self.at}'. Name another.")

    def __repr__(self) -> str:
        return f"EmbeddedModel(at={self.at!r}, position={self.position}, {type(self.__dict__['whole']).__name__})"


class _Reached(Exception):
    """Ends a forward pass at the module whose output is wanted."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


class _Replace:
    """The forward hook: returns the given values in place of its module's output, or ends the pass there.

    A module that runs several times in a pass is replaced the first time, and again only on the same input.
    """

    def __init__(self, given: threading.local) -> None:
        self.given = given

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        several = isinstance(output, tuple)
        if getattr(self.given, "stop", False):
            raise _Reached(output[0] if several else output)
        value = getattr(self.given, "value", None)
        if value is None or (self.given.used and not _equal(args, self.given.args)):
            return None
        self.given.used, self.given.args = True, args
        return (value, *output[1:]) if several else value


def _equal(args: Any, others: Any) -> bool:
    first, second = args[:1], others[:1]
    return all(isinstance(each, Tensor) for each in first + second) and bool(first) and torch.equal(*first, *second)


class _Keep:
    """The hook before the head: keeps the hidden state at one position of the t, while embeddings are given."""

    def __init__(self, given: threading.local, position: int, t: int) -> None:
        self.given, self.position, self.t = given, position, t

    def __call__(self, module: nn.Module, args: Any) -> Any:
        if getattr(self.given, "value", None) is None or args[0].ndim != 3 or args[0].shape[1] != self.t:
            return None
        return (args[0][:, self.position : self.position + 1], *args[1:])


def _call(whole: nn.Module, ids: Tensor, args: Arguments) -> Any:
    named = dict(args) if isinstance(args, dict) else {}
    if "use_cache" in _parameters(whole):
        named.setdefault("use_cache", False)  # keys and values of earlier tokens would only fill memory
    further = () if isinstance(args, dict) else tuple(args)
    return call_model(lambda tokens: whole(tokens, *further, **named), ids)


def _parameters(whole: nn.Module) -> frozenset[str]:
    return frozenset(inspect.signature(whole.forward).parameters)


def _logits(result: Any) -> Tensor:
    found = result if isinstance(result, Tensor) else getattr(result, "logits", None)
    if not isinstance(found, Tensor):
        names = ", ".join(getattr(result, "keys", list)()) or type(result).__name__
        raise InputError(f"Expected a model that returns logits, got {names}. Choose one of its outputs with output=.")
    return found


def _embedding_of(whole: nn.Module, ids: Tensor, args: Arguments) -> str:
    """The name of the ``nn.Embedding`` that looks the token ids up, seen in one forward pass."""
    found: list[str] = []
    # Positions are looked up too, with ids of their own: these two sequences cannot be taken for positions.
    pair = torch.cat([ids, ids.roll(1, 1) if ids.shape[1] > 1 else ids])
    handles = []
    for name, part in whole.named_modules():
        if isinstance(part, nn.Embedding):

            def look(module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
                if inputs and isinstance(inputs[0], Tensor) and torch.equal(inputs[0], pair):
                    found.append(name)

            handles.append(part.register_forward_hook(look))
    try:
        _call(whole, pair, args)
    finally:
        for handle in handles:
            handle.remove()
    if len(set(found)) != 1:
        names = ", ".join(found) or "none"
        raise InputError(f"Expected one nn.Embedding that takes the token ids, got {names}. Name the module with at=.")
    return found[0]


def _named(whole: nn.Module, name: str) -> str:
    known = [path for path, _ in whole.named_modules() if path]
    if name not in known:
        shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise InputError(f"Expected at to name a module of the model, got {name!r}. Choose from {shown}.")
    return name
