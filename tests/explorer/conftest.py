"""The frames of a real training, their page, and Debian's Chromium to open it in, with the network switched off."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regionscope.default_slice import default_slice
from regionscope.explorer import explore
from regionscope.monitor.frames import ModelAtStep, TrainingFrames, frames_of_models
from regionscope_lab.data import two_moons
from regionscope_lab.zoo import mlp

SCREEN: Any = {"width": 1400, "height": 900}
NASTY = "<script>window.broken = 1</script>"
CLASS_NAMES = (NASTY, "</script><img src=x onerror='window.broken = 2'>")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open a browser."""
    for item in items:
        if isinstance(item, pytest.Function) and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def training() -> TrainingFrames:
    """2-[12, 12]-2 on two moons at five moments, with rows whose names are not harmless."""
    data = two_moons(200, noise=0.2, seed=0)
    model = mlp([2, 12, 12, 2], seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    moments, rows = [], []
    for step in range(81):
        loss = nn.functional.cross_entropy(model(data.inputs), data.labels)
        if step % 20 == 0:
            moments.append(ModelAtStep(step, copy.deepcopy(model).eval(), step // 10))
            rows += [
                {"step": step, "epoch": step // 10, "name": "train_loss", "value": float(loss.detach())},
                {"step": step, "name": "local_complexity", "value": step / 7, "stderr": 0.5},
                {"step": step, "name": NASTY, "value": 1.0},
            ]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return frames_of_models(
        moments, default_slice(data.inputs, data.labels), inputs=data.inputs, labels=data.labels, rows=rows,
        class_names=CLASS_NAMES, title=f"moons {NASTY}", notes=(f"A note {NASTY}.",),
    )  # fmt: skip


@pytest.fixture(scope="session")
def page_file(training: TrainingFrames, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return explore(training, tmp_path_factory.mktemp("explorer") / "moons.html").path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("NO CHROMIUM: the explorer is NOT tested in a browser; install it with: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def opener(browser: Any) -> Iterator[Callable[[Path], Any]]:
    """Opens a file without a network. Errors, messages of errors, dialogs and requests to elsewhere are collected."""
    context = browser.new_context(viewport=SCREEN, offline=True)

    def open_file(path: Path) -> Any:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(f"error: {error}"))
        page.on("console", lambda said: page.problems.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: page.problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: _check(request.url, page.problems))
        page.goto(path.as_uri())
        page.wait_for_function("document.body.dataset.ready === 'yes'")
        return page

    yield open_file
    context.close()


@pytest.fixture
def open_page(opener: Callable[[Path], Any]) -> Iterator[Callable[[Path], Any]]:
    """Opens a file; when the test is over, nothing may have gone wrong on its page."""
    opened: list[Any] = []

    def open_file(path: Path) -> Any:
        opened.append(opener(path))
        return opened[-1]

    yield open_file
    for page in opened:
        page.close()
        assert page.problems == []


@pytest.fixture(scope="session")
def shared_page(opener: Callable[[Path], Any], page_file: Path) -> Any:
    return opener(page_file)


@pytest.fixture
def page(shared_page: Any, training: TrainingFrames) -> Iterator[Any]:
    """The page of ``training`` as it is after opening."""
    shared_page.set_viewport_size(SCREEN)
    shared_page.mouse.move(5, 5)
    shared_page.evaluate("""async (last) => {
      regionscope.play(false);
      regionscope.choose(null);
      regionscope.setMode("linear");
      Bokeh.documents[0].roots()[0].x_range.setv({ start: -1, end: 1 });
      Bokeh.documents[0].roots()[0].y_range.setv({ start: -1, end: 1 });
      await regionscope.show(last);
    }""", len(training.frames) - 1)  # fmt: skip
    yield shared_page
    assert shared_page.problems == []


def _check(url: str, problems: list[str]) -> None:
    if not url.startswith(("file://", "data:", "blob:")):
        problems.append(f"request to {url}")
