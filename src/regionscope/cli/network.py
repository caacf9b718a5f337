"""The network that --model, --weights, --device and --output name."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from torch import nn

from regionscope.cli import options
from regionscope.lab import load
from regionscope.network import home
from regionscope.network.output import select_output


def read_network(model: str, weights: Path | None, device: str = "cpu", output: str | None = None) -> nn.Module:
    """Build the network, load its weights where a file came, bring it to the device, and choose its output."""
    network = load.load_model(model)
    if weights is not None:
        load.load_weights(network, weights)
    home(network)  # says that weights have no values, where torch would raise
    found: nn.Module = select_output(network.to(options.read_device(device)), options.read_output(output))
    return found


def note_weights(model: str, weights: Path | None, json_file: str | None) -> None:
    """Say below the result that it is about weights as the code makes them, which are often random."""
    if weights is None and json_file != "-" and not load.is_onnx(model):
        Console(soft_wrap=True).print(
            f"Weights as {model} makes them: no --weights was given.", style="dim", markup=False, highlight=False
        )
