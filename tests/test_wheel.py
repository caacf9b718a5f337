"""The version in all files, and the wheel: built, installed into a clean environment, and used there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import regionscope

ROOT = Path(__file__).parent.parent
NET = """
import regionscope
from torch import nn

def build():
    print(regionscope.__file__)
    return nn.Linear(2, 2)
"""

COMMANDS = """
import regionscope
from net import build
from regionscope.cli import app

regionscope.linear_regions(build(), regionscope.Box.between(-1, 1, (2,))).save("part.npz")
for command in ("regions --model net.py:build --box -1 1", "explore part.npz -o explorer.html"):
    app(command.split(), standalone_mode=False)
"""


def run(command: Sequence[object], folder: Path) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([*map(str, command)], cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", minversion="77", reason="building the wheel needs setuptools 77")
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    run([sys.executable, "-c", build], source)
    [built] = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked by pip; its dependencies are those of this Python, but not this checkout."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place)
    pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python"]
    run([*pip, "install", "-q", "--no-compile", "--no-deps", "--no-index", wheel], place)
    libraries = next((place / "lib").glob("python*/site-packages"))
    paths = (sysconfig.get_path("purelib"), str(ROOT / "lab" / "src"))
    (libraries / "dependencies.pth").write_text(
        "".join(f"{path}\n" for path in paths)
    )  # its own .pth files are not read
    return place


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("regionscope/")}
    package = ROOT / "src" / "regionscope"
    wanted = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert held == wanted


@pytest.mark.slow
def test_the_installed_program_works_elsewhere(environment: Path, tmp_path: Path) -> None:
    program = environment / "bin" / "regionscope"
    assert "quickstart" in run([program, "--help"], tmp_path)
    (tmp_path / "net.py").write_text(NET)
    said = run([environment / "bin" / "python", "-c", COMMANDS], tmp_path)
    assert "linear regions" in said
    assert str(environment) in said
    assert (tmp_path / "explorer.html").stat().st_size > 100_000


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    newest = re.search(r"^## \[(\S+)\] - (unreleased|\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == regionscope.__version__
    assert f"\nversion: {regionscope.__version__}\n" in text("CITATION.cff")
    lab = tomllib.loads(text("lab/pyproject.toml"))["project"]
    assert lab["version"] == regionscope.__version__
    assert f"regionscope=={regionscope.__version__}" in lab["dependencies"]
    assert newest[2] == "unreleased" or f"\ndate-released: {newest[2]}\n" in text("CITATION.cff")
