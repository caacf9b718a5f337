"""The page on a phone, on a large screen, on a dark screen and inside a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regionscope.explorer import explore, inline
from regionscope.lab.training_frames import TrainingFrames

Open = Callable[..., Any]

OVERFLOWING = """() => [...document.querySelectorAll("body *")].filter((node) => {
  const box = node.getBoundingClientRect();
  return box.width > 0 && (box.right > document.documentElement.clientWidth + 1 || box.left < -1);
}).map((node) => `${node.tagName} ${node.id} ${node.textContent.slice(0, 20)}`)"""


@pytest.mark.parametrize("width", [390, 960, 1440])
def test_nothing_is_wider_than_the_screen(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.wait_for_timeout(300)
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = (
        "(ids) => ids.filter((id) => { const e = document.getElementById(id); return e.scrollWidth > e.clientWidth; })"
    )
    assert page.evaluate(cut, ["title", "where", "modes", "time"] if width < 600 else ["modes", "time"]) == []


def test_a_single_value_has_no_plot(open_page: Open, training: TrainingFrames, tmp_path: Path) -> None:
    first = training.frames[:1]
    curves = tuple(
        replace(one, steps=one.steps[:1], values=one.values[:1], spread=one.spread[:1]) for one in training.curves
    )
    page = open_page(explore(replace(training, frames=first, curves=curves), tmp_path / "one.html").path)
    panels = page.locator(".panel").count()
    assert panels == page.locator(".panel.single").count() > 2
    assert page.locator(".panel .plot").count() == 0
    assert "train" in page.locator(".panel").first.inner_text()


def test_a_dark_screen_has_a_dark_page(browser: Any, page_file: Path) -> None:
    context = browser.new_context(color_scheme="dark", offline=True)
    dark = context.new_page()
    dark.goto(page_file.as_uri())
    dark.wait_for_function("document.body.dataset.ready === 'yes'")
    ground = dark.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", ground)[:3]) < 60
    assert dark.evaluate("Bokeh.documents[0].roots()[0].border_fill_color") == "#1b2028"
    context.close()


def test_the_page_opens_inside_a_notebook(browser: Any, training: TrainingFrames, tmp_path: Path) -> None:
    shown = inline(training, height=500)
    assert "\n" not in repr(shown)
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><body>{shown._repr_html_()}</body>", encoding="utf-8")
    context = browser.new_context(viewport={"width": 900, "height": 700}, offline=True)
    outer = context.new_page()
    outer.goto(file.as_uri())
    frame = outer.frames[1]
    frame.wait_for_function("document.body.dataset.ready === 'yes'")
    counts = frame.locator("#count-linear").inner_text()
    assert counts == f"{training.frames[-1].linear.n_linear_regions:,}"
    assert outer.locator("iframe").bounding_box()["height"] == 500
    context.close()


@pytest.mark.parametrize("width", [390, 900, 1300])
def test_a_frame_in_a_notebook_is_as_high_as_its_page(
    browser: Any, training: TrainingFrames, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "notebook.html"
    text = f"<!doctype html><body style='margin:0'>{inline(training)._repr_html_()}</body>"
    file.write_text(text, encoding="utf-8")
    outer = browser.new_page(viewport={"width": width, "height": 700}, offline=True)
    outer.goto(file.as_uri())
    frame = outer.frames[1]
    frame.wait_for_function("document.body.dataset.ready === 'yes'")
    outer.wait_for_timeout(300)
    lowest = (
        "Math.max(...[...document.querySelectorAll('aside > *')].map((node) => node.getBoundingClientRect().bottom))"
    )
    assert frame.evaluate(lowest) <= frame.evaluate("innerHeight") < frame.evaluate(lowest) + 400
    assert frame.evaluate("document.documentElement.scrollHeight <= innerHeight")
    outer.close()
