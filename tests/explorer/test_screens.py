"""The pages on a phone, on a large screen, on a dark screen and inside a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regionscope.exact import level_set
from regionscope.explorer import explore, inline
from regionscope.geometry import Box
from regionscope.monitor.frames import TrainingFrames
from regionscope_lab.zoo import mlp

Open = Callable[..., Any]

OVERFLOWING = """() => [...document.querySelectorAll("body *")].filter((node) => {
  const box = node.getBoundingClientRect();
  return box.width > 0 && (box.right > document.documentElement.clientWidth + 1 || box.left < -1);
}).map((node) => `${node.tagName} ${node.id} ${node.textContent.slice(0, 20)}`)"""

# The contrast ratio of WCAG 2.2 between each text and what is behind it, for those below 4.5.
FAINT = """() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const part = (x) => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.05 + 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const written = (node) => [...node.childNodes].some((text) => text.nodeType === 3 && text.data.trim());
  const all = [...document.querySelectorAll("body *:not(script, style)")];
  return all.filter((node) => node.getBoundingClientRect().height > 0 && written(node)).map((node) => {
    const [a, b] = [parse(getComputedStyle(node).color), ground(node)].map(light);
    return [Math.max(a, b) / Math.min(a, b), node.textContent.slice(0, 30)];
  }).filter(([contrast]) => contrast < 4.5);
}"""
IMAGE = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='1600' height='400'/>"


@pytest.fixture(scope="module")
def files(page_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind: explorer, surface, and a figure of the documentation."""
    folder = tmp_path_factory.mktemp("pages")
    box = Box(torch.zeros(3), torch.eye(3), 1.0)
    css = Path(__file__).parents[2] / "docs" / "_static" / "site.css"
    image = f'<a href="a"><img class="wide" src="{IMAGE}" style="width: 1600px"></a>'
    figure = f'<style>{css.read_text()}</style><article><p class="figure">{image}</p></article>'
    (folder / "docs.html").write_text(figure, encoding="utf-8")
    surface = explore(level_set(mlp([3, 6, 1], seed=0), box), folder / "surface.html").path
    return {"explorer": page_file, "surface": surface, "docs": folder / "docs.html"}


@pytest.mark.parametrize("name", ["explorer", "surface"])
def test_text_stands_out(browser: Any, files: dict[str, Path], name: str) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(files[name].as_uri())
    page.wait_for_function("document.body.dataset.ready === 'yes'")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(FAINT) == []
    context.close()


def test_wide_figures_move_sideways_on_a_phone(browser: Any, files: dict[str, Path]) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
    page = context.new_page()
    page.goto(files["docs"].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = page.evaluate("[...document.querySelectorAll('.figure')].map((box) => [box.scrollWidth, box.clientWidth])")
    assert [inside > seen for inside, seen in boxes] == [True]
    assert page.evaluate("document.querySelector('img').clientHeight") > 150
    context.close()


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
        replace(one, steps=one.steps[:1], values=one.values[:1], stderr=one.stderr[:1]) for one in training.curves
    )
    page = open_page(explore(replace(training, frames=first, curves=curves), tmp_path / "one.html").path)
    panels = page.locator(".panel").count()
    assert panels == page.locator(".panel.single").count() > 2
    assert page.locator(".panel .plot").count() == 0
    assert "train" in page.locator(".panel").first.inner_text()
    page.locator("label:has(#mode-linear)").click()
    assert page.locator("#legend").inner_text().startswith("One colour for each affine map.\nData:")  # nothing to track


def test_a_dark_screen_has_a_dark_page(browser: Any, page_file: Path) -> None:
    context = browser.new_context(color_scheme="dark", offline=True)
    dark = context.new_page()
    dark.goto(page_file.as_uri())
    dark.wait_for_function("document.body.dataset.ready === 'yes'")
    ground = dark.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", ground)[:3]) < 60
    assert dark.evaluate("Bokeh.documents[0].roots()[0].border_fill_color") == "#1b2028"
    lines = (
        "[...Bokeh.documents[1].roots()[0].renderers].map((one) => one.glyph.line_color?.value ?? one.glyph.line_color)"
    )
    assert dark.evaluate(lines)[0] == "#4aa8e0"  # brighter than on white, as the key beside the title
    assert "rgb(74, 168, 224)" in dark.locator(".panel .rule").first.get_attribute("style")
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
