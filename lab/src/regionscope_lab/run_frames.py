"""The training frames of a stored run, for the explorer and for animations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regionscope.default_slice import default_slice
from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.monitor.frames import ModelAtStep, TrainingFrames, frames_of_models, thin
from regionscope.types import Progress
from regionscope_lab.data import registry
from regionscope_lab.store import RunFolder


def frames_of_run(
    run: RunFolder,
    *,
    slice: Slice | None = None,
    frames: int | None = None,
    data_root: Path | None = None,
    class_names: Sequence[str] | None = None,
    max_regions: int | None = None,
    progress: Progress | None = None,
) -> TrainingFrames:
    """The frames of a stored run, one for each checkpoint.

    slice: of dimension 1 or 2; the default is ``default_slice`` of its training data. frames: at most so
    many, spread evenly, the first and the last among them. class_names: one name for each class; by default those of
    Fashion-MNIST, CIFAR-10 and folders of images, and numbers for other data. max_regions: number of regions in a frame
    at which to stop with ``LimitReached``. progress: called with the finished share of the work, 0 to 1. Cost: two
    exact partitions for each frame, one of them cut further at the decision boundary.
    """
    stored = run.checkpoints()
    if not stored:
        raise InputError(
            f'No checkpoints found in the run {str(run.path)!r}. Train it with checkpoints = "every 5 epochs" '
            "under [training]."
        )
    chosen = [stored[i] for i in thin(len(stored), frames)]
    data = run.split(data_root).train
    rows = run.rows()
    moments = (ModelAtStep(checkpoint.step, run.model_at(checkpoint), checkpoint.epoch) for checkpoint in chosen)
    left_out = f"{len(chosen)} of {len(stored)} checkpoints are shown."
    training = frames_of_models(
        moments, default_slice(data.inputs, data.labels) if slice is None else slice,
        inputs=data.inputs, labels=data.labels, rows=rows, title=run.experiment.label, n_frames=len(chosen),
        notes=(*run.repaired, *([left_out] if len(chosen) < len(stored) else [])),
        class_names=class_names, max_regions=max_regions, progress=progress,
    )  # fmt: skip
    training = replace(training, input_names=registry.column_names(run.experiment.data.name))
    if class_names is not None:
        return training
    known = registry.class_names(run.experiment.data.name)
    return replace(training, class_names=known) if len(known) == len(training.class_names) else training
