"""The direction of the layers, and what importing the package needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import regionscope
import regionscope_lab

PACKAGES = [Path(package.__file__).parent for package in (regionscope, regionscope_lab)]
LAYERS = {
    "captum": 3,
    "checks": 0,
    "cluster": 0,
    "errors": 0,
    "extras": 0,
    "file_io": 0,
    "inputs": 0,
    "formatting": 0,
    "tolerance": 0,
    "types": 0,
    "version": 0,
    "provenance": 0,
    "user_code": 0,
    "default_slice": 2,
    "points": 2,
    "geometry": 1,
    "network": 1,
    "certificate": 2,
    "exact": 2,
    "sampled": 2,
    "complexity": 2,
    "smooth": 2,
    "measures": 3,
    "verification": 3,
    "monitor": 3,
    "quickstart": 3,
    "plot": 4,
    "explorer": 4,
    "cli": 4,
    "public": 5,
    "__init__": 5,
    "__main__": 5,
}
LAB_LAYERS = {
    "animation": 0,
    "free_legend": 0,
    "statistics": 0,
    "shallow": 0,
    "papers": 2,
    "cli": 3,
    "__main__": 3,
}  # all other parts of the lab are in layer 1
STRANGERS = {("geometry", "network"), ("network", "geometry"), ("exact", "sampled"), ("sampled", "exact")}
CORE_LIBRARIES = {"torch", "numpy", "scipy", "matplotlib", "typer", "rich", "safetensors"}
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))


def imported_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Dotted names of what the statements among ``nodes`` import; ruff refuses relative imports."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@cache
def all_imports(path: Path) -> set[str]:
    """What the module imports anywhere, also inside functions."""
    return imported_names(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def dotted(path: Path) -> tuple[str, ...]:
    """The package and the names inside it, down to the module at ``path``."""
    [package] = [package for package in PACKAGES if path.is_relative_to(package)]
    return path.relative_to(package.parent).with_suffix("").parts


def layer_of(package: str, part: str) -> int:
    return LAYERS[part] if package == "regionscope" else LAB_LAYERS.get(part, 1)


def test_every_module_imports_its_own_layer_or_a_lower_one() -> None:
    wrong = []
    for path in MODULES:
        package, mine, *_ = dotted(path)
        assert package != "regionscope" or mine in LAYERS, (
            f"{mine} has no layer yet; give it one here and in the design"
        )
        for name in all_imports(path):
            root, *rest = name.split(".")
            if root != package:
                continue
            # "from regionscope import plot" names a part; "from regionscope import linear_regions" reaches the top.
            theirs = rest[0] if rest and (rest[0] in LAYERS or root != "regionscope") else "__init__"
            if layer_of(package, theirs) > layer_of(package, mine) or (mine, theirs) in STRANGERS:
                wrong.append(f"{path} ({mine}) imports {name}")
    assert not wrong


def test_the_library_does_not_import_the_lab() -> None:
    """Neither at import time nor inside a function, nor by a name in a text."""
    library = [path for path in MODULES if dotted(path)[0] == "regionscope"]
    assert len(library) > 200
    for path in library:
        assert not [name for name in all_imports(path) if name.split(".")[0] == "regionscope_lab"], path
        assert "regionscope_lab" not in path.read_text(encoding="utf-8"), path


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions and under TYPE_CHECKING count too."""
    names = {".".join(dotted(path)): path for path in MODULES}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    imports = {}
    for name, path in names.items():
        modules = {one if one in names else one.rpartition(".")[0] for one in all_imports(path)}
        imports[name] = (modules & names.keys()) - {name}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_import_time_needs_only_the_core_libraries() -> None:
    allowed = CORE_LIBRARIES | set(sys.stdlib_module_names) | {"regionscope", "regionscope_lab"}
    for path in MODULES:
        roots = {name.split(".")[0] for name in imported_names(ast.parse(path.read_text(encoding="utf-8")).body)}
        assert roots <= allowed, f"{path} imports {sorted(roots - allowed)}"


@pytest.mark.slow
def test_importing_needs_no_extra_and_leaves_no_trace() -> None:
    blocked = ["sklearn", "duckdb", "pooch", "dask", "bokeh", "tensorboard", "wandb", "lightning", "pandas", "pytest"]
    blocked += ["captum", "onnx", "flint", "triton"]
    code = f"""
import random, sys, torch
sys.modules.update(dict.fromkeys({blocked!r}))
before = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), random.getstate()
import regionscope.public, regionscope.plot
after = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), random.getstate()
assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
assert "matplotlib.pyplot" not in sys.modules
from regionscope.cli import table
from regionscope.cli.app import COMMANDS
table.describe(COMMANDS)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
