"""Hypothesis draws the same examples in every run, long files come first, and two costs are paid less often."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings
from typer.main import get_command

from onnx_graphs import stored  # noqa: F401 - a fixture

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """A flush matters when the power fails, which no test can do; a thousand of them take a quarter of a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_are_built_once() -> Iterator[None]:
    """A test runner builds all commands of a program from their signatures in each call, as a process does once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Steps of small networks only lose time, and on some machines bits, by waking other threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that hold a slow test come first, so that no worker is left with one of them at the end."""
    long = {
        item.path
        for item in items
        if any(item.get_closest_marker(name) for name in ("slow", "browser", "papers", "kill"))
    }
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """What is imported by now stays to the end, so that no garbage collection looks through it again."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker gets a whole file, or files that share what is costly: all of the explorer a training and a browser, the
    fast engine and its slow twin the answers of the twin."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if "tests/explorer/" in nodeid:
                return "explorer"
            return str(super()._split_scope(nodeid)).replace("exact/test_reference.py", "exact/test_exact.py")

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None
