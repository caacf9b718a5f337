"""``regionscope regions`` and ``regionscope decisions``: exact counts on one slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from torch import Tensor, nn

from regionscope.cli import options, output
from regionscope.cli.job import SliceJob, with_job
from regionscope.cli.running import work_bar
from regionscope.errors import InputError
from regionscope.exact import (
    DecisionRegions,
    Partition,
    RegionTotals,
    decision_regions,
    linear_regions,
    stream_regions,
)
from regionscope.formatting import counted
from regionscope.geometry import Slice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regionscope.plot import StreamedImage

_SAVED = (".npz",)  # what Partition.load and regionscope explore read
SavedOption = Annotated[
    list[Path] | None,
    options.option(
        "--output -o FILE",
        "File to write: .json, a figure (.png, .pdf, .svg), or all regions (.npz); can be repeated.",
        options.OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class CountJob(SliceJob):
    """A network on one slice, with counts that can be certified."""

    certify: options.CertifyOption = False
    files: SavedOption = None
    endings: ClassVar[tuple[str, ...]] = (*SliceJob.endings, *_SAVED)


@with_job
def regions(job: CountJob, count_only: options.CountOnlyOption = False) -> None:
    """Count the activation regions and the linear regions of a network on a slice, exactly.

    Example: regionscope regions --model net.py:build --weights net.safetensors --box -1 1 -o regions.png

    Example: regionscope regions --model net.onnx --plane 0=-1:1,1=-1:1,2=0,3=0.5
    """
    if count_only and (job.certify or job.named(_SAVED)):
        raise InputError(
            "Expected --count-only without --certify or an .npz file, which need all regions at once. "
            "Leave out --count-only, or the others."
        )
    network, where = job.start()
    instrument: Callable[..., Partition | RegionTotals] = stream_regions if count_only else linear_regions
    image = _image_of(where) if count_only and job.pictures else None
    part = job.cut(instrument, network, where, **({} if image is None else {"consume": image}))
    layers = part.layers if isinstance(part, Partition) else part.by_layer
    counts = {f"activation regions after {name}": n for name, n in zip(layers, part.by_layer.values(), strict=True)}
    counts["activation regions"] = part.n_activation_regions
    numbers: dict[str, Any] = {
        "activation_regions": part.n_activation_regions,
        "activation_regions_after_layer": dict(part.by_layer),
    }
    if isinstance(part, Partition):
        counts["linear regions"] = part.n_linear_regions
        numbers |= {"linear_regions": part.n_linear_regions, "undecided": part.n_undecided}
        if part.n_undecided:
            counts["walls and regions that rounding leaves open"] = part.n_undecided
    _report(job, part, part, counts, numbers, "regions_figure" if image is None else lambda _: _figure_of(image))


def _image_of(where: Slice) -> StreamedImage:
    from regionscope.plot import StreamedImage

    return StreamedImage(where)


def _figure_of(image: StreamedImage) -> Figure:
    from regionscope.plot import style

    figure, (ax,) = style.figure(1, 1, width=style.PANEL_INCHES, height=style.PANEL_INCHES + 0.35)
    image.draw(ax=ax)
    style.map_axes([ax])
    ax.set_title(counted(image.n, "activation region"))
    return figure


class _Negated(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return -self.network(x)  # type: ignore[no-any-return]


@with_job
def decisions(
    job: CountJob, lowest: options.LowestOption = False, smooth: options.SmoothOption = False,
    undecided: options.UndecidedOption = None, class_names: options.ClassNamesOption = None,
) -> None:  # fmt: skip
    """Count the decision regions (connected sets of one predicted label) of a network on a slice, exactly.

    Example: regionscope decisions --model net.py:build_gelu --box -1 1 --smooth --undecided 0.01 -o decisions.png

    Example: regionscope decisions --model net.py:build --weights net.safetensors --points triangle.npy --json

    Example: regionscope decisions --model net.py:build --box -1 1 -o decisions.png --class-names cat,dog
    """
    network, where = job.start()
    if smooth:
        _proven(job, _Negated(network) if lowest else network, where, undecided, class_names)
        return
    if undecided is not None:
        raise InputError("Expected --undecided with --smooth, got it alone. Exact counts leave nothing undecided.")
    names = job.class_names(class_names, network, where)
    dec = job.cut(decision_regions, _Negated(network) if lowest else network, where)  # a sign flip rounds nothing
    by_label = {str(label): count for label, count in sorted(Counter(dec.labels.tolist()).items())}
    called = {label: label if names is None else f"{label} ({names[int(label)]})" for label in by_label}
    counts = {f"decision regions with label {called[label]}": count for label, count in by_label.items()}
    counts |= {"decision regions": dec.count}
    numbers: dict[str, Any] = {
        "decision_regions": dec.count, "decision_regions_with_label": by_label, "lowest": lowest, "class_names": names,
    }  # fmt: skip
    _report(job, dec, dec.partition, counts, numbers, "decision_figure", class_names=names)


def _proven(job: CountJob, network: nn.Module, where: Slice, undecided: float | None, class_names: str | None) -> None:
    """The map of ``--smooth``: shares by label, the undecided share, and the proven number of regions."""
    from regionscope.smooth import decision_map

    if job.certify or job.named(_SAVED):
        raise InputError(
            "Expected --smooth without --certify and without an .npz file, got both. Its labels are proven already."
        )
    limits: dict[str, Any] = {} if job.max_regions is None else {"max_cells": job.max_regions}
    with work_bar("Proving") as bar:
        result = decision_map(
            network, where, undecided=0.01 if undecided is None else undecided, progress=bar, **limits
        )
    names = job.names_or_known(options.read_class_names(class_names), result.possible.shape[1])
    labels = sorted(set(result.labels.tolist()) - {-1})
    areas = {str(label): result.area(label) for label in labels}
    bounds = result.counted
    rows: dict[str, float] = {"cells": len(result), "undecided share": result.undecided}
    for label, (low, _) in areas.items():
        called = label if names is None else f"{label} ({names[int(label)]})"
        rows[f"proven size of label {called}"] = low
    rows["decision regions, at least"] = bounds.low
    if bounds.high is not None:
        rows["decision regions, at most"] = bounds.high
    if not job.as_json:
        output.print_counts(f"{where}", rows)
        for status in (result.status, bounds.status):
            if not status:
                typer.echo(status.reason, err=True)
    job.write({
        "decision_regions": [bounds.low, bounds.high], "undecided": result.undecided, "cells": len(result),
        "size_of_label": areas, "class_names": names, "stopped": result.status.reason, "open": bounds.status.reason,
    })  # fmt: skip
    job.draw("decision_map_figure", result, class_names=names)


def _report(
    job: CountJob, result: Partition | DecisionRegions | RegionTotals, part: Partition | RegionTotals,
    counts: dict[str, int], numbers: dict[str, Any], figure: str | Callable[..., Figure], **chosen: Any,
) -> None:  # fmt: skip
    certificate = result.certify() if job.certify and not isinstance(result, RegionTotals) else None
    if certificate is not None:
        numbers["certificate"] = certificate.summary()
    job.report(part, {**counts, "values snapped to zero": part.stats.snapped}, numbers)
    if certificate is not None and not job.as_json:
        typer.echo(str(certificate))
    job.draw(figure, result, **chosen)
    if not isinstance(result, RegionTotals):
        for path in job.named(_SAVED):
            with output.writing_to(path):
                result.save(path)
            typer.echo(f"wrote {path}", err=True)
    if certificate is not None and not certificate:
        raise typer.Exit(1)
