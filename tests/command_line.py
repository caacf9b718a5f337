"""The commands of regionscope, run inside the test's own process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from regionscope.cli import app


def run(command: str, *further: str) -> Result:
    """Run the words of ``command``, where :NAME stands for --model net.py:NAME. further: words that may hold blanks."""
    return CliRunner().invoke(app, [*words_of(command), *further])


def words_of(command: str) -> list[str]:
    return [f"--model=net.py{word}" if word.startswith(":") else word for word in command.split()]
