"""How large the explorer's page is, how long it takes to write, and how smooth it is: 20 frames of 10,000 regions.

python benchmarks/bench_explorer.py                 # table on screen, JSON in benchmarks/results/

The second half opens the page in Chromium, where that is installed; it is run without a graphics processor, so a
desktop is quicker. The times are processor time of the browser, which other programs do not disturb, and wall time.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regionscope.default_slice import default_slice
from regionscope.explorer import explore
from regionscope.monitor.frames import ModelAtStep, frames_of_models
from regionscope_lab.data import two_moons
from regionscope_lab.zoo import mlp
from results import write

TICKS = 100  # of /proc's clock in a second

FRAMES = """async () => {
  const times = [];
  for (let i = 0; i < regionscope.training.frames.length; i++) {
    const start = performance.now();
    await regionscope.show(i);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - start);
  }
  return times;
}"""
PAN = """async () => {
  const times = [], range = Bokeh.documents[0].roots()[0].x_range;
  for (let i = 0; i < 20; i++) {
    const start = performance.now();
    range.setv({ start: range.start + 0.005, end: range.end + 0.005 });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - start);
  }
  return times;
}"""


def moments(width: int, frames: int, epochs: int) -> Iterator[ModelAtStep]:
    """A training on two moons, at evenly spread moments."""
    data = two_moons(600, noise=0.2, seed=0)
    model = mlp([2, *[width] * 3, 2], seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    wanted = {round(i * epochs / (frames - 1)) for i in range(frames)}
    for epoch in range(epochs + 1):
        if epoch in wanted:
            yield ModelAtStep(epoch * 19, copy.deepcopy(model).eval(), epoch)
        for batch in torch.randperm(len(data.inputs), generator=generator).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data.inputs[batch]), data.labels[batch]).backward()
            optimizer.step()


def browser_seconds() -> float:
    """Processor time of all Chromium processes so far."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=" in (line := (folder / "cmdline").read_bytes()) and b"chromium" in line:
                spent = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                total += (int(spent[11]) + int(spent[12])) / TICKS
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def in_browser(path: Path, chromium: str) -> list[dict[str, Any]]:
    """Milliseconds for each frame: the first time (unpacked on the way), again, and while panning."""
    from playwright.sync_api import sync_playwright

    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True).new_page()
        page.goto(path.as_uri())
        page.wait_for_function("document.body.dataset.ready === 'yes'")
        for name, script in (("frames, first time", FRAMES), ("frames, again", FRAMES), ("pan", PAN)):
            before = browser_seconds()
            wall = sorted(page.evaluate(script))
            page.wait_for_timeout(300)
            spent = 1000 * (browser_seconds() - before) / len(wall)
            rows.append({"what": name, "processor_ms": spent, "wall_ms": wall[len(wall) // 2]})
            print(f"{name:<20} {spent:6.0f} ms of processor time, {wall[len(wall) // 2]:6.0f} ms on the clock (median)")
        browser.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="size and speed of the explorer's page")
    parser.add_argument("--width", type=int, default=64, help="of each of the three hidden layers")
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=38)
    options = parser.parse_args()
    data = two_moons(600, noise=0.2, seed=0)
    stored = list(moments(options.width, options.frames, options.epochs))
    start = time.perf_counter()
    square = default_slice(data.inputs, data.labels)
    training = frames_of_models(stored, square, inputs=data.inputs, labels=data.labels, title="bench")
    computed = time.perf_counter() - start
    counts = [len(frame.linear) for frame in training.frames]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        written = explore(training, Path(folder) / "page.html")
        taken = time.perf_counter() - start
        print(f"{len(counts)} frames of {min(counts):,} to {max(counts):,} regions: computed in {computed:.1f} s")
        print(f"page of {written.size / 1e6:.1f} MB written in {taken:.1f} s, {written.frames} of {written.of} frames")
        chromium = shutil.which("chromium")
        rows = in_browser(written.path, chromium) if chromium else []
    report = {"regions": counts, "bytes": written.size, "computed_s": computed, "written_s": taken, "browser": rows}
    write("explorer", report)


if __name__ == "__main__":
    main()
