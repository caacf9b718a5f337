"""The ids of the tests are the same in every process, so that parallel workers agree on what to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def collection(hash_seed: int, *arguments: str) -> subprocess.Popen[str]:
    """A process that prints the ids of the tests; a hash seed changes the order of every set of strings."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=TESTS.parent, env={**os.environ, "PYTHONHASHSEED": str(hash_seed)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def ids(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return [line for line in output.splitlines() if "::" in line]


def by_file(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: name.partition("::")[0])


@pytest.mark.slow
def test_another_process_collects_the_same_tests(request: pytest.FixtureRequest) -> None:
    """Every test function of this session, in the order of its file; the other process starts seconds later."""
    own = [item.nodeid for item in request.session.items if isinstance(item, pytest.Function)]
    here, found = set(own), ids(collection(2, "-o", "addopts=", "--import-mode=importlib", "tests"))
    assert len(found) > 1000
    assert by_file([name for name in found if name in here]) == by_file(own)


def test_an_id_that_depends_on_the_clock_is_seen(tmp_path: Path) -> None:
    """The comparison can fail: these ids hold the time and the order of a set."""
    source = (
        "import time\nimport pytest\n\n@pytest.mark.parametrize('now', [time.time_ns()])\n"
        "def test_clock(now): pass\n\n@pytest.mark.parametrize('word', set('abcdefgh'))\ndef test_set(word): pass\n"
    )
    (tmp_path / "test_odd.py").write_text(source)
    first = ids(collection(1, "-c", os.devnull, str(tmp_path)))
    second = ids(collection(2, "-c", os.devnull, str(tmp_path)))
    assert len(first) == len(second) == 9
    assert [a == b for a, b in zip(first, second, strict=True)].count(False) > 1
    assert first[0] != second[0]
