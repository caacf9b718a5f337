"""From recorded steps to a program: drop what is unused, merge BatchNorms, cut at the folds, plan the memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from regionscope.network.operations import Affine, Fold
from regionscope.network.program import Instruction, Kink, Program
from regionscope.network.record import Data, RecordedStep, Recorder


def assemble(recorder: Recorder, source: Data, output: Data) -> Program:
    """The program that computes ``output`` from ``source`` by the recorded steps."""
    steps = _needed(_merged(_needed(recorder.steps, output), output), output)
    plan = _Plan(steps, source, output, recorder.dtype.itemsize)
    starts = [i for i, step in enumerate(steps) if isinstance(step.operation, Fold)]
    kinks = []
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=False):
        step, instructions, row_bytes = steps[start], *plan.stretch(start, end)
        assert isinstance(step.operation, Fold)
        fold = step.operation
        kinks.append(Kink(step.label, fold.kind, fold.n_units, row_bytes, fold.folds, instructions))
    instructions, row_bytes = plan.stretch(0, starts[0] if starts else len(steps))
    return Program(
        input_shape=source.shape,
        output_shape=output.shape,
        dtype=recorder.dtype,
        device=recorder.device,
        kinks=tuple(kinks),
        row_bytes=max([row_bytes, *(kink.row_bytes for kink in kinks)]),
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
        at = producer.get(step.inputs[0])
        before = merged[at].operation if at is not None else None
        channel_map = step.operation.channel_map if isinstance(step.operation, Affine) else None
        if (
            at is not None
            and isinstance(before, Affine)
            and before.followed_by is not None
            and channel_map is not None
            and readers[step.inputs[0]] == 1
        ):
            merged[at] = replace(merged[at], operation=before.followed_by(channel_map), output=step.output)
            producer[step.output] = at
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
