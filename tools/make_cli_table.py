"""Write the tables of all commands and options that help and shell completion read: python tools/make_cli_table.py"""

from __future__ import annotations

import json
from importlib import import_module

from regionscope.cli import table


def main() -> None:
    """Import every command and write what its signature says."""
    for name in ("regionscope.cli.app", "regionscope_lab.cli.app"):
        program = import_module(name)
        program.TABLE.write_text(text_of(table.describe(program.COMMANDS)) + "\n", encoding="utf-8")
        print(f"wrote {program.TABLE}")


def text_of(commands: table.CommandTable) -> str:
    """JSON with one option in each line."""
    lines = []
    for name, entry in commands.items():
        plain = {key: value for key, value in entry.items() if key not in ("commands", "parameters")}
        if "commands" in entry:
            inside = f'"commands": {text_of(entry["commands"])}'
        else:
            each = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entry["parameters"].items())
            inside = '"parameters": {\n' + ",\n".join(each) + "}"
        lines.append(f"{json.dumps(name)}: {json.dumps(plain)[:-1]},\n{inside}}}")
    return "{" + ",\n".join(lines) + "}"


if __name__ == "__main__":
    main()
