"""The file of a moving picture, GIF or MP4, from a figure that is drawn again for each frame."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regionscope.file_io import replace_file


def write_animation(figure: Figure, frames: Iterable[object], path: Path, *, fps: int) -> None:
    """Write the .gif or .mp4 file ``path``: each step of ``frames`` leaves the next frame on the figure.

    The file is whole or as before. MP4 needs ffmpeg; a failure of it is an OSError.
    """
    write = _gif if path.suffix == ".gif" else _mp4
    replace_file(path, lambda temporary: write(figure, frames, temporary, fps))


def _gif(figure: Figure, frames: Iterable[object], path: Path, fps: int) -> None:
    pictures = (_picture(figure) for _ in frames)  # one at a time: each becomes a paletted copy, a third of its size
    first = next(pictures)
    first.save(path, format="GIF", save_all=True, append_images=pictures, duration=int(1000 / fps), loop=0)


def _picture(figure: Figure) -> Any:
    from PIL import Image  # comes with matplotlib

    canvas: Any = figure.canvas
    if figure.stale:
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _mp4(figure: Figure, frames: Iterable[object], path: Path, fps: int) -> None:
    from matplotlib.animation import FFMpegWriter

    writer = FFMpegWriter(fps=fps, extra_args=["-f", "mp4"])
    try:
        with writer.saving(figure, str(path), figure.dpi):
            for _ in frames:
                writer.grab_frame()
    except subprocess.CalledProcessError as error:
        raise OSError(f"ffmpeg ended with status {error.returncode}") from error
