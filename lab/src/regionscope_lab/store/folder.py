"""A run is a folder named by the key of its experiment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from regionscope.checks import check_instance, read_path, unknown_name
from regionscope.errors import Damaged, InputError, RegionscopeError
from regionscope.file_io import append_bytes, full_disk_as_error, parse_json
from regionscope.monitor.rows import as_mapping, encode, parse, with_stderr
from regionscope_lab.config import Experiment
from regionscope_lab.store import files, repair
from regionscope_lab.store.lock import Lock, is_held
from regionscope_lab.store.row_files import extended, fingerprint
from regionscope_lab.user_files import unchanged_name

if TYPE_CHECKING:
    from regionscope_lab.data import DataSplit
    from regionscope_lab.train import TrainState

ENDED = ("finished", "diverged")  # such a run is never done again; a failed one is, on the next start


def unfinished_status(path: Path) -> str:
    """Of a run without a result: running, stopped or new."""
    if is_held(path):
        return "running"
    begun = any((path / name).exists() for name in ("rows.jsonl", "state.safetensors", "provenance.json"))
    return "stopped" if begun else "new"


@dataclass(frozen=True)
class Stored:
    """One checkpoint on disk."""

    step: int
    epoch: int
    path: Path


class RunFolder:
    """The files of one run. ``repaired`` lists a message for every damaged file.

    config.json, provenance.json, data.json (shape and size), rows.jsonl, result.json, state.safetensors (while it is
    not finished), checkpoints/step-00000100.safetensors. Any process may read at any time; a writer must hold
    ``claim()``.
    """

    def __init__(self, path: Path, experiment: Experiment) -> None:
        self.path = read_path(path)
        self.experiment = check_instance(
            "experiment", experiment, Experiment, advice="Open a stored run with RunFolder.open"
        )
        self.repaired: list[str] = []
        self._lock: Lock | None = None
        self._stored_keys: set[tuple[int, str]] | None = None  # (step, name) of the rows in the file
        self._rows_fingerprint: dict[str, Any] | None = None  # of the file, as it was last written here

    @classmethod
    def create(cls, runs_dir: Path | str, experiment: Experiment) -> RunFolder:
        """The folder of this experiment; created if it is missing. A damaged config is written again."""
        check_instance("experiment", experiment, Experiment, advice="Write Experiment(data=..., network=...)")
        path = read_path(runs_dir) / experiment.key
        folder = cls(path, experiment)
        if path.is_file():
            folder.note(f"{path} is a file, not a folder. It was set aside as {files.set_aside(path).name}.")
        files.make_folder(path, runs_dir)
        config = path / "config.json"
        try:
            known = files.read_document(config)
        except Damaged as damage:
            folder.note(f"{damage} It was set aside as {files.set_aside(config).name} and written again.")
            known = None
        if known is None:
            files.write_document(config, experiment.to_dict())
        return folder

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Open an existing run."""
        path = read_path(path)
        with _repairable():
            document = files.read_document(path / "config.json")
        if document is None:
            raise InputError(
                f"No run found at {str(path)!r}. Pass a folder that `regionscope-lab train` or `sweep run` created."
            )
        return cls(path, Experiment.from_dict(document))

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r}, {self.status})"

    @property
    def key(self) -> str:
        return self.path.name

    @property
    def status(self) -> str:
        """One of new, running (in a live process), stopped (can be resumed), finished, diverged, failed."""
        result = self.result()
        if result is not None:
            return str(result["status"])
        return unfinished_status(self.path)

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions and machine of the computation; empty before the first start."""
        return self._read("provenance.json") or {}

    def result(self) -> dict[str, Any] | None:
        """The result of the run; None if there is no readable one."""
        result = self._read("result.json")
        if result is not None and "measures" in result:
            result["measures"] = {name: with_stderr(number) for name, number in result["measures"].items()}
        return result

    def rows(self) -> list[dict[str, Any]]:
        """All rows (step, name, value, stderr, seconds; epoch for errors and loss), each (step, name) once."""
        parsed = parse(self._raw_rows())
        for sentence in parsed.complaints(self.path / "rows.jsonl"):
            self.note(sentence)
        return parsed.rows

    def checkpoints(self) -> list[Stored]:
        """The stored weights, in the order of training. Incomplete files are left out and listed in ``repaired``."""
        stored = []
        for path in repair.checkpoint_files(self.path):
            try:
                notes = files.read_tensor_header(path)
                stored.append(Stored(int(notes["step"]), int(notes["epoch"]), path))
            except (Damaged, KeyError, ValueError) as damage:
                self.note(f"{path} is not a complete checkpoint and was left out: {damage}")
        return stored

    def checkpoint(self, step: int | None = None) -> Stored:
        """The stored weights of this step; by default the last ones."""
        stored = self.checkpoints()
        if not stored:
            raise InputError(
                f"Expected stored weights in the run {self.path}, got none (archives of runs leave them out). "
                "Remove the folder and train it again with `regionscope-lab train`, `sweep run` or `paper run`."
            )
        for checkpoint in stored:
            if checkpoint.step == step:
                return checkpoint
        if step is None:
            return stored[-1]
        raise unknown_name(
            f"a step with stored weights in the run {self.path}",
            step,
            [str(checkpoint.step) for checkpoint in stored],
            most=20,
        )

    def model_at(self, stored: Stored) -> nn.Module:
        """The network with the weights of a checkpoint, in eval mode, on the CPU, in the dtype of its training."""
        with _repairable():
            tensors, _ = files.read_tensors(stored.path)
        model = self._network().to(torch.float64 if self.experiment.training.precision == "float64" else torch.float32)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise RegionscopeError(
                f"Expected weights of the network of {self.path}, got others in {stored.path}: {error}. "
                "Train the run again."
            ) from error
        return model.eval()

    def split(self, root: Path | None = None) -> DataSplit:
        """The data of this run, loaded again."""
        from regionscope_lab.data import load

        return load(self.experiment.data, root=root)

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Lock this run. Raises ``Busy`` if another process holds it. Damaged files are set aside first."""
        self._lock = Lock(self.path)
        self._rows_fingerprint = None  # another process may have written since
        try:
            if self._lock.moved:
                self.note(self._lock.moved)
            if self._lock.took_over is not None:
                self.note(f"{self.path}: {self._lock.took_over} died while it worked on this run, which is taken over.")
            for sentence in repair.repair_folder(self.path):
                self.note(sentence)
            yield
        finally:
            self._lock.release()
            self._lock = None

    @property
    def is_done(self) -> bool:
        """Whether the run has ended and its files are intact. Changes nothing."""
        return self._has_ended() and repair.is_intact(self.path)

    def verify(self) -> bool:
        """Whether the run has ended and its result is valid. Renames damaged files, so call ``claim()`` first."""
        for sentence in repair.verify(self.path):
            self.note(sentence)
        return self._has_ended()

    def _has_ended(self) -> bool:
        result = self.result()
        return result is not None and result["status"] in ENDED

    def append(self, rows: Iterable[Any]) -> None:
        """Add rows; a row whose (step, name) already exists is left out."""
        self._check_lock()
        if self._stored_keys is None:
            self._stored_keys = {(row["step"], row["name"]) for row in self.rows()}
        new = []
        for row in map(as_mapping, rows):
            if (row["step"], row["name"]) not in self._stored_keys:
                self._stored_keys.add((row["step"], row["name"]))
                new.append(row)
        if new:
            before, lines = self._fingerprint(), encode(new)
            append_bytes(self.path / "rows.jsonl", lines)
            self._rows_fingerprint = extended(before, lines)

    def save_checkpoint(self, step: int, epoch: int, model: nn.Module) -> Stored:
        """Save the current weights."""
        self._check_lock()
        folder = self.path / "checkpoints"
        with full_disk_as_error(folder):
            folder.mkdir(exist_ok=True)
        path = folder / f"step-{step:08d}.safetensors"
        files.write_tensors(path, model.state_dict(), {"step": str(step), "epoch": str(epoch)})
        return Stored(step, epoch, path)

    def save_state(self, state: TrainState) -> None:
        """Save the state from which training resumes, and the rows that exist at this step."""
        self._check_lock()
        rows = self._fingerprint()
        plain = json.dumps({"step": state.step, "meta": dict(state.meta)})
        notes = {"rows_bytes": str(rows["bytes"]), "rows_crc32": str(rows["crc32"]), "state": plain}
        notes["checkpoints"] = " ".join(path.name for path in repair.checkpoint_files(self.path))
        files.write_tensors(self.path / "state.safetensors", state.tensors, notes)

    def load_state(self) -> TrainState | None:
        """The saved state, or None. Rows that were written after it are dropped, so call ``claim()`` first."""
        from regionscope_lab.train import TrainState

        if self._lock is None:
            raise RegionscopeError(
                f"Expected a claimed run, got {self.path} without a claim. Use `with folder.claim():` first."
            )
        state, messages = repair.resume(self.path)
        for sentence in messages:
            self.note(sentence)
        self._stored_keys = self._rows_fingerprint = None
        if state is None:
            return None
        plain = parse_json(state.notes["state"])
        return TrainState(plain["step"], state.tensors, plain["meta"])

    def describe(self, provenance: Mapping[str, Any], split: DataSplit) -> None:
        """Write the provenance of the run, and the shape and size of its data."""
        self._check_lock()
        shape = {"input_shape": list(split.input_shape), "classes": split.n_classes}
        size = {"n_train": len(split.train.inputs), "n_test": len(split.test.inputs)}
        files.write_document(self.path / "data.json", shape | size)
        before = self.provenance
        earlier = [*before.pop("earlier", []), before] if before else []
        files.write_document(self.path / "provenance.json", {**provenance, "earlier": earlier})

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the result, and delete the saved state."""
        self._check_lock()
        marks = {path.name: files.tensor_mark(path) for path in repair.checkpoint_files(self.path)}
        kept = {"rows": fingerprint(self._raw_rows()), "checkpoints": marks}
        files.write_document(self.path / "result.json", {**result, **kept})
        if result["status"] in ENDED:
            files.remove(self.path / "state.safetensors")

    def begin_again(self) -> None:
        """Delete a failure, so that the run can be tried again from its last saved state."""
        self._check_lock()
        files.remove(self.path / "result.json")

    def note(self, sentence: str) -> None:
        if sentence not in self.repaired:
            self.repaired.append(sentence)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return files.read_document(self.path / name)
        except Damaged as damage:
            self.note(f"{damage} It was left out.")
            return None

    def _raw_rows(self) -> bytes:
        try:
            return (self.path / "rows.jsonl").read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            return b""

    def _fingerprint(self) -> dict[str, Any]:
        """The fingerprint of the rows file; the file is read only if its length differs from what was written here."""
        path = self.path / "rows.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if self._rows_fingerprint is None or self._rows_fingerprint["bytes"] != size:
            self._rows_fingerprint = fingerprint(self._raw_rows())
        return self._rows_fingerprint

    def _check_lock(self) -> None:
        """Raise ``LockLost`` if this run was claimed and another process has taken it over."""
        if self._lock is not None:
            self._lock.check()

    def _network(self) -> nn.Module:
        from regionscope_lab import zoo

        shape = self._read("data.json")
        if shape is None:
            split = self.split()
            shape = {"input_shape": split.input_shape, "classes": split.n_classes}
        spec, (size, classes) = self.experiment.network, (tuple(shape["input_shape"]), shape["classes"])
        name = unchanged_name(spec.name, spec.source, self.path)
        return zoo.build(
            name, classes=classes, input_shape=size, seed=self.experiment.seed, output=spec.output, **spec.options
        )


@contextmanager
def _repairable() -> Iterator[None]:
    """Add to the error for a damaged file how to repair it."""
    try:
        yield
    except Damaged as damage:
        raise Damaged(f"{damage} Start the run again to repair it.") from damage
