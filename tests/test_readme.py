"""Everything the README and the documentation pages show is run: snippets, their printed answers, and commands.

A Python block is executed, block after block in one namespace for each page; a block of ``>>>`` lines is a doctest; a
block whose first line is ``# name.py`` or ``# name.toml`` is written to that file. An ``output`` block is compared with
what the block before it printed, except for the numbers, which may differ between machines. In console blocks the lines
that start with ``$ regionscope`` are run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regionscope.cli import app
from regionscope_lab.cli import app as lab

ROOT = Path(__file__).parent.parent
PROGRAMS = {"regionscope": app, "regionscope-lab": lab}
GENERATED = {"_build", "_gallery"}
PAGES = [
    ROOT / "README.md",
    ROOT / "lab" / "README.md",
    *sorted(
        page for page in (ROOT / "docs").rglob("*.md") if not GENERATED & set(page.relative_to(ROOT / "docs").parts)
    ),
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWS_CODE = re.compile(r"^```(python|console)$", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if SHOWS_CODE.search(page.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_what_a_page_shows_is_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        file = re.match(r"# (\w+\.(?:py|toml))\n", block)
        if file:
            Path(file[1]).write_text(block, encoding="utf-8")
        elif language == "python" and block.startswith(">>>"):
            run_doctest(block, names, page)
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(block, str(page), "exec"), names)
        elif language == "output":
            assert without_numbers(block) == without_numbers(printed.getvalue()), printed.getvalue()
        elif language == "console":
            run_console(block)


def without_numbers(text: str) -> str:
    return re.sub(r"\s", "", re.sub(r"-?\d[\d,.]*(?:e[-+]?\d+)?", "#", text))


def run_doctest(block: str, names: dict[str, Any], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
    report = io.StringIO()
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=report.write, clear_globs=False)
    assert not report.getvalue(), report.getvalue()
    names.update(test.globs)


def run_console(block: str) -> None:
    for line in filter(None, block.splitlines()):
        program, *words = shlex.split(
            line.removeprefix("$ ").replace(" --workers 2", "")
        )  # processes have their own tests
        if line.startswith("$ ") and program in PROGRAMS:
            done = CliRunner().invoke(PROGRAMS[program], words)
            assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


def test_links_to_files_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"
            assert not GENERATED & set(Path(target).parts), f"{page.name} points to {target}, made by make docs alone"


def test_the_index_links_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES[2:]:
        name = page.relative_to(ROOT / "docs").as_posix()
        if name != "index.md" and not (name.startswith(("api/", "results/")) and page.name != "index.md"):
            assert f"]({name})" in index, name
            assert f"\n{name.removesuffix('.md')}\n" in index, name
