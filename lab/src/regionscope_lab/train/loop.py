"""``train``: one loop for classifiers on data that fits in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from regionscope.checks import check_instance, check_module, read_seed
from regionscope.errors import InputError
from regionscope.monitor.monitor import Monitor
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset, DataSplit
from regionscope_lab.train.check import parts
from regionscope_lab.train.history import EpochRow, Trained, TrainingProgress
from regionscope_lab.train.session import Hooks, Session
from regionscope_lab.train.state import TrainState


def train(
    model: nn.Module,
    data: DataSplit | Dataset,
    training: Training,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    replay: bool = False,
    compiled: bool = False,
    monitors: Sequence[Monitor] = (),
    state: TrainState | None = None,
    save_state: Callable[[TrainState], object] | None = None,
    state_every: float = 30.0,
    on_checkpoint: Callable[[int, int, nn.Module], object] | None = None,
    on_epoch: Callable[[EpochRow], object] | None = None,
    on_progress: Callable[[TrainingProgress], object] | None = None,
) -> Trained:
    """Train ``model`` in place on ``data.train`` and return the history, with errors on both parts.

    On a CPU the same model, data, settings, seed and number of threads give the same weights bit for bit, even if
    training is interrupted and resumed with ``state``, and independently of monitors and callbacks. All randomness
    comes from ``seed``: the order of batches, dropout and augmentation each have their own stream. The global random
    state and the train/eval mode of the model are restored; its device and dtype are those of the training. If the
    model has batch normalisation, a last batch of one example is left out.

    device: device to train on, such as "cuda"; the model's own by default. It holds all data. On CUDA, images are
        stored channels-last.
    replay: whether to record a step as a CUDA graph and replay it, which can double the speed of small batches and
        small networks. Only for models that run the same operations in every step: Python code runs once.
    compiled: whether to compile the recorded step (see ``CompiledStep``); only with ``replay``, and without effect on a
        CPU.
    monitors: monitors to call at their own schedules.
    state: state to resume from, with the same settings, seed, data and kind of device.
    save_state: called with the state every ``state_every`` seconds, at checkpoints and at the end.
    on_checkpoint: called with (step, epoch, model) at the schedule ``training.checkpoints``.
    on_epoch: called after each epoch, also for epochs that are repeated after a resume.
    on_progress: called about twice a second and at the end.

    A NaN or infinite loss ends the training with the status "diverged". The loss is checked every 256 steps and after
    each epoch, so that a GPU does not wait at every step. Cost: within a few per cent of a hand-written loop.
    """
    check_module(model, otherwise="Wrap the function in a module.")
    check_instance("train()", training, Training, advice="Write Training(epochs=10, lr=0.1)")
    if isinstance(monitors, Monitor) or not all(isinstance(monitor, Monitor) for monitor in monitors):
        raise InputError("Expected monitors to be a list of Monitor. Write monitors=[monitor].")
    read_seed(seed)
    hooks = Hooks(tuple(monitors), save_state, state_every, on_checkpoint, on_epoch, on_progress)
    train_set, test_set = parts(data)
    session = Session(
        model, train_set, test_set, training, seed=seed, device=device, hooks=hooks, replay=replay, compiled=compiled
    )
    return session.run(state)
