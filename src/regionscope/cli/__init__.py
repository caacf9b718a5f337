"""The command line program ``regionscope``: parse, call, print."""

from regionscope.cli.commands import app
from regionscope.cli.complexity import complexity
from regionscope.cli.count import count

__all__ = ["app"]

app.command()(count)
app.command()(complexity)
