"""Hypothesis draws the same examples in every run, and parallel workers begin with the files that take longest."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that hold a slow test come first, so that no worker is left with one of them at the end."""
    long = {
        item.path
        for item in items
        if any(item.get_closest_marker(name) for name in ("slow", "browser", "papers", "kill"))
    }
    items.sort(key=lambda item: item.path not in long)
