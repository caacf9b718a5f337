"""Whether a forward gives the same program each time that it is read.

Whatever a forward computes without its input is a constant of the program, and stays what it was at the reading:
``random.random()``, ``np.random.rand()``, ``time.time()`` or a count of calls. Such a forward is no fixed function.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regionscope.errors import UntraceableModel
from regionscope.network.call.determinism import python_random_states, same_numbers, two_inputs
from regionscope.network.call.precision import full_precision
from regionscope.network.program import Program

_MORE = 8  # readings where random numbers were drawn in Python: a branch that they choose may be taken twice in a row


def read_until_sure(read: Callable[[], Program], name: str) -> Program:
    """The program that ``read`` gives, if it gives the same one again.

    name: how the error calls the network. Not found is what changes more slowly than two readings follow each other, or
    by less than rounding. Cost: a second reading, and two forward passes of two rows.
    """
    before = python_random_states()
    program = read()
    expected = _values(program)  # before the next reading, which may write to buffers that are constants here
    for _ in range(1 if python_random_states() == before else _MORE):
        try:
            program = read()
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # it was read a moment ago; now it meets what that left in the module
            raise UntraceableModel(_sentence(name)) from error
        if not same_numbers(expected, _values(program)):
            raise UntraceableModel(_sentence(name))
    return program


def _values(program: Program) -> list[Tensor]:
    """All values that are live before a nonlinearity, and the outputs, for two inputs."""
    with torch.no_grad(), full_precision():
        values = program.begin(two_inputs(program.input_shape, program.dtype, program.device))
        seen = list(values.values())
        for kink in program.kinks:
            values = kink.advance(values)
            seen += values.values()
        return seen


def _sentence(name: str) -> str:
    return (
        f"Expected a forward that computes the same each time, got one that changes from call to call: that of {name} "
        "uses random numbers, the time or its own earlier calls. Make it a fixed function in eval mode."
    )
