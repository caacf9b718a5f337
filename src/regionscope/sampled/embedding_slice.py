"""``embedding_slice``: segments and planes between the embeddings of token sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regionscope.errors import InputError
from regionscope.geometry import Segment, Simplex
from regionscope.network.embedded import Embedded, embedded
from regionscope.network.output import Arguments, Output
from regionscope.network.token_ids import read_tokens


@dataclass(frozen=True, eq=False)
class EmbeddingSlice(Embedded):
    """A slice of embedding space, and the model as a function on it. Pass both to any function that takes a classifier.

    slice: a ``Segment`` (two sequences) or ``Simplex`` (three) of inputs (t, d). inputs: the ends (k + 1, t, d).
    """

    slice: Segment | Simplex

    def __repr__(self) -> str:
        return f"EmbeddingSlice({self.slice!r}, at={self.at!r}, position={self.position})"


def embedding_slice(
    model: nn.Module,
    ids_a: Any,
    ids_b: Any,
    ids_c: Any = None,
    *,
    at: str | None = None,
    position: int = -1,
    attention_mask: Any = None,
    output: Output | None = None,
    args: Arguments = (),
) -> EmbeddingSlice:
    """The segment between the embeddings of two token sequences (the triangle of three), and the model on it.

    ids_a, ids_b, ids_c: (t,) whole numbers, with the same number of real tokens.
    at: the module whose output the slice lives in: the token embedding, or the name of a block for a slice between
        hidden states.
    position, output, args: see ``embedded``. attention_mask: (2, t) or (3, t), or one (t,) for all.
    Points between two sequences are not token sequences; the regions on the slice are those of the function that the
    model computes on embeddings. Cost: see ``embedded``.
    """
    ends = [read_tokens(ids)[0] for ids in (ids_a, ids_b, ids_c) if ids is not None]
    shapes = [tuple(end.shape) for end in ends]
    if len(set(shapes)) > 1 or shapes[0][0] != 1:
        lengths = " and ".join(str(shape) for shape in shapes)
        raise InputError(
            f"Expected one sequence at each end, all of one length, got {lengths}. Cut them to one length."
        )
    view = embedded(
        model, torch.cat(ends), at=at, position=position, attention_mask=attention_mask, output=output, args=args
    )
    hull = Segment(*view.inputs) if len(ends) == 2 else Simplex(view.inputs)
    return EmbeddingSlice(view.model, view.inputs, view.position, view.at, hull)
