"""The version in all files, and the distributions: built, installed into a clean environment, and used there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import regionscope

ROOT = Path(__file__).parent.parent
FOLDERS = {"regionscope": ROOT, "regionscope_lab": ROOT / "lab"}  # of each package
BUILD = "from setuptools import build_meta; build_meta.build_sdist('..'); build_meta.build_wheel('..')"
NET = """
import regionscope
from torch import nn

def build():
    print(regionscope.__file__)
    return nn.Linear(2, 2)
"""

# A new Python takes seconds to import torch, so that one runs all commands of a package.
COMMANDS = """
import regionscope
from net import build
from regionscope.cli import app

regionscope.linear_regions(build(), regionscope.Box.between(-1, 1, (2,))).save("part.npz")
regions = "regions --model net.py:build --box -1 1"
for command in (regions, "explore part.npz -o explorer.html", "quickstart --epochs 1"):
    app(command.split(), standalone_mode=False)
try:
    import regionscope_lab
except ImportError:
    print("without the lab")
"""
LAB_COMMANDS = """
from regionscope_lab.cli import app

train = "train --data two_moons --network mlp --epochs 1 --set data.n_train=20 --runs runs"
for command in (train, "regions runs"):
    app(command.split(), standalone_mode=False)
"""


def run(command: Sequence[object], folder: Path) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([*map(str, command)], cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a wheel and an sdist of each package, built from a checkout with tests in it."""
    pytest.importorskip("setuptools", minversion="77", reason="building the wheel needs setuptools 77")
    place = tmp_path_factory.mktemp("wheel")
    for name, folder in FOLDERS.items():
        source = place / name
        source.mkdir()
        for file in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
            shutil.copy(folder / file, source)
        shutil.copytree(folder / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        (source / "tests").mkdir()
        (source / "tests" / "test_nothing.py").touch()
        run([sys.executable, "-c", BUILD], source)
    return place


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's wheel unpacked by pip; its dependencies are those of this Python, but not this checkout."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place)
    install(built, "regionscope", place)
    libraries = next((place / "lib").glob("python*/site-packages"))
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files are not read
    return place


def install(built: Path, package: str, environment: Path) -> None:
    (wheel,) = built.glob(f"{package}-*.whl")
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    run([*pip, "install", "-q", "--no-compile", "--no-deps", "--no-index", wheel], environment)


@pytest.mark.slow
@pytest.mark.parametrize("package", FOLDERS)
def test_a_distribution_holds_every_file_of_its_package_and_no_other(package: str, built: Path) -> None:
    sources = FOLDERS[package] / "src"
    wanted = {
        path.relative_to(sources).as_posix()
        for path in (sources / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(next(built.glob(f"{package}-*.whl"))) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == wanted
    with tarfile.open(next(built.glob(f"{package}-*.tar.gz"))) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if member.isfile()}
    more = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert {name for name in names if ".egg-info/" not in name} == {f"src/{name}" for name in wanted} | more
    for_tests = [
        name for name in wanted if re.search(r"test|twin|corpus|known_answers|(^|/)reference|report\.(md|html)", name)
    ]
    assert for_tests == (["regionscope/network/onnx/reference.py"] if package == "regionscope" else [])  # of ONNX


@pytest.mark.slow
def test_the_package_index_takes_the_distributions(built: Path) -> None:
    pytest.importorskip("twine")
    files = [*built.glob("*.whl"), *built.glob("*.tar.gz")]
    assert len(files) == 4
    assert run([sys.executable, "-m", "twine", "check", "--strict", *files], built).count("PASSED") == 4


@pytest.mark.slow
def test_the_installed_program_works_elsewhere(environment: Path, tmp_path: Path) -> None:
    program = environment / "bin" / "regionscope"
    assert "quickstart" in run([program, "--help"], tmp_path)
    (tmp_path / "net.py").write_text(NET)
    said = run([environment / "bin" / "python", "-c", COMMANDS], tmp_path)
    assert said.count("linear regions") >= 2
    assert str(environment) in said
    assert "without the lab" in said
    assert (tmp_path / "explorer.html").stat().st_size > 100_000
    files = {"explorer.html", "model.safetensors", "numbers.json", "regions.png"}
    assert {path.name for path in (tmp_path / "quickstart").iterdir()} == files


@pytest.mark.slow
def test_the_installed_lab_trains(built: Path, environment: Path, tmp_path: Path) -> None:
    install(built, "regionscope_lab", environment)
    assert "train" in run([environment / "bin" / "regionscope-lab", "--help"], tmp_path)
    said = run([environment / "bin" / "python", "-c", LAB_COMMANDS], tmp_path)
    assert "finished" in said
    assert "linear regions" in said


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    newest = re.search(r"^## \[(\S+)\] - (unreleased|\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == regionscope.__version__
    assert f"\nversion: {regionscope.__version__}\n" in text("CITATION.cff")
    assert f'\n  version: "{regionscope.__version__}"\n' in text("packaging/recipe.yaml")
    lab = tomllib.loads(text("lab/pyproject.toml"))["project"]
    assert lab["version"] == regionscope.__version__
    assert f"regionscope=={regionscope.__version__}" in lab["dependencies"]
    assert newest[2] == "unreleased" or f"\ndate-released: {newest[2]}\n" in text("CITATION.cff")
