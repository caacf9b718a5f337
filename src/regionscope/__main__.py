"""``python -m regionscope`` is the command line program."""

from regionscope.cli import app

if __name__ == "__main__":
    app(prog_name="python -m regionscope")
