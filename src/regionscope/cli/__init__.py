"""The command line program ``regionscope``: parse, call, print."""

from regionscope.cli.bounds import bounds
from regionscope.cli.commands import app
from regionscope.cli.complexity import complexity
from regionscope.cli.count import count
from regionscope.cli.shallow import shallow

__all__ = ["app"]

app.command()(count)
app.command()(complexity)
app.command()(bounds)
app.add_typer(shallow, name="shallow")
