"""``embedded``: a sequence model as a function of embeddings, or of the hidden states of one of its blocks.

Token ids have no slices: the points between two tokens lie in the space of their embeddings. A forward hook on a
private copy replaces the output of the embedding (or of a block) by the given values; the rest of the model runs as it
is. Padding is cut off before the model runs, so that a padded position never counts.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_module, is_integer, unknown_name
from regionscope.errors import InputError
from regionscope.network.call.forward import call_model
from regionscope.network.call.precision import full_precision
from regionscope.network.call.untouched import device_and_dtype
from regionscope.network.call.wrappers import shared_state
from regionscope.network.output import Arguments, Output, chosen_output, for_each_input
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
    output, args: the part of the output that holds the logits, and further arguments; see ``select_output``.
    Raises InputError if the output depends on the ids in another way too, such as a second look-up after ``at`` or a
    search for padding. This is tested on up to nine of the sequences, among them some with special tokens of the
    model's ``config`` (padding, end, mask) at other places than in the first. Cost: one copy of the weights and up to
    four forward passes of these sequences.
    """
    return embedded_with_head(
        model, ids, at=at, position=position, head=position, attention_mask=attention_mask, output=output, args=args
    )


def embedded_with_head(
    model: nn.Module,
    ids: Any,
    *,
    at: str | None = None,
    position: int | None,
    head: int | None,
    attention_mask: Any = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Embedded:
    """``embedded``, where the linear layer that makes the logits runs at the token ``head`` alone, if that gives the
    same logits; None: it runs at all tokens. Its logits at other tokens take memory and time, and are not counted.
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
    real_ids = groups[0].ids.to(device_and_dtype(model)[0])
    t = real_ids.shape[1]
    if position is not None and not (isinstance(position, int) and -t <= position < t):
        raise InputError(
            f"Expected position from {-t} to {t - 1} for sequences of {t} real tokens, got {position!r}. "
            "Count the tokens from 0, or from -1 backwards."
        )
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        private = runnable_copy(model)
        tested, others = sequences_to_test(real_ids, getattr(private, "config", None))
        if at is None:
            name, results = embedding_of(private, tested, args)
        else:
            name, results = _named(private, at), call_on_ids(private, tested, args)
        function = EmbeddedModel(private, name, real_ids[0], None if position is None else position % t, output, args)
        function.check(tested, results, others, None if head is None else head % t)
        return Embedded(function, function.embed(real_ids), function.position, name)


class EmbeddedModel(nn.Module):
    """Made by ``embedded``. It has the layers of the model under their names, and no others."""

    inner: nn.Module
    at: str
    ids: Tensor
    position: int | None
    output: Output | None
    args: Arguments
    replacement: threading.local

    def __init__(
        self, inner: nn.Module, at: str, ids: Tensor, position: int | None, output: Output | None, args: Arguments
    ) -> None:
        replacement = threading.local()
        fields: dict[str, Any] = {"at": at, "ids": ids, "position": position, "output": output, "args": args}
        self.__dict__.update(shared_state(inner, inner=inner, replacement=replacement, **fields))
        self.__dict__["training"] = False
        inner.get_submodule(at).register_forward_hook(_Replace(replacement))

    def forward(self, inputs: Tensor) -> Any:
        """The logits for the embeddings ``inputs`` (n, t, d)."""
        logits = self._logits_at_all_tokens(inputs)
        if self.position is None or logits.ndim != 3:
            return logits
        return logits[:, self.position if logits.shape[1] > 1 else 0]

    def _logits_at_all_tokens(self, inputs: Tensor) -> Any:
        replacement = self.__dict__["replacement"]
        replacement.value, replacement.used = inputs, False
        try:
            result = call_on_ids(self.__dict__["inner"], self.ids.expand(len(inputs), -1), self.args)
        finally:
            replacement.value = replacement.args = None
        if not replacement.used:
            raise self._never_runs()
        return self._select(result)

    def _select(self, result: Any) -> Tensor:
        logits = chosen_output(result, self.output) if self.output is not None else _logits(result)
        if not isinstance(logits, Tensor):
            raise InputError(f"Expected output to choose one tensor, got {type(logits).__name__}. Choose another.")
        return logits

    def check(self, ids: Tensor, results: Any, others: Tensor, head: int | None) -> None:
        """Refuse a model that looks at its token ids again behind ``at``, where those of one sequence stand for all,
        and one without logits at ``position``; then narrow the head to a token.

        results: what the model returns for these ids. others: further ids. head: see ``embedded_with_head``.
        """
        expected = self._select(results)
        inputs = self.embed(ids)
        may_have_head = head is not None and expected.ndim == 3 and expected.shape[1] == ids.shape[1]
        last: list[tuple[nn.Module, Tensor]] = []
        with self._keep_last_linear(last) if may_have_head else nullcontext():
            logits = self._logits_at_all_tokens(inputs)
        tolerance = min(_ROUNDING * torch.finfo(inputs.dtype).eps, _ALIKE)
        self._check_alike(logits, expected, tolerance)
        for part in others.split(len(ids)) if len(others) else ():
            wanted = self._select(call_on_ids(self.__dict__["inner"], part, self.args))
            self._check_alike(self._logits_at_all_tokens(self.embed(part)), wanted, tolerance)
        self._check_position(logits, *ids.shape)
        if head is not None and last and torch.equal(last[0][1], logits):
            self._narrow_head(last[0][0], inputs[:1], logits[:1], head)

    def _check_alike(self, logits: Tensor, expected: Tensor, tolerance: float) -> None:
        """tolerance: as a share of the largest output."""
        finite = expected[expected.isfinite()].abs()
        close = tolerance * (finite.max() if len(finite) else 0.0)
        if logits.shape != expected.shape or bool(((logits - expected).abs() > close).any()):
            raise InputError(
                f"Expected a model whose output depends on the token ids through '{self.at}' alone, got one that looks "
                "at them again. Name a module behind all of these with at=."
            )

    def _check_position(self, logits: Tensor, n: int, t: int) -> None:
        lengths = (1, t) if self.position == t - 1 else (t,)
        if self.position is None or (logits.ndim != 3 and self.position == t - 1):
            return
        if logits.ndim != 3 or logits.shape[1] not in lengths:
            advice = "Choose the logits of the tokens with output=." if logits.ndim == 3 else "Leave position out."
            raise InputError(
                f"Expected logits ({n}, {t}, vocabulary) for position={self.position}, got shape "
                f"{tuple(logits.shape)}. {advice}"
            )

    @contextmanager
    def _keep_last_linear(self, last: list[tuple[nn.Module, Tensor]]) -> Iterator[None]:
        """Context that puts the last linear layer that runs inside, and its output, into the list ``last``."""

        def keep_output(module: nn.Module, args: Any, output: Any) -> None:
            last[:] = [(module, output)]

        handles = [m.register_forward_hook(keep_output) for m in self.modules() if isinstance(m, nn.Linear)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _narrow_head(self, linear: nn.Module, inputs: Tensor, logits: Tensor, position: int) -> None:
        """Let the linear layer that makes the ``logits`` run at ``position`` alone, if that gives the same ones there.

        With a large vocabulary the logits of all tokens would take more memory than everything before them.
        """
        hook = _KeepPosition(self.__dict__["replacement"], position, inputs.shape[1])
        handle = linear.register_forward_pre_hook(hook)
        after, before = self._logits_at_all_tokens(inputs), logits[:, position : position + 1]
        if after.shape != before.shape or not torch.allclose(after, before, rtol=1e-4, atol=1e-5):
            handle.remove()

    def embed(self, ids: Tensor) -> Tensor:
        """The output (n, t, d) of the replaced module for token ids (n, t); what follows it does not run."""
        states = torch.cat([self._output_of_replaced(batch) for batch in ids.split(_ROWS)])
        if states.ndim != 3 or states.shape[:2] != ids.shape:
            raise InputError(
                f"Expected '{self.at}' to return hidden states ({len(ids)}, {ids.shape[1]}, d), got shape "
                f"{tuple(states.shape)}. Name the embedding or a block of the model."
            )
        return states

    def _output_of_replaced(self, ids: Tensor) -> Tensor:
        replacement = self.__dict__["replacement"]
        replacement.value, replacement.stop = None, True
        try:
            call_on_ids(self.__dict__["inner"], ids, self.args)
        except _StopForward as reached:
            return reached.output
        finally:
            replacement.stop = False
        raise self._never_runs()

    def _never_runs(self) -> InputError:
        return InputError(f"Expected at to name a module that runs in the forward pass, got '{self.at}'. Name another.")

    def __repr__(self) -> str:
        return f"EmbeddedModel(at={self.at!r}, position={self.position}, {type(self.__dict__['inner']).__name__})"


class _StopForward(Exception):
    """Ends a forward pass once ``output`` is known."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


class _Replace:
    """The forward hook: returns the given values in place of its module's output, or ends the pass there.

    A module that runs several times in a pass is replaced the first time, and again only on the same input.
    """

    def __init__(self, replacement: threading.local) -> None:
        self.replacement = replacement

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        several = isinstance(output, tuple)
        if getattr(self.replacement, "stop", False):
            raise _StopForward(output[0] if several else output)
        value = getattr(self.replacement, "value", None)
        if value is None or (self.replacement.used and not _equal(args, self.replacement.args)):
            return None
        self.replacement.used, self.replacement.args = True, args
        return (value, *output[1:]) if several else value


def _equal(args: Any, others: Any) -> bool:
    first, second = args[:1], others[:1]
    return all(isinstance(part, Tensor) for part in first + second) and bool(first) and torch.equal(*first, *second)


class _KeepPosition:
    """The hook before the head: keeps the hidden state at one position of the t, while embeddings are given."""

    def __init__(self, replacement: threading.local, position: int, t: int) -> None:
        self.replacement, self.position, self.t = replacement, position, t

    def __call__(self, module: nn.Module, args: Any) -> Any:
        if getattr(self.replacement, "value", None) is None or args[0].ndim != 3 or args[0].shape[1] != self.t:
            return None
        return (args[0][:, self.position : self.position + 1], *args[1:])


def _logits(result: Any) -> Tensor:
    logits = result if isinstance(result, Tensor) else getattr(result, "logits", None)
    if not isinstance(logits, Tensor):
        names = ", ".join(getattr(result, "keys", list)()) or type(result).__name__
        raise InputError(f"Expected a model that returns logits, got {names}. Choose one of its outputs with output=.")
    return logits


def _named(model: nn.Module, name: str) -> str:
    names = [path for path, _ in model.named_modules() if path]
    if name not in names:
        raise unknown_name("at to name a module of the model", name, names, most=20)
    return name


# Calling a sequence model on token ids, and watching where it looks them up.

_ALL_TESTED = 8  # if there are no more sequences than this, all of them are tested
_FIRST = 3  # of more: the first three, one in the middle, the last, and at most four with special tokens
_TOKENS = 512  # of the sequences that are tested at a time, if these are more than the first
_SPECIAL = ("pad_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "bos_token_id")


def call_on_ids(model: nn.Module, ids: Tensor, args: Arguments) -> Any:
    """The output of the model for token ids (n, t) and further arguments, without a cache of earlier tokens."""
    kwargs = dict(args) if isinstance(args, dict) else {}
    if "use_cache" in inspect.signature(model.forward).parameters:
        kwargs.setdefault("use_cache", False)  # keys and values of earlier tokens would only fill memory
    positional = () if isinstance(args, dict) else tuple(args)

    def call(tokens: Tensor) -> Any:
        more = {name: for_each_input(value, tokens) for name, value in kwargs.items()}
        return model(tokens, *(for_each_input(value, tokens) for value in positional), **more)

    return call_model(call, ids)


def embedding_of(model: nn.Module, ids: Tensor, args: Arguments) -> tuple[str, Any]:
    """The name of the ``nn.Embedding`` that looks the token ids (n, t) up, and the output for them."""
    tables, results = _embeddings_of(model, ids, args)
    if len(tables) != 1 or bool((ids == ids[0]).all()):
        # Positions are looked up too, by ids of their own or by the number of tokens. They do not move with the tokens.
        tables, _ = _embeddings_of(model, torch.cat([ids[:1], ids[:1].roll(1, 1)]), args)
        if len(tables) > 1:
            tables = {name: rows for name, rows in tables.items() if torch.equal(rows[:1].roll(1, 1), rows[1:])}
    names = list(tables)
    if len(names) != 1:
        shown = ", ".join(names) or "none"
        raise InputError(f"Expected one nn.Embedding that takes the token ids, got {shown}. Name the module with at=.")
    return names[0], results


def _embeddings_of(model: nn.Module, ids: Tensor, args: Arguments) -> tuple[dict[str, Tensor], Any]:
    """What each ``nn.Embedding`` that takes these ids in a forward pass returns, by name, and the pass's output."""
    tables: dict[str, Tensor] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):

            def look(module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
                same = bool(inputs) and isinstance(inputs[0], Tensor) and torch.equal(inputs[0], ids)
                if same:
                    tables.setdefault(name, output)

            handles.append(module.register_forward_hook(look))
    try:
        results = call_on_ids(model, ids, args)
    finally:
        for handle in handles:
            handle.remove()
    return tables, results


def sequences_to_test(ids: Tensor, config: Any) -> tuple[Tensor, Tensor]:
    """The sequences on which a model that looks at its ids again is found out: those of the first pass, and the others.

    A classifier may look for a padding token or an end of its own, so that its output depends on where these are.
    """
    n = len(ids)
    rows = list(range(n)) if n <= _ALL_TESTED else [*range(_FIRST), n // 2, n - 1]
    named = [getattr(config, name, None) for name in _SPECIAL]
    special = [
        i for value in named for i in (value if isinstance(value, list | tuple) else [value]) if is_integer(i, least=0)
    ]
    if n > _ALL_TESTED and special:
        places = torch.isin(ids, torch.tensor(special, device=ids.device)).cpu()
        kinds, kind = torch.unique(places.flip(1), dim=0, return_inverse=True)  # the last tokens count most
        left = sorted(set(range(len(kinds))) - set(kind[rows].tolist()), reverse=True)
        rows += [int((kind == entry).nonzero()[0]) for entry in (*left[:2], *left[2:][-2:])]
    at_once = max(_FIRST, _TOKENS // ids.shape[1])
    chosen = ids[torch.tensor(rows, device=ids.device)]
    return chosen[:at_once], chosen[at_once:]
