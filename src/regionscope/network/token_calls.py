"""Calling a sequence model on token ids, and watching where it looks them up."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import is_integer
from regionscope.errors import InputError
from regionscope.network.call.forward import call_model
from regionscope.network.output import Arguments, for_each_input

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
    found, results = _embeddings_of(model, ids, args)
    if len(found) != 1 or bool((ids == ids[0]).all()):
        # Positions are looked up too, by ids of their own or by the number of tokens. They do not move with the tokens.
        found, _ = _embeddings_of(model, torch.cat([ids[:1], ids[:1].roll(1, 1)]), args)
        if len(found) > 1:
            found = {name: rows for name, rows in found.items() if torch.equal(rows[:1].roll(1, 1), rows[1:])}
    names = list(found)
    if len(names) != 1:
        shown = ", ".join(names) or "none"
        raise InputError(f"Expected one nn.Embedding that takes the token ids, got {shown}. Name the module with at=.")
    return names[0], results


def _embeddings_of(model: nn.Module, ids: Tensor, args: Arguments) -> tuple[dict[str, Tensor], Any]:
    """What each ``nn.Embedding`` that takes these ids in a forward pass returns, by name, and the pass's output."""
    found: dict[str, Tensor] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):

            def look(module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
                same = bool(inputs) and isinstance(inputs[0], Tensor) and torch.equal(inputs[0], ids)
                if same:
                    found.setdefault(name, output)

            handles.append(module.register_forward_hook(look))
    try:
        results = call_on_ids(model, ids, args)
    finally:
        for handle in handles:
            handle.remove()
    return found, results


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
        rows += [int((kind == each).nonzero()[0]) for each in (*left[:2], *left[2:][-2:])]
    at_once = max(_FIRST, _TOKENS // ids.shape[1])
    chosen = ids[torch.tensor(rows, device=ids.device)]
    return chosen[:at_once], chosen[at_once:]
