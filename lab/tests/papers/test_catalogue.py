"""The list of all studies: complete, of distinct names, and found by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regionscope.errors import InputError
from regionscope_lab.config import Experiment
from regionscope_lab.experiment import check
from regionscope_lab.papers.catalogue import find, studies
from regionscope_lab.papers.study import PAPERS, SIZES, Size, Study


def test_names_are_unique_and_begin_with_their_paper() -> None:
    names = [study.name for study in studies()]
    assert len(names) == len(set(names))
    assert all(study.name.startswith(f"{study.paper}-") for study in studies())


def test_papers_come_one_after_the_other() -> None:
    order = list(dict.fromkeys(study.paper for study in studies()))
    assert order == list(PAPERS)
    papers = [study.paper for study in studies()]
    assert papers == sorted(papers, key=order.index)


@pytest.mark.parametrize("study", studies(), ids=lambda one: one.name)
def test_every_study_says_what_it_shows(study: Study) -> None:
    assert study.paper in PAPERS
    assert study.source.strip()
    assert study.claim.strip().endswith(".")
    assert "\n" not in study.claim
    assert set(study.scaled) <= set(SIZES)
    assert study.scaled.get("smoke")


@pytest.mark.parametrize("size", SIZES)
def test_every_experiment_can_be_made(size: Size) -> None:
    """Each once whatever its seed, which changes nothing that can be wrong."""
    every = [replace(one, seed=0) for study in studies() for one in study.experiments(size)]
    wanted: dict[str, Experiment] = {repr(one): one for one in every}
    assert wanted
    for experiment in wanted.values():
        check(experiment)


def test_find_by_name_paper_and_all() -> None:
    assert [study.name for study in find("safran2022-example1")] == ["safran2022-example1"]
    assert {study.paper for study in find("qi2023")} == {"qi2023"}
    assert find("all") == studies()


def test_an_unknown_name_is_one_sentence() -> None:
    with pytest.raises(
        InputError,
        match=r"got 'example1'\. Did you mean safran2022-example1\? For all names, run: ",
    ):
        find("example1")
    with pytest.raises(InputError, match=r"got 'nothing'\. For all names, run: regionscope-lab paper list$"):
        find("nothing")
