"""``regionscope-lab train``: one experiment from options or a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from regionscope.cli import options, output
from regionscope.errors import InputError, RegionscopeError, Stopped
from regionscope.formatting import estimated
from regionscope_lab import instruments, zoo
from regionscope_lab.cli import options as lab_options
from regionscope_lab.cli.options import ProgressOption
from regionscope_lab.cli.running import duration, epochs_bar, interruptible
from regionscope_lab.config import Experiment
from regionscope_lab.data import names as data_names
from regionscope_lab.experiment import prepare, run
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import parse_toml, read_experiment, read_toml
from regionscope_lab.train import TrainingProgress

_TRAINING = "Training"


def train(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="EXPERIMENT.toml", help=escape("TOML file with data, network, training, seed and [[measure]].")
        ),
    ] = None,
    data: Annotated[
        str | None, options.option("--data", lab_options.DATA_HELP, lab_options.EXPERIMENT, complete=data_names)
    ] = None,
    network: Annotated[
        str | None,
        options.option(
            "--network", f"Network: one of {', '.join(zoo.names())}.", lab_options.EXPERIMENT, complete=zoo.names
        ),
    ] = None,
    model: lab_options.OwnModelOption = None,
    head: options.HeadOption = None,
    measure: Annotated[
        list[str] | None,
        options.option(
            "--measure",
            "Instrument to measure at the end of training; can be repeated.",
            lab_options.EXPERIMENT,
            complete=instruments.names,
        ),
    ] = None,
    epochs: Annotated[int | None, options.option("--epochs", "Number of epochs.", _TRAINING, least=1)] = None,
    lr: Annotated[float | None, options.option("--lr", "Learning rate.", _TRAINING)] = None,
    seed: Annotated[int | None, options.option("--seed", "Seed for weights and batches.", _TRAINING, least=0)] = None,
    settings: Annotated[
        list[str] | None,
        options.option("--set KEY=VALUE", "Any setting, such as training.momentum=0; can be repeated.", _TRAINING),
    ] = None,
    runs: lab_options.RunsOption = Path("runs"),
    device: options.DeviceOption = "cpu",
    as_json: options.JsonOption = False,
    progress: ProgressOption = None,
) -> None:
    """Train one network, measure it, and store the run in a folder. Run the command again to resume.

    Example: regionscope-lab train --data two_moons --network mlp --epochs 50 --measure linear_regions

    Example: regionscope-lab train --data points.npz --model net.py:build --epochs 50
    """
    if network is not None and model is not None:
        raise InputError(f"Expected --network or --model, got both ({network} and {model}). Leave one out.")
    shown: dict[str, Any] = {"data.name": data, "network.name": network or model, "network.output": head}
    shown |= {"seed": seed, "training.epochs": epochs, "training.lr": lr}
    experiment = _experiment(file, shown, settings or [], measure or [])
    torch_device = options.read_device(device)
    before = runs / experiment.key
    had_ended = (before / "result.json").exists() and RunFolder(before, experiment).is_done
    if not before.exists():
        # before the run, so that a start that fails leaves no folder
        for sentence in prepare(experiment, device=torch_device):
            typer.echo(sentence, err=True)
    folder = _run(experiment, runs, device=torch_device, progress=progress)
    _report(folder, as_json, had_ended=had_ended)


def _experiment(file: Path | None, shown: dict[str, Any], settings: list[str], measures: list[str]) -> Experiment:
    """The experiment of the file, if there is one, with the settings and measures of the command line.

    shown: settings with an option of their own, None where it was left out. settings: those of --set.
    """
    given = {key: value for key, value in shown.items() if value is not None} | dict(map(_setting, settings))
    if file is None and not (shown["data.name"] and shown["network.name"]):
        raise InputError(
            "Expected --data with --network or --model, or an EXPERIMENT.toml, got less. Run, for example: "
            "regionscope-lab train --data two_moons --network mlp"
        )
    document = {} if file is None else read_toml(file)
    if measures:
        document["measure"] = [*_measures(document), *({"instrument": name} for name in measures)]
    return read_experiment(document, given)


def _run(experiment: Experiment, runs: Path, *, device: torch.device, progress: bool | None) -> RunFolder:
    """Train with a progress bar. Ctrl-C stores the state and exits with code 3; repairs are printed at the end."""
    repairs: list[str] = []
    with interruptible() as stop, epochs_bar(experiment.training.epochs, progress) as bar:

        def advance(now: TrainingProgress) -> None:
            bar(now.epoch if now.step == now.total_steps else now.epoch - 1, now.loss)

        try:
            return run(
                experiment, runs, device=device, on_progress=advance, on_measure=bar.measuring, stop=stop,
                on_repair=repairs.append,
            )  # fmt: skip
        except Stopped as stopped:
            typer.echo(str(stopped), err=True)
            raise typer.Exit(3) from stopped
        finally:
            for sentence in repairs:
                typer.echo(f"repaired: {sentence}", err=True)


def _measures(document: dict[str, Any]) -> list[Any]:
    """The measures of the file, to which those of --measure are added."""
    measures = document.get("measure", [])
    if not isinstance(measures, list):
        raise InputError(f"Expected a list of tables as measure, got {measures!r}. Write [[measure]] above each.")
    return measures


def _setting(text: str) -> tuple[str, Any]:
    """A dotted key and a value as TOML writes it; what is not TOML is a text."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise InputError(
            f"Expected --set such as training.momentum=0.5, got {text!r}. Write KEY=VALUE with a key of the experiment."
        )
    try:
        return key.strip(), parse_toml(f"value = {value}")["value"]
    except InputError:
        raise
    except ValueError:
        return key.strip(), value.strip()


def _report(folder: RunFolder, as_json: bool, *, had_ended: bool) -> None:
    result = folder.result()
    if result is None or result["status"] == "failed":
        error = str((result or {}).get("error", "No result was written")).rstrip(".")
        raise RegionscopeError(f"The run failed: {error}. Remove the cause, then run the command again.")
    if as_json:
        document = {"key": folder.key, "experiment": folder.experiment.to_dict(), "result": result}
        typer.echo(output.json_text({**document, "provenance": folder.provenance}))
    else:
        table = Table("", Column("", justify="right"), show_header=False)
        table.add_row("status", result["status"])
        for name in ("train_loss", "train_error", "test_error", "gap"):
            if result[name] is not None:
                table.add_row(name.replace("_", " "), f"{result[name]:.4g}")
        for name, number in result["measures"].items():
            table.add_row(name, "" if number["value"] is None else estimated(number["value"], number["stderr"]))
        table.add_row("training time", duration(result["seconds"]))
        console = Console()
        console.print(folder.experiment.label, highlight=False, markup=False)
        console.print(table)
        ended = "; the run had ended before, and nothing was trained" if had_ended else ""
        typer.echo(f"stored in {folder.path}{ended}")
