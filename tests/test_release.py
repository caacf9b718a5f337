"""What a release says about itself in several files agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import regionscope

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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


def test_the_workflow_covers_what_the_package_supports() -> None:
    workflow = text(".github/workflows/ci.yml")
    supported = [line.split(" :: ")[-1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert re.search(r"python: \[(.*)\]", workflow)[1].replace('"', "").split(", ") == supported
    oldest = next(need.partition(">=")[2] for need in PROJECT["dependencies"] if need.startswith("torch>="))
    assert f'torch: ["{oldest}.0", "newest"]' in workflow
    assert ".ci/run" in workflow
    assert "make docs" in workflow


def test_pre_commit_runs_the_pinned_versions() -> None:
    pinned = dict(re.findall(r"^(\w+)==(\S+)$", text("constraints.txt"), re.MULTILINE))
    assert f"rev: v{pinned['ruff']}\n" in text(".pre-commit-config.yaml")
    assert "entry: .venv/bin/mypy" in text(".pre-commit-config.yaml")
