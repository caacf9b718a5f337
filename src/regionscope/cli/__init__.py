"""The command line program ``regionscope``: parse, call, print."""

from regionscope.cli.animate import animate
from regionscope.cli.app import app
from regionscope.cli.bounds import bounds
from regionscope.cli.complexity import complexity
from regionscope.cli.count import count
from regionscope.cli.data import data
from regionscope.cli.explore import explore
from regionscope.cli.quickstart import quickstart
from regionscope.cli.regions import decision, regions
from regionscope.cli.shallow import shallow
from regionscope.cli.study import study
from regionscope.cli.sweep import sweep
from regionscope.cli.train import train
from regionscope.cli.verify import verify

__all__ = ["app"]

app.command()(quickstart)
app.command()(regions)
app.command()(decision)
app.command()(count)
app.command()(complexity)
app.command()(bounds)
app.add_typer(shallow, name="shallow")
app.add_typer(data, name="data")
app.add_typer(sweep, name="sweep")
app.command()(train)
app.add_typer(study, name="study")
app.command()(explore)
app.command()(animate)
app.command()(verify)
