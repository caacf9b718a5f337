"""Rules for recurrent layers of ReLU, unrolled over the length of their sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regionscope.network.record import Call, Data, rule
from regionscope.network.rules.activations import activated
from regionscope.network.rules.arithmetic import Operand, sum_of
from regionscope.network.rules.indexing import cat, select, stack
from regionscope.network.rules.layers import linear


@rule("rnn_relu_cell", data=("x", "h"), when='nn.RNNCell(nonlinearity="relu")')
def _cell(
    call: Call, x: Operand, h: Operand, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Data:  # fmt: skip
    """relu(w_ih @ x + b_ih + w_hh @ h + b_hh)"""
    from_x, from_h = (
        linear(call, value, weight, bias) if isinstance(value, Data) else F.linear(call.constant(value), weight, bias)
        for value, weight, bias in ((x, w_ih, b_ih), (h, w_hh, b_hh))
    )
    total: Data = sum_of(call, from_x, from_h, 1.0)
    return activated(call, total, "relu")


@rule("rnn_relu", data=("x", "h"), any_axis=True, when='nn.RNN(nonlinearity="relu"), unrolled')
def _rnn(
    call: Call, x: Data, h: Operand, weights: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Data, Data]:  # fmt: skip
    if x.ndim != 3:
        call.refuse_shapes("it needs 3 dimensions with the batch", x)
    if x.axis != (0 if batch_first else 1):
        call.refuse_row_mixing()
    time, n_directions = int(batch_first), 2 if bidirectional else 1
    count = 4 if has_biases else 2
    states, last = [select(call, x, time, t) for t in range(x.seen_shape[time])], list[Data]()
    for layer in range(num_layers):
        directions = []
        for i in range(layer * n_directions, (layer + 1) * n_directions):
            order = [*reversed(states)] if i % n_directions else states
            made = _run(call, order, _of_layer(call, h, i), weights[i * count : (i + 1) * count])
            last.append(made[-1])
            directions.append([*reversed(made)] if i % n_directions else made)
        states = [cat(call, parts, 1) for parts in zip(*directions, strict=True)]
    return stack(call, states, time), stack(call, last, 0)


def _run(call: Call, inputs: Sequence[Data], h: Operand, weights: Sequence[Tensor]) -> list[Data]:
    states = []
    for x in inputs:
        h = _cell(call, x, h, *weights)
        states.append(h)
    return states


def _of_layer(call: Call, h: Operand, i: int) -> Any:
    """The first state (v, hidden) of layer and direction i, of (layers, v, hidden)."""
    return select(call, h, 0, i) if isinstance(h, Data) else h[i]  # type: ignore[index]
