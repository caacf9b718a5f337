"""``regionscope verify``: decide a property of a network, with the result file of the competition."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from regionscope.cli import load, options, output
from regionscope.cli.command_line import note_file
from regionscope.errors import InputError, RegionscopeError
from regionscope.formatting import counted, described
from regionscope.verification import Property, Verification, read_vnnlib
from regionscope.verification import verify as decide

_MOST_PRINTED = 20  # entries of a witness
_GRACE = 1.0  # seconds, in which a search stops by itself and says how far it came


class _Late(BaseException):
    """The time is over; not an Exception, since libraries that read files catch those."""


def verify(
    network: Annotated[str, typer.Argument(metavar="NET.onnx", help="Network: .onnx, .onnx.gz, or WHERE:NAME.")],
    property_file: Annotated[Path, typer.Argument(metavar="PROP.vnnlib", help="Property: .vnnlib or .vnnlib.gz.")],
    files: Annotated[
        list[Path] | None,
        options.option(
            "--output -o FILE",
            "File to write: .json, or with any other ending the verdict and the witness in the format of VNN-COMP; can "
            "be repeated.",
        ),
    ] = None,
    timeout: Annotated[
        float | None, options.option("--timeout SECONDS", "Time after which to stop, including reading.", least=0)
    ] = None,
    fix: Annotated[
        list[str] | None, options.option("--fix I=VALUE,...", "Inputs (from 0) to fix at a value; can be repeated.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Decide whether a network has a counterexample to a VNN-LIB property, for boxes with at most three free inputs.

    Prints sat, unsat, unknown or timeout and exits with 0; an error exits with 2 and writes "error" to the file.

    Example: regionscope verify net.onnx property.vnnlib -o result.txt --timeout 600
    """
    results = [path for path in files or () if path.suffix not in output.JSON]
    for path in results:
        output.check_folder(path)
    start = time.monotonic()
    try:
        output.check_files(output.with_ending(files or (), output.JSON), output.JSON)
        with _interrupted_after(timeout):
            model, property = load.load_model(network, weights=False), read_vnnlib(property_file)
            note_file(property_file)
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - start))
            verdict = decide(model, property.fixed(_fixed(fix or [])), timeout=left)
            text = result_text(verdict, property)
    except _Late:
        reason = "The time limit was reached before the search could answer."
        seconds = time.monotonic() - start
        verdict = Verification("timeout", -math.inf, math.inf, 0.0, None, None, 0, seconds, reason)
        text = "timeout\n"
    except Exception as error:
        for path in results:
            output.write_text(path, "error\n")
        if isinstance(error, RegionscopeError | typer.Exit):
            raise
        raise RegionscopeError(
            f"Expected a verdict, but the verification failed with {described(error)} This is a fault of regionscope "
            "or of a library. Please report it with both files."
        ) from error
    for path in results:
        output.write_text(path, text)
    if not as_json:
        typer.echo(_summary(verdict))
    output.write_result(_document(verdict), files or (), printed=as_json)


@contextmanager
def _interrupted_after(timeout: float | None) -> Iterator[None]:
    """Raise ``_Late`` shortly after the timeout; without signals (Windows, threads) reading is not interrupted."""
    main = threading.current_thread() is threading.main_thread()
    if timeout is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, timeout + _GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def result_text(verdict: Verification, property: Property) -> str:
    """The result file: the verdict, and for sat the witness as an assignment to the variables of the property.

    To X_i and Y_i; for a property of version 2 each tensor as it is declared, followed by a line for each entry.
    """
    if verdict.witness is None or verdict.outputs is None:
        return f"{verdict.verdict}\n"
    values = {"input": verdict.witness.reshape(-1).tolist(), "output": verdict.outputs.reshape(-1).tolist()}
    if property.declared:
        tensors = ["\n".join([header, *map(repr, values[kind])]) for kind, header in property.declared]
        return "\n".join([verdict.verdict, *tensors]) + "\n"
    pairs = [
        *(f"(X_{i} {value!r})" for i, value in enumerate(values["input"])),
        *(f"(Y_{i} {value!r})" for i, value in enumerate(values["output"])),
    ]
    return f"{verdict.verdict}\n({chr(10).join(pairs)})\n"


def _fixed(texts: list[str]) -> dict[int, Fraction]:
    values = {}
    for text in ",".join(texts).split(",") if texts else []:
        place, _, value = text.partition("=")
        try:
            values[int(place)] = Fraction(value)
        except (ValueError, ZeroDivisionError) as error:
            raise InputError(
                f"Expected --fix I=VALUE,... with numbers, got {text!r}. Write 0=0.5, for example."
            ) from error
    return values


def _summary(verdict: Verification) -> str:
    lines = [
        verdict.verdict,
        f"{verdict.reason} {verdict.n_regions:,} regions, {verdict.seconds:.3g} s.",
        f"margin: {verdict.margin:.9g} (at most {verdict.bound:.9g}; rounding {verdict.rounding:.1e})",
    ]
    if verdict.witness is not None:
        values = verdict.witness.reshape(-1).tolist()
        more = (
            f", ... ({counted(len(values), 'input')}; --output and --json have all)"
            if len(values) > _MOST_PRINTED
            else ""
        )
        lines.append(f"witness: [{', '.join(map(repr, values[:_MOST_PRINTED]))}{more}]")
    return "\n".join(lines)


def _document(verdict: Verification) -> dict[str, object]:
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "margin": verdict.margin,
        "bound": verdict.bound,
        "rounding": verdict.rounding,
        "regions": verdict.n_regions,
        "seconds": verdict.seconds,
        "witness": None if verdict.witness is None else verdict.witness.reshape(-1).tolist(),
        "outputs": None if verdict.outputs is None else verdict.outputs.reshape(-1).tolist(),
    }
