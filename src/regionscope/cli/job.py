"""The options that several commands share, as one value: the network, the slice and the files to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_type_hints

import torch
import typer
from matplotlib.figure import Figure
from rich.console import Console
from torch import Tensor, nn

from regionscope.checks import check_class_names
from regionscope.cli import load, options, output
from regionscope.cli.command_line import note_file
from regionscope.cli.input_plane import InputPlane
from regionscope.cli.running import work_bar
from regionscope.errors import CallFailed, InputError
from regionscope.geometry import Slice
from regionscope.network import device_and_dtype, trace
from regionscope.network.onnx import OnnxNetwork
from regionscope.network.output import select_output
from regionscope_lab.data import registry
from regionscope_lab.store import RunFolder

if TYPE_CHECKING:
    from regionscope_lab.instruments.measurement_context import MeasurementContext

_PANELS = (
    options.NETWORK,
    options.SLICE,
    options.QUANTITY,
    "Surface",
    "Slices",
    "Points",
    "Neighbourhood",
    options.OUTPUT,
    options.WORK,
)
_PRACTICAL = 3  # dimensions of a slice; the regions multiply with each further one
_Result = TypeVar("_Result")


def with_job(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its first parameter, in the order of the panels of its help."""
    hints = get_type_hints(command, include_extras=True)
    first, *own = inspect.signature(command).parameters.values()
    job = hints[first.name]
    shared = list(inspect.signature(job).parameters.values())
    hints |= get_type_hints(job, include_extras=True)

    @wraps(command)
    def run(**values: Any) -> None:
        command(job(**{each.name: values.pop(each.name) for each in shared}), **values)

    every = [each.replace(kind=each.KEYWORD_ONLY, annotation=hints[each.name]) for each in (*shared, *own)]
    every.sort(key=lambda each: _PANELS.index(each.annotation.__metadata__[0].rich_help_panel))
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run


@dataclass(frozen=True, kw_only=True)
class NetworkJob:
    """A network, and where the results go."""

    model: options.ModelOption = None
    weights: options.WeightsOption = None
    run: options.RunOption = None
    step: options.StepOption = None
    output_name: options.OutputOption = None
    input_shape: options.ShapeOption = None
    json_file: options.JsonOption = None
    plot_file: options.PlotOption = None
    device: options.DeviceOption = "cpu"
    data_root: options.DataRootOption = None

    @property
    def quiet(self) -> bool:
        """Whether stdout takes the JSON and nothing else."""
        return self.json_file == "-"

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The value of --input-shape."""
        return options.read_shape(self.input_shape)

    @cached_property
    def folder(self) -> RunFolder | None:
        """The run of --run."""
        return None if self.run is None else RunFolder.open(load.find_run(self.run))

    @cached_property
    def context(self) -> MeasurementContext | None:
        """The data that the run of --run was trained on, and the seed of its measures."""
        if self.folder is None:
            return None
        from regionscope_lab.instruments.measurement_context import MeasurementContext, measure_seed

        return MeasurementContext(self.folder.split(self.data_root), measure_seed(self.folder.experiment))

    def network(self) -> nn.Module:
        """The network of --run, or of --model and --weights, on the device, with its chosen output."""
        chosen = options.read_output(self.output_name)
        if self.folder is not None:
            if self.model is not None or self.weights is not None:
                raise InputError(
                    "Expected --run alone, got --model or --weights too. A run has its own; leave them out."
                )
            stored = self.folder.checkpoint(self.step)
            network = self.folder.model_at(stored)
            note_file(stored.path)
        else:
            network = self._built(chosen)
        device_and_dtype(network)  # says that weights have no values, where torch would raise
        there = network.to(options.read_device(self.device))
        found: nn.Module = select_output(there, None if isinstance(network, OnnxNetwork) else chosen)
        return found

    def _built(self, chosen: str | int | None) -> nn.Module:
        """The network of --model, with the weights of --weights where a file is given.

        chosen: the output of an ONNX file that has several.
        """
        if self.model is None:
            raise InputError("Expected --model WHERE:NAME or --run DIR, got neither. Pass one of them.")
        if self.step is not None:
            raise InputError("Expected --run DIR with --step, got --step alone. Leave --step out.")
        network = load.load_model(self.model, output=chosen)
        if self.weights is not None:
            load.load_weights(network, self.weights)
        return network

    def names_or_known(self, names: Sequence[str] | None, classes: int) -> Sequence[str] | None:
        """The names of --class-names, one for each class; without it, those that the data of --run have, if any."""
        if names is not None:
            return check_class_names(names, classes)
        known = () if self.folder is None else registry.class_names(self.folder.experiment.data.name)
        return known if len(known) == classes else None

    def inputs(self, data: Path | None, *, least: int = 1) -> Tensor:
        """The rows of the --data file as they are, or the inputs that the run of --run was trained on."""
        if (data is None) == (self.context is None):
            found = "neither" if data is None else "both"
            raise InputError(
                f"Expected --data FILE or --run DIR, which has its own data, got {found}. Pass one of them."
            )
        if data is not None:
            return torch.from_numpy(load.load_points(data, input_shape=self.shape, least=least))
        assert self.context is not None
        return self.context.split.train.inputs

    @contextmanager
    def explaining(self, network: nn.Module, inputs: Tensor) -> Iterator[None]:
        """If the network fails on the inputs, say in the error what is wrong with their shape, if that is known."""
        try:
            yield
        except CallFailed as error:
            sentence = load.wrong_shape(network, tuple(inputs.shape[1:]))
            if not sentence:
                raise
            raise InputError(sentence) from error

    def check_targets(self, dim: int) -> None:
        """Raise ``InputError`` if a file cannot be written. dim: dimension of the slice that the picture shows."""
        output.check_json(self.json_file)
        if self.plot_file is not None:
            output.check_plot(self.plot_file, dim)

    def write(self, numbers: Mapping[str, Any]) -> None:
        """Write the JSON, and print from which run the weights are, or that the code has created them."""
        said = ""
        if self.folder is not None:
            step = self.folder.checkpoint(self.step).step
            numbers = {**numbers, "run": {"folder": str(self.folder.path), "step": step}}
            said = f"The weights are those of step {step} of the run {self.folder.path}."
        elif self.model is not None and self.weights is None and not load.is_onnx(self.model):
            said = f"The weights are those that {self.model} creates, since --weights is not given."
        if said and not self.quiet:
            Console(soft_wrap=True).print(said, style="dim", markup=False, highlight=False)
        if self.json_file is not None:
            output.write_result(numbers, self.json_file)

    def draw(self, figure: Callable[..., Figure], *what: Any, **chosen: Any) -> None:
        """Write the figure of --plot, if asked for. Inputs have the names of the columns of the data of --run."""
        if self.plot_file is None:
            return
        drawn = figure(*what, **chosen)
        columns = () if self.folder is None else registry.column_names(self.folder.experiment.data.name)
        names = {f"input {i}": name for i, name in enumerate(columns) if name}
        for axis in (axis for ax in drawn.axes for axis in (ax.xaxis, ax.yaxis)):
            label = axis.get_label_text()
            axis.set_label_text(names.get(label, label))
        output.save_plot(drawn, self.plot_file)


@dataclass(frozen=True, kw_only=True)
class SliceJob(NetworkJob):
    """A network on one slice, and the limits of the exact partition."""

    plot_file: options.SlicePlotOption = None
    points: options.PointsOption = None
    box: options.BoxOption = None
    memory: options.MemoryOption = None
    max_regions: options.LimitOption = None
    progress: options.ProgressOption = None
    slice_options: ClassVar[str] = "--points FILE and --box LO HI"

    def plane(self) -> InputPlane | None:
        """The plane of --vary."""
        return None

    def slice(self, network: nn.Module) -> Slice:
        """The slice that --points, --box or --vary names; without these, that of the measures of --run."""
        plane = self.plane()
        named = (self.points is not None) + (self.box is not None) + (plane is not None)
        if self.context is not None and not named:
            return self.context.slice({"where": "auto", "box": None, "margin": None})
        if named != 1:
            raise InputError(f"Expected one of {self.slice_options}, got none or several. Pass one of them.")
        if self.points is not None:
            return load.hull(load.load_points(self.points, input_shape=self.shape))
        shape = self.shape or (self.context.split.input_shape if self.context else load.infer_input_shape(network))
        if self.box is not None:
            return load.box(*self.box, shape)
        assert plane is not None
        return plane.box(shape)

    def start(self, *, dim: int | None = None, what: str = "") -> tuple[nn.Module, Slice]:
        """The network and the slice, which must have dimension ``dim`` for ``what``; checks the files to write."""
        network = self.network()
        slice = self.slice(network)
        self.check_targets(slice.dim)
        if dim is not None and slice.dim != dim:
            way = "--points with 2 rows" if dim == 1 else "--points with 3 rows, or --box for a network with 2 inputs"
            raise InputError(f"Expected a slice of dimension {dim} for {what}, got dimension {slice.dim}. Pass {way}.")
        if slice.dim > _PRACTICAL:
            plane = "--vary I J, --range and --at" if "--vary" in self.slice_options else "--points with 3 rows"
            said = f"A slice of {slice.dim} dimensions is practical for tiny networks only"
            if self.max_regions is None:
                said += f". The limit is {options.MANY_REGIONS:,} regions; pass --max-regions N to raise it, or use "
            else:
                said += ", and can take hours. Use "
            typer.echo(f"{said}{plane} for a plane.", err=True)
        return network, slice

    def class_names(self, text: str | None, network: nn.Module, slice: Slice) -> Sequence[str] | None:
        """The names of --class-names, one for each class of the network; without it, those in the data of --run."""
        classes = max(2, trace(network, slice.input_shape).n_outputs)
        return self.names_or_known(options.read_class_names(text), classes)

    def cut(self, instrument: Callable[..., _Result], network: nn.Module, slice: Slice, **chosen: Any) -> _Result:
        """The result of an exact instrument on the slice."""
        memory, limit = options.read_memory(self.memory), self.max_regions
        if limit is None and slice.dim > _PRACTICAL:
            limit = options.MANY_REGIONS
        with work_bar("Cutting", self.progress) as bar:
            return instrument(network, slice, memory=memory, max_regions=limit, progress=bar, **chosen)

    def report(self, found: Any, rows: Mapping[str, float], numbers: Mapping[str, Any], *, more: str = "") -> None:
        """The table and the JSON of a result that has a slice and statistics."""
        slice, stats = found.slice, found.stats
        if not self.quiet:
            output.print_counts(f"{slice}{more}, {stats.seconds:.3g} s", rows)
        about = {"dim": slice.dim, "input_shape": list(slice.input_shape), "size": slice.size}
        self.write({**numbers, "slice": about, "stats": asdict(stats)})
