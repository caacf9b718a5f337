"""The options that several commands share, as one value: the network, the slice and the files to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_type_hints

import torch
import typer
from rich.console import Console
from torch import Tensor, nn

from regionscope.checks import check_class_names
from regionscope.cli import load, options, output
from regionscope.cli.running import work_bar
from regionscope.cli.slice_file import SliceFile, read_plane, read_slice_file
from regionscope.errors import CallFailed, InputError
from regionscope.geometry import Slice
from regionscope.network import device_and_dtype, trace
from regionscope.network.onnx import OnnxNetwork
from regionscope.network.output import select_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
_SLICES = "--points FILE, --plane I=LO:HI,J=LO:HI,K=VALUE,..., --box LO HI and --slice FILE.toml"
_PRACTICAL = 3  # dimensions of a slice; the regions multiply with each further one
_Result = TypeVar("_Result")


def with_job(
    command: Callable[..., None], *, job: Any = None, without: Collection[str] = ()
) -> Callable[..., None]:  # fmt: skip
    """The command with an option for each field of its first parameter, in the order of the panels of its help.

    job: class of the first parameter in place of the annotated one. without: parameters that keep their defaults.
    """
    hints = get_type_hints(command, include_extras=True)
    first, *rest = (
        parameter for parameter in inspect.signature(command).parameters.values() if parameter.name not in without
    )
    job = job or hints[first.name]
    shared = [parameter for parameter in inspect.signature(job).parameters.values() if parameter.name not in without]
    hints |= get_type_hints(job, include_extras=True)

    @wraps(command)
    def run(**values: Any) -> None:
        command(job(**{parameter.name: values.pop(parameter.name) for parameter in shared}), **values)

    every = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in (*shared, *rest)
    ]
    panels = (None, *_PANELS)  # arguments come first, and have no panel
    every.sort(key=lambda parameter: panels.index(parameter.annotation.__metadata__[0].rich_help_panel))
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return run


@dataclass(frozen=True, kw_only=True)
class NetworkJob:
    """A network, and where the results go."""

    model: options.ModelOption = None
    weights: options.WeightsOption = None
    head: options.HeadOption = None
    input_shape: options.ShapeOption = None
    files: options.OutputOption = None
    as_json: options.JsonOption = False
    device: options.DeviceOption = "cpu"
    endings: ClassVar[tuple[str, ...]] = (*output.PICTURES, *output.JSON)

    @property
    def pictures(self) -> list[Path]:
        """The files of --output that are figures."""
        return self.named(output.PICTURES)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The value of --input-shape."""
        return options.read_shape(self.input_shape)

    @property
    def n_classes(self) -> int | None:
        """Number of classes of the data, if it is known before the network runs."""
        return None

    @property
    def stored_seed(self) -> int | None:
        """The seed of measures that are stored with the network."""
        return None

    @property
    def domain(self) -> tuple[float, float]:
        """Smallest and largest entry of random inputs."""
        return 0.0, 1.0

    @property
    def input_names(self) -> Sequence[str]:
        """A name for each input, if the data have names."""
        return ()

    def network(self) -> nn.Module:
        """The network on the device, with its chosen output."""
        chosen = options.read_head(self.head)
        network = self.built(chosen)
        device_and_dtype(network)  # says that weights have no values, where torch would raise
        moved = network.to(options.read_device(self.device))
        selected: nn.Module = select_output(moved, None if isinstance(network, OnnxNetwork) else chosen)
        return selected

    def built(self, chosen: str | int | None) -> nn.Module:
        """The network of --model, with the weights of --weights where a file is given.

        chosen: the output of an ONNX file that has several.
        """
        if self.model is None:
            raise InputError("Expected --model WHERE:NAME, got none. Pass the function that builds the network.")
        network = load.load_model(self.model, output=chosen)
        if self.weights is not None:
            load.load_weights(network, self.weights)
        return network

    def source(self) -> tuple[dict[str, Any], str]:
        """Where the weights are from, for the JSON and as a sentence, which is empty for weights from a file."""
        if self.model is None or self.weights is not None or load.is_onnx(self.model):
            return {}, ""
        return {}, f"The weights are those that {self.model} creates, since --weights is not given."

    def names_or_known(self, names: Sequence[str] | None, classes: int) -> Sequence[str] | None:
        """The names of --class-names, one for each class; without it, those that the data have, if any."""
        return None if names is None else check_class_names(names, classes)

    def shape_of(self, network: nn.Module) -> tuple[int, ...]:
        """The shape of one input."""
        return self.shape or load.infer_input_shape(network)

    def inputs(self, data: Path | None, *, least: int = 1) -> Tensor:
        """The rows of the --data file as they are."""
        if data is None:
            raise InputError("Expected --data FILE, got none. Pass a file of inputs.")
        return torch.from_numpy(load.load_points(data, input_shape=self.shape, least=least))

    def stored_points(self, seed: int) -> dict[str, Tensor]:
        """Sets of points by name at which to measure in place of files; none without stored data."""
        return {}

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
        output.check_files(self.files or (), self.endings, dim=dim)

    def named(self, endings: Sequence[str]) -> list[Path]:
        """The files of --output with one of these endings."""
        return output.with_ending(self.files or (), endings)

    def write(self, numbers: Mapping[str, Any]) -> None:
        """Write and print the JSON, or print where the weights are from."""
        about, said = self.source()
        if said and not self.as_json:
            Console(soft_wrap=True).print(said, style="dim", markup=False, highlight=False)
        output.write_result({**numbers, **about}, self.files or (), printed=self.as_json)

    def draw(self, figure: str | Callable[..., Figure], *what: Any, **chosen: Any) -> None:
        """Write the figure, if asked for. Inputs have the names that the data give them.

        figure: a function, or the name of one of ``regionscope.plot``, which is imported only here: matplotlib takes as
        long to import as many commands take.
        """
        if not self.pictures:
            return
        draw = getattr(import_module("regionscope.plot"), figure) if isinstance(figure, str) else figure
        drawn = draw(*what, **chosen)
        self.label(drawn)
        names = {f"input {i}": name for i, name in enumerate(self.input_names) if name}
        for axis in (axis for ax in drawn.axes for axis in (ax.xaxis, ax.yaxis)):
            label = axis.get_label_text()
            axis.set_label_text(names.get(label, label))
        for path in self.pictures:
            output.save_plot(drawn, path)

    def label(self, figure: Figure) -> None:
        """Name the axes of a figure of the slice."""


@dataclass(frozen=True, kw_only=True)
class SliceJob(NetworkJob):
    """A network on one slice, and the limits of the exact partition."""

    points: options.PointsOption = None
    plane: options.PlaneOption = None
    at: options.AtOption = None
    box: options.BoxOption = None
    slice_file: options.SliceOption = None
    max_regions: options.LimitOption = None
    line: ClassVar[str] = "--points with 2 rows"
    triangle: ClassVar[str] = "--points with 3 rows, or --box for a network with 2 inputs"
    smaller: ClassVar[str] = "--plane for the plane of two inputs"

    @cached_property
    def named_slice(self) -> SliceFile | None:
        """What --points, --plane, --box or --slice names; None if none of them is given."""
        given = [self.points, self.plane, self.box, self.slice_file]
        if given.count(None) < len(given) - 1:
            raise InputError(f"Expected one of {_SLICES}, got several. Pass one of them.")
        if self.slice_file is not None:
            return read_slice_file(self.slice_file)
        if self.at is not None and self.plane is None:
            raise InputError("Expected --at FILE with --plane, got it alone. Name the two inputs that vary.")
        plane = None if self.plane is None else read_plane(self.plane, self.at)
        return None if given.count(None) == len(given) else SliceFile(self.points, self.box, plane)

    def slice(self, network: nn.Module) -> Slice:
        """The slice that the options name."""
        named = self.named_slice
        if named is None:
            raise InputError(f"Expected one of {_SLICES}, got none. Pass one of them.")
        return named.slice(lambda: self.shape_of(network), self.shape)

    def start(self, *, dim: int | None = None, what: str = "") -> tuple[nn.Module, Slice]:
        """The network and the slice, which must have dimension ``dim`` for ``what``; checks the files to write."""
        network = self.network()
        slice = self.slice(network)
        self.check_targets(slice.dim)
        if dim is not None and slice.dim != dim:
            way = self.line if dim == 1 else self.triangle
            raise InputError(f"Expected a slice of dimension {dim} for {what}, got dimension {slice.dim}. Pass {way}.")
        if slice.dim > _PRACTICAL:
            said = f"A slice of {slice.dim} dimensions is practical for tiny networks only"
            if self.max_regions is None:
                said += f". The limit is {options.MANY_REGIONS:,} regions; pass --max-regions N to raise it, or use "
            else:
                said += ", and can take hours. Use "
            typer.echo(f"{said}{self.smaller}.", err=True)
        return network, slice

    def label(self, figure: Figure) -> None:
        """Name the inputs that vary in a plane, with numbers in its units, and those that are fixed."""
        if self.named_slice is not None and self.named_slice.plane is not None:
            self.named_slice.plane.label(figure.axes[0])

    def class_names(self, text: str | None, network: nn.Module, slice: Slice) -> Sequence[str] | None:
        """The names of --class-names, one for each class of the network; without it, those that the data have."""
        classes = max(2, trace(network, slice.input_shape).n_outputs)
        return self.names_or_known(options.read_class_names(text), classes)

    def cut(self, instrument: Callable[..., _Result], network: nn.Module, slice: Slice, **chosen: Any) -> _Result:
        """The result of an exact instrument on the slice."""
        limit = self.max_regions
        if limit is None and slice.dim > _PRACTICAL:
            limit = options.MANY_REGIONS
        with work_bar("Cutting") as bar:
            return instrument(network, slice, max_regions=limit, progress=bar, **chosen)

    def report(self, result: Any, rows: Mapping[str, float], numbers: Mapping[str, Any], *, more: str = "") -> None:
        """The table and the JSON of a result that has a slice and statistics."""
        slice, stats = result.slice, result.stats
        plane = None if self.named_slice is None else self.named_slice.plane
        if plane is not None:
            numbers = {**numbers, "plane": plane.document()}
            if not self.as_json:
                typer.echo(plane.sentence())
        if not self.as_json:
            output.print_counts(f"{slice}{more}, {stats.seconds:.3g} s", rows)
        about = {"dim": slice.dim, "input_shape": list(slice.input_shape), "size": slice.size}
        self.write({**numbers, "slice": about, "stats": asdict(stats)})
