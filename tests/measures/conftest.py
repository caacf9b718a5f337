"""Fixtures of the measures."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for counts that is not there yet."""
    return tmp_path / "counts.jsonl"
