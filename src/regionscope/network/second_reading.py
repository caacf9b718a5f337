"""Whether a forward gives the same program each time that it is read.

Whatever a forward computes without its input is a constant of the program, and stays what it was at the reading:
``random.random()``, ``np.random.rand()``, ``time.time()`` or a count of calls. Such a forward is no fixed function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from regionscope.errors import UntraceableModel
from regionscope.network.call.determinism import python_random_states, same_numbers, two_inputs
from regionscope.network.call.precision import full_precision
from regionscope.network.operations import Affine, Fixed, Piecewise
from regionscope.network.private_copy import memory_key
from regionscope.network.program import Fold, Instruction, Program
from regionscope.network.record import Data, RecordedStep, Recorder

_MOST_READINGS = 8  # where a reading changes the state: a branch that depends on random numbers may be rare


Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ForwardReading:
    """What one reading of a forward has recorded."""

    recorder: Recorder
    input: Data
    output: Data
    note: str = ""

    def program(self) -> Program:
        """The program of these steps."""
        return replace(assemble(self.recorder, self.input, self.output), note=self.note)


def read_repeatedly(read: Callable[[], ForwardReading], name: str, parts: Sequence[nn.Module]) -> Program:
    """The program that ``read`` gives, if it gives the same one again.

    name: name of the network in errors. parts: the modules that are read. A change that is slower than the readings
    follow each other, or smaller than rounding, is not detected. Cost: a second reading. Where a reading changes
    Python's random state, a number that a module holds or a buffer, seven more. Where the steps of two readings differ,
    or constants were written to, two more readings, and two forward passes of two rows.
    """
    before = _state(parts)
    first = read()
    state = _state(parts)
    versions = [_version(constant) for constant in _constants(first)]
    for _ in range(_MOST_READINGS):
        same = _same_steps(first, versions, _again(read, name))
        last, state = state, _state(parts)
        if not same:
            return _same_outputs_program(read, name, 1 if state == before else _MOST_READINGS)
        if state == last:
            break
    return first.program()


def _state(parts: Sequence[nn.Module]) -> tuple[object, ...]:
    """What a forward may change and use in its next call: random states, numbers that modules hold, buffers."""
    numbers = [number for part in parts for number in vars(part).values() if isinstance(number, int | float)]
    versions = [_version(buffer) for part in parts for buffer in part._buffers.values() if buffer is not None]
    return python_random_states(), numbers, versions


def _same_outputs_program(read: Callable[[], ForwardReading], name: str, times: int) -> Program:
    """The program, if it computes the same values as that of another reading."""
    program = _again(lambda: read().program(), name)
    expected = _values(program)  # before the next reading, which may write to buffers that are constants here
    for _ in range(times):
        program = _again(lambda: read().program(), name)
        if not same_numbers(expected, _values(program)):
            raise UntraceableModel(_changes_message(name))
    return program


def _again(read: Callable[[], Result], name: str) -> Result:
    try:
        return read()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # it was read a moment ago; now it meets what that left in the module
        raise UntraceableModel(_changes_message(name)) from error


def _same_steps(first: ForwardReading, versions: list[int | None], second: ForwardReading) -> bool:
    """Whether both recorded the same operations with equal constants, none of which was written to in between."""
    steps, again = first.recorder.steps, second.recorder.steps
    made = {second.input, *(step.output for step in again)}
    if not made.issuperset(x for step in again for x in step.inputs):  # a value that the first one has left behind
        return False
    if [_description(step) for step in steps] != [_description(step) for step in again]:
        return False
    pairs = zip(_constants(first), _constants(second), strict=True)
    return first.output.name == second.output.name and all(
        version is not None
        and _version(a) == version
        and (memory_key(a) == memory_key(b) or (a.dtype == b.dtype and torch.equal(a, b)))
        for (a, b), version in zip(pairs, versions, strict=True)
    )


def _constants(reading: ForwardReading) -> Iterator[Tensor]:
    return (constant for step in reading.recorder.steps for constant in step.operation.constants)


def _version(tensor: Tensor) -> int | None:
    """How often the tensor was written to; torch does not count it for tensors of inference mode."""
    return None if tensor.is_inference() else tensor._version


def _description(step: RecordedStep) -> tuple[object, ...]:
    operation = step.operation
    folds: tuple[object, ...] = ()
    if isinstance(operation, Piecewise):
        folds = (operation.kind, operation.n_units, named(operation.compare), operation.pieces)
    names = (*(x.name for x in step.inputs), step.output.name, step.label, step.output.axis)
    return (*names, named(operation.function), named(operation.in_place), len(operation.constants), *folds)


def named(function: object) -> object:
    """Equal for functions that compute the same; where it cannot be told, different."""
    if isinstance(function, Fixed):
        return (named(function.function), function.args, function.kwargs)
    if isinstance(function, partial):
        keywords = {name: named(value) if callable(value) else value for name, value in function.keywords.items()}
        return (named(function.func), function.args, keywords)
    return function


def _values(program: Program) -> list[Tensor]:
    """All values that are live before a fold, and the outputs, for two inputs."""
    with torch.no_grad(), full_precision():
        values = program.begin(two_inputs(program.input_shape, program.dtype, program.device))
        seen = list(values.values())
        for fold in program.folds:
            values = fold.advance(values)
            seen += values.values()
        return seen


def _changes_message(name: str) -> str:
    return (
        f"Expected a forward that computes the same each time, got one that changes from call to call: that of {name} "
        "uses random numbers, the time or its own earlier calls. Make it a fixed function in eval mode."
    )


# From recorded steps to a program: drop what is unused, merge BatchNorms, cut at the folds, plan the memory.


def assemble(recorder: Recorder, source: Data, output: Data) -> Program:
    """The program that computes ``output`` from ``source`` by the recorded steps."""
    steps = _needed(_merged(_needed(recorder.steps, output), output), output)
    plan = _Plan(steps, source, output, recorder.dtype.itemsize)
    starts = [i for i, step in enumerate(steps) if isinstance(step.operation, Piecewise)]
    folds = []
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=False):
        step, instructions, row_bytes = steps[start], *plan.stretch(start, end)
        operation = step.operation
        assert isinstance(operation, Piecewise)
        what = operation.kind, operation.n_units, row_bytes, operation.compare, operation.pieces
        folds.append(Fold(step.label, *what, instructions))
    instructions, row_bytes = plan.stretch(0, starts[0] if starts else len(steps))
    return Program(
        input_shape=source.shape,
        output_shape=output.shape,
        dtype=recorder.dtype,
        device=recorder.device,
        folds=tuple(folds),
        row_bytes=max([row_bytes, *(fold.row_bytes for fold in folds)]),
        input_name=source.name,
        output_name=output.name,
        instructions=instructions,
    )


def _needed(steps: list[RecordedStep], output: Data) -> list[RecordedStep]:
    """The steps on which ``output`` depends."""
    wanted, kept = {output}, []
    for step in reversed(steps):
        if step.output in wanted:
            wanted.update(step.inputs)
            kept.append(step)
    return kept[::-1]


def _merged(steps: list[RecordedStep], output: Data) -> list[RecordedStep]:
    """The steps with each BatchNorm merged into the layer before it, if nothing else reads the output of that layer."""
    readers: dict[Data, int] = {output: 1}
    for step in steps:
        for x in step.inputs:
            readers[x] = readers.get(x, 0) + 1
    producer: dict[Data, int] = {}
    merged: list[RecordedStep] = []
    for step in steps:
        previous = producer.get(step.inputs[0])
        before = merged[previous].operation if previous is not None else None
        channel_map = step.operation.channel_map if isinstance(step.operation, Affine) else None
        if (
            previous is not None
            and isinstance(before, Affine)
            and before.followed_by is not None
            and channel_map is not None
            and readers[step.inputs[0]] == 1
        ):
            merged[previous] = replace(merged[previous], operation=before.followed_by(channel_map), output=step.output)
            producer[step.output] = previous
            continue
        producer[step.output] = len(merged)
        merged.append(step)
    return merged


class _Plan:
    """When each value is live, which values share memory, and so which may be overwritten."""

    def __init__(self, steps: list[RecordedStep], source: Data, output: Data, itemsize: int) -> None:
        self.steps = steps
        self.itemsize = itemsize
        self.source = source
        self.last_read = {output: len(steps)}
        for i, step in enumerate(steps):
            for x in step.inputs:
                self.last_read[x] = max(i, self.last_read.get(x, 0))
        self.made_at = {source: -1} | {step.output: i for i, step in enumerate(steps)}
        self.live = self._lives()
        self.memory: dict[Data, Data] = {source: source}
        self.writable = {source: False}
        for step in steps:
            shares = step.operation.memory != "fresh"
            self.memory[step.output] = self.memory[step.inputs[0]] if shares else step.output
            self.writable[step.output] = step.operation.memory != "shared" and (
                self.writable[step.inputs[0]] if shares else True
            )

    def stretch(self, start: int, end: int) -> tuple[tuple[Instruction, ...], int]:
        """The instructions of steps start..end-1, and the peak number of bytes a row needs during them."""
        peak = self._bytes(self.live[start])
        instructions = []
        for i in range(start, end):
            step = self.steps[i]
            operation = step.operation
            peak = max(peak, self._bytes({*self.live[i], step.output}) + operation.scratch)
            instructions.append(
                Instruction(
                    function=operation.function,
                    in_place=operation.in_place,
                    reads=tuple(x.name for x in step.inputs),
                    constants=operation.constants,
                    writes=step.output.name,
                    frees=tuple(dict.fromkeys(x.name for x in step.inputs if self.last_read[x] == i)),
                    overwrite=self._overwrite(i, start),
                    rounding=operation.rounding,
                    suits=operation.suits,
                )
            )
        return tuple(instructions), max(peak, self._bytes(self.live[end]))

    def _lives(self) -> list[tuple[Data, ...]]:
        """For each step, and for the end, the values made before it that it or a later one reads.

        Cost: the number of values that are live, step by step, so that a deep network costs no more for each layer.
        """
        made: dict[int, list[Data]] = {}
        for x in self.last_read:
            made.setdefault(self.made_at[x] + 1, []).append(x)
        lives: list[tuple[Data, ...]] = []
        for i in range(len(self.steps) + 1):
            still = [x for x in lives[-1] if self.last_read[x] >= i] if lives else []
            lives.append((*still, *(x for x in made.get(i, []) if self.last_read[x] >= i)))
        return lives

    def _bytes(self, values: Iterable[Data]) -> int:
        return sum(x.numel for x in values) * self.itemsize

    def _overwrite(self, i: int, start: int) -> str:
        target = self.steps[i].inputs[0]
        base = self.memory[target]
        others = {x for x in self.live[i + 1] if self.memory[x] is base} | {
            x for x in self.steps[i].inputs[1:] if self.memory[x] is base
        }
        if not self.writable[target] or others:
            return "never"
        return "always" if self.made_at[base] >= start else "given"
