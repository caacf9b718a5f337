"""``regionscope-lab explore`` and ``animate``: the right files, and one sentence for a mistake."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from regionscope_lab import animation
from regionscope_lab.cli import app, frames
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.experiment import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = Experiment(
        data=DataSpec(name="two_moons", n_train=40, n_test=20),
        network=NetworkSpec(name="mlp", options={"width": 6}),
        training=Training(epochs=3, optimizer="adam", lr=0.01, batch_size=20, checkpoints="every 1 epochs"),
    )
    return run(experiment, tmp_path_factory.mktemp("runs")).path


def call(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None)
    return result.output


def test_explore_writes_one_page_without_links(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named after the run; the folder of a single run stands for it."""
    monkeypatch.chdir(tmp_path)
    said = call("explore", folder.parent)
    assert f"wrote {folder.name}.html" in said
    assert "4 of 4 frames" in said
    (target,) = tmp_path.iterdir()
    assert target.name == f"{folder.name}.html"
    text = target.read_text(encoding="utf-8")
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=|<link\s", text)
    assert text.count('id="frame-') == 4


def test_explore_names_the_classes(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    words = ("explore", folder, "--frames", 1, "-o", target)
    call(*words)
    assert '"classes": ["0", "1"]' in target.read_text(encoding="utf-8")
    call(*words, "--class-names", "upper,lower")
    assert '"classes": ["upper", "lower"]' in target.read_text(encoding="utf-8")
    said = call(*words, "--class-names", "a,b,c", code=2)
    assert "Expected 2 class names, got 3." in " ".join(said.split())


def test_a_slow_plane_gets_advice_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advice = "A frame of more than 200,000 regions (--max-regions) is an error, perhaps after minutes. A line has"
    target = tmp_path / "page.html"
    words = ("explore", folder, "--frames", 2, "-o", target)
    (tmp_path / "box.toml").write_text("box = [-2, 3]")
    assert advice not in call(*words, "--slice", tmp_path / "box.toml")
    assert "area 25" in target.read_text(encoding="utf-8")
    monkeypatch.setattr(frames, "_SOON", 0.0)
    assert call(*words).count(advice) == 1
    assert advice not in call(*words, "--rows", "0,1")
    assert "a line in the 2 inputs, length" in target.read_text(encoding="utf-8")


def test_explore_names_the_columns_of_a_csv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 5},{i % 2},{i % 3}\n" for i in range(20))
    Path("table.csv").write_text("width,label,height\n" + rows, encoding="utf-8")
    words = ("--epochs", 1, "--runs", "runs", "--set", "training.checkpoints=every 1 epochs")
    call("train", "--network", "mlp", "--data", "table.csv", *words)
    call("explore", "runs", "--frames", 1, "-o", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert '"axis_label": "width"' in page
    assert '"axis_label": "height"' in page
    call("explore", "runs", "--frames", 1, "--rows", "0,1", "-o", "line.html")  # its axis is no column
    page = Path("line.html").read_text(encoding="utf-8")
    assert '"axis_label": "position on the slice"' in page
    assert '"axis_label": "width"' not in page


@pytest.mark.parametrize("kind", ["linear", "decision", "neurons"])
def test_animate_writes_a_gif_with_every_checkpoint(folder: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "frames.gif"
    said = call("animate", folder.parent, "-o", target, "--kind", kind)
    assert "4 frames" in said
    assert f"({target.stat().st_size / 1e3:.0f} kB, " in said
    frames: Any
    with Image.open(target) as frames:
        shown = [frames.info["duration"]]
        pictures = set()
        for i in range(frames.n_frames):
            frames.seek(i)
            shown.append(frames.info["duration"])
            pictures.add(frames.convert("RGB").tobytes())
        assert frames.size[0] == 640
    assert len(pictures) == 4
    assert not list(tmp_path.glob("*part*"))


def test_animate_names_the_classes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(animation, "animate", lambda training, target, **_: (drawn.append(training), target.touch()))
    words = ("animate", folder, "-o", tmp_path / "frames.gif", "--frames", 1, "--class-names")
    call(*words, "upper,lower", "--kind", "decision")
    assert drawn[0].class_names == ("upper", "lower")
    said = " ".join(call(*words, "a,b,c", "--kind", "decision", code=2).split())
    assert "Expected 2 class names, got 3." in said
    said = " ".join(call(*words, "upper,lower", code=2).split())
    assert "Expected --kind decision with --class-names, got --kind linear" in said
    assert len(drawn) == 1


def test_mp4_is_made_where_ffmpeg_is_and_named_where_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("ffmpeg"):
        call("animate", folder, "-o", tmp_path / "frames.mp4")
        assert (tmp_path / "frames.mp4").stat().st_size > 1000
    monkeypatch.setattr("matplotlib.animation.FFMpegWriter.isAvailable", lambda: False)
    said = call("animate", folder, "-o", tmp_path / "no.mp4", code=2)
    assert "needs ffmpeg" in said
    assert not (tmp_path / "no.mp4").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("explore", "RUN", "-o", "x.pdf"), "ends in .html"),
        (("explore", "RUN", "-o", "none/x.html"), "does not exist"),
        (("explore", "absent"), "which does not exist"),
        (("explore", "."), "No run found at"),
        (("animate", "junk.npz"), "Expected the folder of a run"),
        (("animate", "absent"), "Expected the folder of a run"),
        (("animate", "."), "No run found at"),
        (("explore", "RUN", "--rows", "a,b"), "such as 0,5,17"),
        (("explore", "RUN", "--rows", "0,1", "--slice", "box.toml"), "got both"),
        (("explore", "RUN", "--rows", "0,1,99"), "each from 0 to 39"),
        (("animate", "RUN", "--slice", "box.toml"), "Expected a TOML file"),
        (("animate", "RUN", "-o", "x.png"), ".gif or .mp4"),
        (("explore", "runs"), "got 2. Pass the folder of one of them"),
        (("animate", "runs"), "got 2. Pass the folder of one of them"),
        (("explore", "RUN", "--max-regions", "3"), "Expected at most --max-regions 3 regions, got more after "),
        (("explore", "RUN", "--max-regions", "3"), "--rows 0,1"),
        (("animate", "RUN", "--max-regions", "3"), "Raise --max-regions"),
    ],
)
def test_mistakes_are_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.npz").write_bytes(b"not a zip")
    (tmp_path / "box.toml").write_text("box = [")
    for name in ("a", "b"):
        shutil.copytree(folder, tmp_path / "runs" / name)
    before = sorted(path.name for path in tmp_path.iterdir())
    said = " ".join(call(*(str(folder) if word == "RUN" else word for word in words), code=2).split())
    assert sentence in said
    assert said.startswith("regionscope-lab: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
