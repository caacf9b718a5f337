"""The module that runs an ONNX graph node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regionscope.checks import unknown_name
from regionscope.errors import CallFailed
from regionscope.network.onnx.table import Apply


class _Planned(NamedTuple):
    """A node: its submodule, the values it reads (and whether each is a constant) and writes, and those dead after."""

    place: str
    reads: tuple[tuple[str, bool], ...]
    writes: tuple[str, ...]
    dead: tuple[str, ...] = ()


class OnnxNetwork(nn.Module):
    """A network read from an ONNX file: (v, *input_shape) to (v, *output_shape), for any number of rows v.

    Attributes:
        input_shape: shape of one input, without the batch dimension.
        path, external, digest: the file, the files beside it with its external data, and the SHA-256 of its unpacked
            content and of its external data.
        batch_axis: whether the file's input has a batch dimension; without one, ``input_shape`` is the whole input.
        opset: version of the operators. fixed: further inputs, which have these values.
    """

    def __init__(
        self, input_shape: tuple[int, ...], *, path: Path, external: tuple[Path, ...], digest: str, batch_axis: bool,
        opset: int, input_name: str, output_name: str, fixed: dict[str, Tensor],
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_shape = input_shape
        self.path, self.external, self.digest = path, external, digest
        self.batch_axis, self.opset = batch_axis, opset
        self.input_name, self.output_name = input_name, output_name
        self.fixed = fixed
        self.row_by_row = False
        self._plan: list[_Planned] = []
        self._stored: dict[str, str] = {}
        self._repeated: dict[str, int] = {}

    def add(self, name: str, module: nn.Module, reads: tuple[str, ...], writes: tuple[str, ...]) -> str:
        """Append a node; ``reads`` and ``writes`` are names of values. Returns the name of the submodule."""
        base = place = name.replace(".", "_").replace("/", "_").replace(":", "_").strip("_") or "node"
        while hasattr(self, place):
            self._repeated[base] = self._repeated.get(base, 1) + 1
            place = f"{base}_{self._repeated[base]}"
        self.add_module(place, module)
        self._plan.append(_Planned(place, tuple((read, read in self._stored) for read in reads), writes))
        return place

    def store(self, name: str, value: Tensor) -> None:
        """Keep a constant that nodes read."""
        if name not in self._stored:
            self._stored[name] = f"constant_{len(self._stored)}"
            self.register_buffer(self._stored[name], value)

    def close(self) -> None:
        """Record after which node each value is no longer needed."""
        last: dict[str, int] = {}
        for i, planned in enumerate(self._plan):
            last.update({name: i for name, stored in planned.reads if not stored})
        last.pop(self.output_name, None)
        dead: dict[int, list[str]] = {}
        for name, i in last.items():
            dead.setdefault(i, []).append(name)
        self._plan = [step._replace(dead=tuple(dead.get(i, ()))) for i, step in enumerate(self._plan)]

    def up_to(self, name: str) -> OnnxNetwork:
        """The network that returns the value ``name``; it shares its layers with this one."""
        known = [write for step in self._plan for write in step.writes if write]
        if name not in known:
            raise unknown_name("module to name a value of the file that depends on the input", name, known, most=20)
        needed, plan = {name}, list[_Planned]()
        for step in reversed(self._plan):
            if needed.intersection(step.writes):
                needed.update(read for read, stored in step.reads if not stored)
                plan.append(step._replace(dead=()))
        shorter: OnnxNetwork = object.__new__(OnnxNetwork)
        shorter.__dict__.update(self.__dict__, output_name=name, _plan=plan[::-1])
        shorter.close()
        return shorter

    def set_literal(self, on: bool) -> None:
        """Whether nodes take dimension 0 as the file does: always right for one row, and the default. Otherwise it is
        the batch, of any size, even where the file writes 1 for it.
        """
        for module in self.children():
            if isinstance(module, Apply) and "literal" in module.options:
                module.options["literal"] = on

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != self.input_shape:
            got, wanted = (", ".join(map(str, shape)) for shape in (x.shape[1:], self.input_shape))
            raise CallFailed(
                f"Expected inputs of shape (v, {wanted}) for {self.path.name}, got (v, {got}). Reshape the inputs."
            )
        if not self.row_by_row:
            return self._run(x)
        if len(x) == 0:
            return self.run_row(x.new_zeros((1, *self.input_shape)))[:0]
        return torch.cat([self.run_row(row) for row in x.split(1)]) if len(x) > 1 else self.run_row(x)

    def run_row(self, x: Tensor) -> Tensor:
        """The output (1, *output_shape) for one row, even if the graph has summed over the batch dimension."""
        output = self._run(x)
        return output if output.shape[:1] == (1,) else output[None]

    def _run(self, x: Tensor) -> Tensor:
        values: dict[str, Any] = {self.input_name: x}
        for place, reads, writes, dead in self._plan:
            given = [getattr(self, self._stored[name]) if stored else values[name] for name, stored in reads]
            made = getattr(self, place)(*given)
            values.update(zip(writes, made if isinstance(made, tuple | list) else (made,), strict=False))
            for name in dead:
                values.pop(name, None)
        result: Tensor = values[self.output_name]
        return result
