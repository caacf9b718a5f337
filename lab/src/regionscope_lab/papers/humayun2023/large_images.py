"""Figure 12: local complexity of ResNet18 at the size of ImageNet: reader, cost, and the curve of a stand-in."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from regionscope.complexity import local_complexity
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec
from regionscope_lab.data import DataSplit, load
from regionscope_lab.data.digits import digits
from regionscope_lab.papers import verdict
from regionscope_lab.papers.humayun2023.curves import chart, phases_table, read_curve
from regionscope_lab.papers.humayun2023.settings import imagenet
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Place, Workspace

_PAPER_SECONDS, _PAPER_SAMPLES = 28.0, 1000  # the paper's, on an RTX 8000
_DIMS = 20
_CLASSES = 10
_COST: dict[Size, dict[str, Any]] = {
    "smoke": {"size": 32, "width": 2, "points": 2, "images": 1},
    "desk": {"size": 224, "width": 16, "points": 4, "images": 2},
    "full": {"size": 224, "width": 64, "points": 100, "images": 10, "stem": "imagenet"},
}


def cost(place: Place, size: int, width: int, points: int, images: int, stem: str = "cifar") -> dict[str, Any]:
    """Read a folder laid out as ImageNet is, and measure LC of ResNet18 at some of its images."""
    with tempfile.TemporaryDirectory() as folder:
        _write_folder(Path(folder), images)
        spec = DataSpec(name="imagenet", options={"size": size})
        split = load(spec, root=Path(folder))
    model = zoo.build("resnet18", classes=_CLASSES, input_shape=split.input_shape, width=width, stem=stem)
    model.to(place.device)
    inputs = split.test.inputs[:points]
    local_complexity(model, inputs[:1], dims=2)  # the first call prepares
    start = time.perf_counter()
    complexity = local_complexity(model, inputs, dims=_DIMS)
    complexity.total.cpu()  # a GPU is done when its numbers are here
    seconds = time.perf_counter() - start
    return {
        "right": _right(split, size, images),
        "shape": list(split.input_shape),
        "points": len(inputs),
        "seconds": seconds,
        "units": sum(complexity.units.values()),
    }


def _right(split: DataSplit, size: int, images: int) -> bool:
    """Whether everything that was written came back, class by class."""
    each = torch.full((_CLASSES,), images)
    return all(
        part.input_shape == (3, size, size) and bool((part.labels.bincount() == each).all())
        for part in (split.train, split.test)
    )


def _write_folder(root: Path, images: int) -> None:
    """train/<class>/*.png and val/<class>/*.png from the digits, enlarged to photographs' sizes."""
    from PIL import Image

    known = digits()
    for label in range(_CLASSES):
        mine = known.inputs[known.labels == label][:, 0]
        for i in range(2 * images):
            target = root / "imagenet" / ("train" if i < images else "val") / f"class{label}"
            target.mkdir(parents=True, exist_ok=True)
            small = Image.fromarray(mine[i].mul(255).byte().numpy())
            small.resize((300 + 10 * i, 260)).convert("RGB").save(target / f"{i}.png")


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    measured = workspace.compute_with_place(cost, [_COST[size]])[0]
    runs = workspace.runs(imagenet(size))
    test = read_curve(runs, "lc.test")
    complete = f"{'all' if measured['right'] else 'not all'} classes complete"
    per_thousand = measured["seconds"] / measured["points"] * _PAPER_SAMPLES
    names = ("descent", "ascent", "second descent")
    phases = [name for name, there in zip(names, test.shape.clear, strict=True) if there]
    return Outcome(
        claims=(
            Claim("images of a folder laid out as ImageNet, read back", "",
                  f"{'x'.join(map(str, measured['shape']))}, {complete}", verdict.shown()),
            Claim(f"seconds for LC of ResNet18 (width {_COST[size]['width']}) at {_PAPER_SAMPLES:,} images",
                  f"about {_PAPER_SECONDS:g} (RTX 8000)", f"{per_thousand:,.0f} (from {measured['points']})",
                  verdict.shown()),
            Claim("phases of test LC", "a curve without words", ", ".join(phases) or "none beyond the noise",
                  verdict.shown()),
        ),
        tables=(phases_table("LC at test points", {"ResNet18": test}),),
        charts=(chart("Figure 12: LC at test points of ResNet18", {"": test}),),
        notes=(f"LC counts {measured['units']:,} units for an image of {_COST[size]['size']} pixels.",
               "The images of the folder are digits of 8 x 8 pixels, enlarged: they test the reader and the cost, and "
               "say nothing about ImageNet."),
    )  # fmt: skip


FIGURE12 = read_study("humayun2023-figure12", experiments=imagenet, analyse=_analyse)
