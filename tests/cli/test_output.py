"""What the commands write: the same result gives the same file."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest

import regionscope as rs
from regionscope import plot
from regionscope.cli import output
from regionscope_lab.zoo import mlp


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_result_gives_the_same_picture_on_another_day(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = rs.linear_regions(mlp([2, 6, 2], seed=0), rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0))
    settings = dict(matplotlib.rcParams)
    files = []
    for day in (1, 2):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(86_400 * day))  # the date that matplotlib writes
        files.append(tmp_path / f"{day}.{kind}")
        output.save_figure(plot.regions_figure(part), files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert dict(matplotlib.rcParams) == settings
