"""The commands of regionscope-lab, run inside the test's own process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from regionscope_lab.cli import app


def run(command: str, *further: str) -> Result:
    """Run the words of ``command``. further: words that may contain blanks."""
    return CliRunner().invoke(app, [*command.split(), *further])
