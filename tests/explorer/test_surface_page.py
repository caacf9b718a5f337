"""The page of a surface: what the browser draws is the mesh, and the mouse and the keyboard turn it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.exact import LevelSet, level_set
from regionscope.explorer import explore, inline
from regionscope.geometry import Box


class Octahedron(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sum(1, keepdim=True) - 1


class Wall(nn.Module):
    """Zero on a plane through the origin, which the first view meets at right angles."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ x.new_tensor([[0.53], [-0.67], [0.52]])


@pytest.fixture(scope="module")
def surface() -> LevelSet:
    return level_set(Octahedron(), Box(torch.zeros(3), torch.eye(3), 1.3))


PIXELS = """() => {
  const gl = document.getElementById("stage").getContext("webgl");
  const [w, h] = [gl.drawingBufferWidth, gl.drawingBufferHeight], all = new Uint8Array(4 * w * h);
  gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, all);
  const seen = new Map();
  for (let i = 0; i < all.length; i += 4) {
    const key = `${all[i]},${all[i + 1]},${all[i + 2]}`;
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  const middle = 4 * (Math.floor(h / 2) * w + Math.floor(w / 2));
  const large = [...seen.values()].filter((n) => n > 500).length;
  const drawn = 1 - (seen.get("255,255,255") ?? 0) / (w * h);
  const ground = (i) => all[4 * i] === 255 && all[4 * i + 1] === 255 && all[4 * i + 2] === 255;
  let free = true;
  for (let x = 0; x < w; x++) free &&= ground(x) && ground((h - 1) * w + x);
  for (let y = 0; y < h; y++) free &&= ground(y * w) && ground(y * w + w - 1);
  return { colours: large, middle: [...all.subarray(middle, middle + 3)], drawn, free };
}"""


def test_the_surface_is_drawn_and_turned(surface: LevelSet, open_page: Callable[[Path], Any], tmp_path: Path) -> None:
    page = open_page(explore(surface, tmp_path / "surface.html").path)
    assert page.evaluate("regionscope.state.webgl")
    facts = dict(
        zip(page.locator("#counts dt").all_inner_texts(), page.locator("#counts dd").all_inner_texts(), strict=True)
    )
    assert facts["faces"] == "8"
    assert facts["Euler characteristic"] == "2"
    page.evaluate("regionscope.state.edges = false; regionscope.state.box = false; regionscope.draw()")
    seen = page.evaluate(PIXELS)
    assert 0.05 < seen["drawn"] < 0.9
    assert seen["colours"] == 5  # four of the eight faces are in sight, and the ground
    before = page.evaluate("regionscope.state.turn")
    box = page.locator("#stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 100, y, steps=4)
    page.mouse.up()
    assert page.evaluate("regionscope.state.turn") == pytest.approx(before - 0.8)
    assert page.evaluate(PIXELS)["middle"] != seen["middle"]
    page.locator("#stage").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("regionscope.state.turn") == pytest.approx(before - 0.7)
    near = page.evaluate("regionscope.state.distance")
    page.mouse.wheel(0, 300)
    page.wait_for_function(f"regionscope.state.distance > {1.2 * near}")


def test_the_whole_box_is_in_sight_and_both_sides_are_lit(open_page: Callable[[Path], Any], tmp_path: Path) -> None:
    wall = level_set(Wall(), Box([0.0] * 3, torch.eye(3), 1.0))
    page = open_page(explore(wall, tmp_path / "wall.html").path)
    lights = []
    for turn, tilt in ((-0.9, 0.55), (-0.9 + math.pi, -0.55)):  # in front of the wall and behind it
        page.evaluate(
            "(at) => { Object.assign(regionscope.state, at); regionscope.draw(); }", {"turn": turn, "tilt": tilt}
        )
        lights.append(sum(page.evaluate(PIXELS)["middle"]))
    assert lights[1] / lights[0] == pytest.approx(0.8, abs=0.02)
    page.evaluate("document.getElementById('reset').click()")
    for size in ({"width": 390, "height": 844}, {"width": 1400, "height": 900}):
        page.set_viewport_size(size)
        page.wait_for_timeout(50)
        page.evaluate("regionscope.draw()")
        assert page.evaluate(PIXELS)["free"]


def test_a_click_chooses_the_face_in_front(surface: LevelSet, open_page: Callable[[Path], Any], tmp_path: Path) -> None:
    page = open_page(explore(surface, tmp_path / "surface.html").path)
    page.evaluate("Object.assign(regionscope.state, { turn: 0.5, tilt: 0.6 }); regionscope.draw()")
    box = page.locator("#stage").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    chosen = page.evaluate("regionscope.state.chosen")
    assert bool((surface.normals[chosen] > 0).all())  # the camera stands where all coordinates are positive
    assert f"{float(surface.areas[chosen]):.6g}" in page.locator("#card").inner_text()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert page.evaluate("regionscope.state.chosen") is None
    page.locator("label:has(#mode-normals)").click()
    assert page.evaluate("regionscope.state.mode") == "normals"


def test_titles_are_text(surface: LevelSet) -> None:
    text = inline(surface).page
    assert "https://" not in text
    assert "http://" not in text
    with pytest.raises(InputError, match="got one on a plane"):
        inline(level_set(Octahedron(), Box([0.0, 0.0], torch.eye(2), 1.3)))
