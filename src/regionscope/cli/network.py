"""The network that --model, --weights and --device name."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from torch import nn

from regionscope.cli import options
from regionscope.lab import load
from regionscope.network import home


def read_network(model: str, weights: Path | None, device: str = "cpu") -> nn.Module:
    """Build the network, load its weights where a file came, and bring it to the device."""
    network = load.load_model(model)
    if weights is not None:
        load.load_weights(network, weights)
    home(network)  # says that weights have no values, where torch would raise
    return network.to(options.read_device(device))


def note_weights(model: str, weights: Path | None, json_file: str | None) -> None:
    """Say below the result that it is about weights as the code makes them, which are often random."""
    if weights is None and json_file != "-" and not load.is_onnx(model):
        Console(soft_wrap=True).print(
            f"Weights as {model} makes them: no --weights was given.", style="dim", markup=False, highlight=False
        )
