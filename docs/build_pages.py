"""Pages that are made while the documentation is built: the gallery and the API chapters."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

__all__ = ["Script", "list_names", "read_script", "run_script", "write_gallery"]

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

    Without names, these are the public names of the module that ``api/index.md`` does not describe.
    """
    first_page = (Path(__file__).parent / "api" / "index.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)", first_page, re.MULTILINE))

    def expand(match: re.Match[str]) -> str:
        module = importlib.import_module(match[1])
        undescribed = [
            name for name in _public(module) if described.isdisjoint({f"regionscope.{name}", f"{match[1]}.{name}"})
        ]
        chosen = match[2].split() if match[2] else undescribed
        entries = "\n".join(_entry(module, name) for name in chosen)
        return f"## {module.__name__}\n\n```{{eval-rst}}\n{entries}\n```\n"

    return NAMES.sub(expand, text)


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
