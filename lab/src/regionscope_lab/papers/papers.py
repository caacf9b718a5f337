"""What the studies of a paper say, from the ``paper.toml`` beside them: claims, scales, items and causes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from regionscope_lab.config import Experiment
from regionscope_lab.papers.study import Outcome, Size, Study
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder


def read_study(
    name: str,
    *,
    analyse: Callable[[Workspace, Size], Outcome],
    experiments: Callable[[Size], tuple[Experiment, ...]] = lambda size: (),
) -> Study:
    """The study of this name: its texts from the file, its work from the two functions."""
    texts = {study["name"]: study for study in _document(name.split("-")[0])["study"]}
    said = texts[name]
    scaled = said["scaled"] if "scaled" in said else texts[said["scaled_as"]]["scaled"]
    return Study(
        name=name, source=said["source"], claim=said["claim"], analyse=analyse, experiments=experiments, scaled=scaled
    )


def grid_study(
    name: str,
    grid: Callable[[Size], Mapping[str, tuple[Experiment, ...]]],
    outcome: Callable[[dict[str, list[RunFolder]], Size], Outcome],
) -> Study:
    """The study whose outcome follows from the runs of a grid, by their labels."""

    def analyse(workspace: Workspace, size: Size) -> Outcome:
        return outcome({label: workspace.runs(mine) for label, mine in grid(size).items()}, size)

    return read_study(
        name, experiments=lambda size: tuple(one for mine in grid(size).values() for one in mine), analyse=analyse
    )


@cache
def _document(paper: str) -> dict[str, Any]:
    text = resources.files("regionscope_lab.papers").joinpath(paper, "paper.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    words: dict[str, str] = {}
    for name, said in document.pop("words", {}).items():
        words[name] = said.format_map(words)  # of those above it
    return {part: _spelt_out(said, words) for part, said in document.items()}


def _spelt_out(said: Any, words: dict[str, str]) -> Any:
    """All texts with the words that ``{name}`` stands for; patterns of claims are taken as they are."""
    if isinstance(said, dict):
        return {name: one if name in ("claims", "found") else _spelt_out(one, words) for name, one in said.items()}
    if isinstance(said, list):
        return [_spelt_out(one, words) for one in said]
    return said.format_map(words) if isinstance(said, str) else said
