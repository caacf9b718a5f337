"""Pages that are made while the documentation is built: the gallery and the API chapters; tables of benchmarks."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

__all__ = [
    "SURFACE_TABLES",
    "Script",
    "attribution_table",
    "benchmark_table",
    "list_names",
    "read_script",
    "run_script",
    "write_gallery",
]

NETWORKS = {"mlp": "MLP 784-[256,256]-10", "cnn": "CNN, 4 convolutions of 8 channels", "resnet18": "ResNet18"}
NAMES = re.compile(r"^<!-- names of ([\w.]+)(?:: ([\w ]+))? -->$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """A program of the gallery: the first line of its docstring is the title, the rest the text."""

    path: Path
    title: str
    text: str
    code: str

    @property
    def picture(self) -> str:
        """The file it writes into the current folder."""
        return f"{self.path.stem}.png"


def read_script(path: Path) -> Script:
    """A script taken apart, without running it."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    if not docstring or "\n\n" not in docstring:
        raise ValueError(f"{path} needs a docstring: a title, an empty line, a text.")
    title, text = docstring.split("\n\n", 1)
    code = "\n".join(source.splitlines()[tree.body[1].lineno - 1 :])
    return Script(path, title, text, code)


def run_script(script: Script, folder: Path) -> str:
    """Run it in ``folder``, where its picture goes, and return what it printed: one sentence."""
    printed = io.StringIO()
    with _inside(folder), contextlib.redirect_stdout(printed):
        runpy.run_path(str(script.path))
    return printed.getvalue().strip()


def write_gallery(scripts: Path, folder: Path) -> Path:
    """Run every script and write ``gallery.md`` with code, picture and sentence of each into ``folder``."""
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    parts = ["# Gallery\n", "Short programs, each with one figure and one sentence; they are in `examples/gallery/`.\n"]
    for path in sorted(scripts.glob("*.py")):
        script = read_script(path)
        sentence = run_script(script, folder)
        parts.append(
            f"## {script.title}\n\n{script.text}\n\n```{{image}} {script.picture}\n:alt: {script.title}\n```\n\n"
            f"*{sentence}*\n\n```python\n{script.code.strip()}\n```\n"
        )
    page = folder / "gallery.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def list_names(text: str) -> str:
    """Replace each ``<!-- names of MODULE: NAME NAME -->`` by a section with these names.

    Without names, these are the public names of the module that ``regionscope`` itself does not offer.
    """
    on_the_first_page = set(importlib.import_module("regionscope").__all__)

    def expand(match: re.Match[str]) -> str:
        module = importlib.import_module(match[1])
        chosen = match[2].split() if match[2] else [n for n in _public(module) if n not in on_the_first_page]
        entries = "\n".join(_entry(module, name) for name in chosen)
        return f"## {module.__name__}\n\n```{{eval-rst}}\n{entries}\n```\n"

    return NAMES.sub(expand, text)


def benchmark_table(results: Path) -> str:
    """What the benchmarks stored for a CUDA device, as the table that stands in docs/gpu.md."""
    counts = json.loads((results / "counts_cuda.json").read_text())
    measured = counts["resnet18 against its floor"]
    lines = measured["segments"]
    rows = [
        (f"`region_count`, {method}, ResNet18, {lines} lines", measured[f"{method} (s)"], measured[f"{method} / floor"])
        for method in ("grid", "refined")
    ]
    for one in json.loads((results / "complexity-cuda.json").read_text()):
        how = f"{one['points']:,} points, P = {one['dims']}, {one['frames']} frame"
        rows.append((f"`local_complexity`, {one['network']}, {how}", one["seconds"], one["ratio"]))
    rows += [
        (f"`linear_regions`, {one['case']}, {one['regions']:,} regions", one["seconds"], one["ratio"])
        for one in json.loads((results / "exact-cuda.json").read_text())
    ]
    table = [f"| {counts['device']}, torch {counts['torch']} | seconds | times the floor |", "| --- | --- | --- |"]
    table += [f"| {name} | {seconds:.3g} | {ratio:.3g} |" for name, seconds, ratio in rows]
    return "\n".join(table)


def attribution_table(results: Path) -> str:
    """The errors of quadrature that bench_attributions.py stored, as the table that stands in docs/attributions.md."""
    stored = [json.loads(path.read_text()) for path in sorted(results.glob("attributions-*.json"))]
    rows = [row for one in stored for row in one["rows"]]
    steps = list(rows[0]["errors"]["gausslegendre"])
    head = " | ".join(f"{int(k):,} steps" for k in steps)
    table = [f"| network | linear pieces | gap | {head} |", f"|---|---|---|{'---|' * len(steps)}"]
    for row in rows:
        errors = " | ".join(f"{row['errors']['gausslegendre'][k]:.2g}" for k in steps)
        name = NETWORKS[row["network"]]
        table.append(f"| {name}, {row['data']} | {row['pieces']:,.0f} | {row['gap']:.1g} | {errors} |")
    return "\n".join(table)


def surface_table(results: Path) -> str:
    """Level sets beside marching cubes, as bench_surface.py stored them: a table in docs/surfaces.md."""
    stored = json.loads((results / "surface-cpu.json").read_text())
    exact = {row["network"]: row["area"] for row in stored["rows"] if row["method"] == "level_set"}
    head = "network | method | faces | Euler | area | distance, mean | largest"
    table, seen = [f"| {head} | s, {_threads(stored)} |", f"|{'---|' * 8}"], set()
    for row in stored["rows"]:
        cells = ["" if row["network"] in seen else row["network"], row["method"].replace("marching cubes,", "grid")]
        seen.add(row["network"])
        off = row["area"] / exact[row["network"]] - 1
        area = f"{row['area']:.4f}" if row["method"] == "level_set" else f"{off:+.2%}"
        cells += [f"{row['faces']:,}", str(row["euler"]), area, f"{row['mean']:.0e}", f"{row['largest']:.0e}"]
        table.append(f"| {' | '.join(cells)} | {row['cpu']:.2f} |")
    return "\n".join(table)


def level_set_table(results: Path) -> str:
    """Level sets beside whole partitions, as bench_level_set.py stored them: a table in docs/surfaces.md."""
    stored = json.loads((results / "level-set-cpu.json").read_text())
    head = "shape | steps | mean error | faces | regions | level_set, s | linear_regions, s | ratio"
    table = [f"| {head} |", f"|{'---|' * 8}"]
    for row in stored["rows"]:
        pieces = f"{row['steps']:,} | {row['error']:.4f} | {row['faces']:,} | {row['regions']:,}"
        times = f"{row['level_set']:.2f} | {row['linear_regions']:.2f} | {row['ratio']:.1f}"
        table.append(f"| {row['shape']} | {pieces} | {times} |")
    return "\n".join(table)


def edge_subdivision_table(results: Path) -> str:
    """Partitions beside edge subdivision, as bench_edge_subdivision.py stored them: a table in docs/surfaces.md."""
    stored = json.loads((results / "edge-subdivision-cpu.json").read_text())
    table = [f"| network | result | count | vertices | distance | s, {_threads(stored)} |", f"|{'---|' * 6}"]
    for row in stored["rows"]:
        surface = row["work"] == "level_set"
        n, theirs = row["vertices"]
        cells = [row["network"], row["work"], f"{row['count']:,} {'faces' if surface else 'regions'}"]
        cells += [f"{n:,}" if n == theirs else f"{n:,} / {theirs:,}"]
        cells += ["{:.0e} / {:.0e}".format(*row["distance"]) if surface else "", "{:.2f} / {:.2f}".format(*row["cpu"])]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def _threads(stored: dict[str, int]) -> str:
    return f"{stored['threads']} thread{'s' * (stored['threads'] != 1)}"


SURFACE_TABLES = {
    "surface-cpu": surface_table, "level-set-cpu": level_set_table, "edge-subdivision-cpu": edge_subdivision_table,
}  # fmt: skip


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    found = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in found if not name.startswith("_")]


def _entry(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    kind = "autoclass" if inspect.isclass(value) else "autofunction" if inspect.isroutine(value) else "autodata"
    return f".. {kind}:: {module.__name__}.{name}" + ("\n   :members:" if kind == "autoclass" else "")


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
