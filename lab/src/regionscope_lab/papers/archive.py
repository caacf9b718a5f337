"""Runs of studies in one small file that is kept under version control: everything but the weights.

An archive is a zip of ``runs/KEY/`` (settings, provenance, rows and result of ended runs) and ``computed/`` (answers),
named as in the folder of the studies. Keys name what was computed, so archives are merged by taking what either has.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from regionscope.errors import Damaged, InputError
from regionscope.file_io import replace_file
from regionscope_lab.store import ENDED, RunFolder
from regionscope_lab.store.files import encode_document, read_document

_FILES = ("config.json", "data.json", "provenance.json", "rows.jsonl", "result.json")
_LOCAL = ("command", "host", "system")  # of a provenance: they tell about a machine, not about a number
_NAMES = re.compile(r"runs/[0-9a-f]{16}/(config|data|provenance|result)\.json|runs/[0-9a-f]{16}/rows\.jsonl|"
                    r"computed/[\w.-]+\.json")  # fmt: skip


def pack(folder: Path, archive: Path) -> int:
    """Add the ended runs and the answers of ``folder`` to ``archive``, and return the number of runs that it has then.

    What the archive has already stays as it is, and its runs are not read again: checking a run reads its weights. The
    same content gives the same bytes.
    """
    content = _read(archive) if archive.exists() else {}
    for path in sorted((folder / "runs").glob("*/config.json")):
        if f"runs/{path.parent.name}/result.json" not in content:
            content |= _light(path.parent)
    for path in sorted((folder / "computed").glob("*.json")):
        content.setdefault(f"computed/{path.name}", path.read_bytes())
    if not content:
        raise InputError(f"No ended run found in {str(folder / 'runs')!r}. Pass the folder in which studies ran.")
    archive.parent.mkdir(parents=True, exist_ok=True)
    replace_file(archive, lambda temporary: _write(temporary, content))
    return len({name.split("/")[1] for name in content if name.startswith("runs/")})


def unpack(archive: Path, folder: Path) -> int:
    """Add the runs and answers of an archive, or of all archives in a folder, that ``folder`` lacks; return how many
    runs were added. They have no weights."""
    if not archive.exists():
        raise InputError(f"No archive found at {str(archive)!r}. Pass a file that `paper pack` wrote, or its folder.")
    added = 0
    for path in sorted(archive.glob("*.zip")) if archive.is_dir() else [archive]:
        runs: dict[str, dict[str, bytes]] = defaultdict(dict)
        for name, raw in _read(path).items():
            place, _, rest = name.partition("/")
            if place == "runs":
                key, _, file = rest.partition("/")
                runs[key][file] = raw
            elif not (folder / name).exists():
                (folder / place).mkdir(parents=True, exist_ok=True)
                replace_file(folder / name, lambda temporary, raw=raw: temporary.write_bytes(raw))  # type: ignore[misc]
        added += sum(_restore(folder / "runs" / key, files) for key, files in runs.items())
    return added


def _light(run: Path) -> dict[str, bytes]:
    """The small files of an ended run by their names in an archive; nothing for a run that has not ended."""
    try:
        if RunFolder.open(run).status not in ENDED:
            return {}
        provenance, result = (read_document(run / name) or {} for name in ("provenance.json", "result.json"))
    except Damaged:
        return {}
    result.pop("checkpoints", None)  # or the run would count as damaged without them
    every = [provenance, *provenance.pop("earlier", [])]
    first, *earlier = [{name: value for name, value in one.items() if name not in _LOCAL} for one in every]
    files = {name: (run / name).read_bytes() for name in _FILES if (run / name).exists()}
    files["provenance.json"] = encode_document({**first, "earlier": earlier})
    files["result.json"] = encode_document(result)
    return {f"runs/{run.name}/{name}": raw for name, raw in files.items()}


def _restore(run: Path, files: Mapping[str, bytes]) -> bool:
    """Write the folder of a run, whole or not at all; one that is there stays."""
    if run.exists():
        return False
    run.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=run.parent, prefix=".unpack-") as part:
        whole = Path(part) / run.name
        whole.mkdir()
        for name, raw in files.items():
            (whole / name).write_bytes(raw)
        whole.rename(run)
    return True


def _read(archive: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(archive) as file:
            content = {name: file.read(name) for name in file.namelist()}
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{str(archive)!r} is not an archive of runs: {error}. Write it with `paper pack`.") from error
    for name in content:
        if not _NAMES.fullmatch(name):
            raise InputError(
                f"Expected runs and answers in {str(archive)!r}, got a file {name!r}. Write it with `paper pack`."
            )
    return content


def _write(path: Path, content: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name in sorted(content):
            file.writestr(zipfile.ZipInfo(name), content[name], zipfile.ZIP_DEFLATED)
