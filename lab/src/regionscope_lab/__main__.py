"""``python -m regionscope_lab`` is the command line program."""

from regionscope_lab.cli import app

if __name__ == "__main__":
    app(prog_name="python -m regionscope_lab")
