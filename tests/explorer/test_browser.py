"""The page in a real browser: what it shows is what was computed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regionscope.exact import decision_regions, linear_regions
from regionscope.exact.region_batch import Walls
from regionscope.explorer import explore
from regionscope.explorer.encode import encode, slope_norms
from regionscope.explorer.figures import curve_figures, map_figure
from regionscope.geometry import Box, Segment, Slice
from regionscope.monitor.frames import Frame, ModelAtStep, TrainingFrames, frames_of_models, frames_of_partitions
from regionscope.monitor.tracking import locate
from regionscope.smooth import decision_map
from regionscope_lab.zoo import mlp

Open = Callable[..., Any]

PLOT = "Bokeh.documents[0].roots()[0]"
TO_SCREEN = """([x, y]) => {
  const view = Bokeh.index[Object.keys(Bokeh.index)[0]] ?? [...Bokeh.index][0];
  const box = document.getElementById("map").getBoundingClientRect();
  return [box.left + view.frame.x_scale.compute(x), box.top + view.frame.y_scale.compute(y)];
}"""


def show(page: Any, i: int) -> None:
    page.locator("#slider").fill(str(i))
    page.wait_for_function(f"regionscope.state.frame === {i}")


def mode(page: Any, name: str) -> None:
    page.locator(f"label:has(#mode-{name})").click()
    page.wait_for_function(f"regionscope.state.mode === '{name}'")


def point_at(page: Any, at: torch.Tensor) -> dict[str, Any]:
    page.mouse.move(*page.evaluate(TO_SCREEN, at.tolist()))
    page.wait_for_function("regionscope.state.hover !== null")
    return dict(page.evaluate("regionscope.state.hover"))


def click(page: Any, at: torch.Tensor) -> dict[str, Any]:
    """What a click chooses. Two quick clicks are a double click, and a click on what is chosen lets it go."""
    for _ in range(3):
        page.wait_for_timeout(400)
        page.mouse.click(*page.evaluate(TO_SCREEN, at.tolist()))
        page.wait_for_timeout(400)
        if page.evaluate("regionscope.state.chosen !== null"):
            break
    page.wait_for_function("regionscope.state.chosen !== null")
    return dict(page.evaluate("regionscope.state.chosen"))


def largest(frame: Frame) -> int:
    """A region that the mouse cannot miss."""
    return int(frame.linear.sizes.argmax())


def pixel(page: Any, at: torch.Tensor) -> list[int]:
    """The colour [red, green, blue] of the fill at a place, read from the image that Bokeh was given."""
    x, y = at.tolist()
    return list(page.evaluate(f"""() => {{
      const plot = Bokeh.documents[0].roots()[0], data = plot.renderers.find((r) => r.name === "fill").data_source.data;
      const image = data.image[0], [rows, columns] = image.shape;
      const row = Math.floor(({y} - data.y[0]) / data.dh[0] * rows);
      const value = image[row * columns + Math.floor(({x} - data.x[0]) / data.dw[0] * columns)];
      return [value & 255, (value >> 8) & 255, (value >> 16) & 255];
    }}"""))  # fmt: skip


def test_the_slider_shows_the_counts_and_curves_of_each_frame(page: Any, training: TrainingFrames) -> None:
    for i, frame in enumerate(training.frames):
        show(page, i)
        assert frame.decision is not None
        assert page.locator("#count-linear").inner_text() == f"{frame.linear.n_linear_regions:,}"
        assert page.locator("#count-activation").inner_text() == f"{frame.linear.n_activation_regions:,}"
        assert page.locator("#count-decision").inner_text() == f"{frame.decision.count:,}"
        assert page.locator("#moment").inner_text() == f"epoch {frame.epoch} · step {frame.step}"
        loss = next(curve for curve in training.curves if curve.name == "train loss")
        assert float(page.locator("#value-0-0").inner_text()) == pytest.approx(float(loss.values[i]), rel=1e-3)
        cursor = page.evaluate("Bokeh.documents[1].roots()[0].center.find((part) => part.name === 'cursor').location")
        assert cursor == frame.epoch


def test_play_runs_to_the_last_frame_and_stops(page: Any, training: TrainingFrames) -> None:
    page.evaluate("""() => {
      window.seen = [];
      new MutationObserver(() => window.seen.push(regionscope.state.frame))
        .observe(document.getElementById("moment"), { childList: true });
    }""")
    page.select_option("#speed", "10")
    page.locator("#play").click()  # at the end: it starts again from the beginning
    assert page.locator("#play").get_attribute("aria-label") == "Pause"
    page.wait_for_function(f"!regionscope.state.playing && window.seen.at(-1) === {len(training.frames) - 1}")
    assert page.evaluate("window.seen") == list(range(len(training.frames)))
    assert page.locator("#play").get_attribute("aria-label") == "Play"


def test_pause_stops_at_once_also_at_the_last_frame(page: Any, training: TrainingFrames) -> None:
    last = len(training.frames) - 1
    frames = page.evaluate("""async () => {
      const state = regionscope.state, wait = (ms) => new Promise((done) => setTimeout(done, ms)), seen = [];
      regionscope.play(true); regionscope.play(false);  // before the first frame is there
      await wait(700);
      seen.push(state.frame);
      regionscope.play(true);
      while (state.frame !== 0) await wait(1);
      regionscope.play(false);  // in the rest before the second frame
      await wait(700);
      seen.push(state.frame);
      return seen;
    }""")
    assert frames == [last, 0]


def test_hovering_shows_the_numbers_of_the_region(page: Any, training: TrainingFrames) -> None:
    for i in (1, len(training.frames) - 1):
        show(page, i)
        frame = training.frames[i]
        region = largest(frame)
        shown = point_at(page, frame.linear.interior[region])
        assert frame.decision is not None
        cell = int(locate(frame.decision.partition, frame.linear.interior[[region]]))
        label = int(frame.decision.piece_labels[cell])
        norm = float(slope_norms(frame.linear)[region])
        pattern = frame.linear.patterns(torch.tensor([region]))[0]
        assert shown["id"] == int(frame.ids[region])
        assert shown["label"] == label
        assert shown["size"] == pytest.approx(float(frame.linear.sizes[region]), rel=1e-5)
        assert shown["norm"] == pytest.approx(norm, rel=1e-5)
        assert shown["active"] == [int(pattern[:12].sum()), int(pattern[12:].sum())]
        text = page.locator("#tip").inner_text()
        assert training.class_names[label] in text
        assert f"relu1 {shown['active'][0]}/12, relu2 {shown['active'][1]}/12" in text
        assert f"linear region {shown['id']:,}" in text
    page.mouse.move(1200, 500)
    page.wait_for_function("document.getElementById('tip').hidden")


@pytest.mark.parametrize("kind", ["linear", "decision", "neurons"])
def test_a_click_finds_exactly_the_neighbours(page: Any, training: TrainingFrames, kind: str) -> None:
    mode(page, kind)
    frame = training.frames[-1]
    assert frame.decision is not None
    mesh = frame.decision.partition
    cell = int(mesh.sizes.argmax())
    shown = click(page, mesh.interior[cell])
    home = locate(frame.linear, mesh.interior)
    group = {
        "linear": frame.ids[home],
        "decision": frame.decision.piece_regions,
        "neurons": frame.decision.piece_parents,
    }
    pairs = group[kind][mesh.neighbours]
    mine = int(group[kind][cell])
    expected = {int(b if a == mine else a) for a, b in pairs if (a == mine) != (b == mine)}
    found = shown["neighbours"]
    if kind == "linear":
        found = page.evaluate("regionscope.state.chosen.neighbours.map((g) => regionscope.state.mesh.ids[g])")
    assert set(found) == expected
    assert shown["id"] == mine
    assert page.locator("#neighbours").inner_text() == f"{len(expected)} region{'' if len(expected) == 1 else 's'}"
    page.keyboard.press("Escape")
    page.wait_for_function("regionscope.state.chosen === null")


@pytest.mark.parametrize("kind", ["linear", "neurons"])
def test_a_wall_that_the_boundary_cuts_is_counted_once(page: Any, training: TrainingFrames, kind: str) -> None:
    mode(page, kind)
    frame = training.frames[-1]
    assert frame.decision is not None
    mesh, walls = frame.decision.partition, frame.linear.walls
    # The largest region with a wall that is cut: the mesh has more segments than the region has walls.
    home = locate(frame.linear, mesh.interior)
    group = frame.ids if kind == "linear" else torch.arange(len(frame.linear))
    cut = [g for g in group.unique().tolist() if sum(drawn(mesh.walls, group[home], g)) > sum(drawn(walls, group, g))]
    mine = max(cut, key=lambda g: float(frame.linear.sizes[group == g].max()))
    sizes = torch.where(group[home] == mine, mesh.sizes, 0.0)
    shown = click(page, mesh.interior[int(sizes.argmax())])
    expected = drawn(walls, group, mine)
    assert shown["walls"] == [*expected, 0]
    said = page.locator("#card dd").last.inner_text()
    folding = frame.linear.wall_units()
    sides = (group[walls.regions[folding.walls]] == mine).sum(1) == 1
    for i, n in enumerate(expected):
        units = sorted({int(unit) for unit in folding.units[sides & (folding.layers == i)]})
        words = f" ({'unit' if len(units) == 1 else 'units'} {', '.join(map(str, units[:8]))}"
        assert not n or f"relu{i + 1} {n}{words}" in said


def drawn(walls: Walls, group: torch.Tensor, g: int) -> list[int]:
    """How many walls of group g each of the two layers has, in a partition whose regions have these groups."""
    a, b = group[walls.regions].T  # the border of the slice is left out by what drew it
    return [int(((walls.layer == layer) & (a != b) & ((a == g) | (b == g))).sum()) for layer in range(2)]


def test_the_fill_has_the_colours_of_each_mode(page: Any, training: TrainingFrames) -> None:
    from regionscope.plot import style

    frame = training.frames[-1]
    assert frame.decision is not None
    regions = frame.linear.sizes.argsort(descending=True)[:20]
    middles = frame.linear.interior[regions]
    labels = frame.decision.piece_labels[locate(frame.decision.partition, middles)]
    for name, colours in (
        ("linear", style.region_colours(frame.ids[regions])),
        ("decision", style.class_colours(labels, pale=True)),
    ):
        mode(page, name)
        found = torch.tensor([pixel(page, at) for at in middles])
        torch.testing.assert_close(found.double(), torch.from_numpy(colours) * 255, atol=1.0, rtol=0.0)
    mode(page, "size")
    light = torch.tensor([sum(pixel(page, at)) for at in middles])
    assert bool((light.diff() <= 0).all())  # cividis: the larger, the lighter
    mode(page, "slope")
    light = torch.tensor([sum(pixel(page, at)) for at in middles])
    norms = slope_norms(frame.linear)[regions]
    assert bool((light[norms.argsort()].diff() >= 0).all())
    mode(page, "neurons")
    assert pixel(page, middles[0]) == [255, 255, 255]
    drawn = page.evaluate(
        f"{PLOT}.renderers.find((r) => r.name === 'walls').data_source.data.xs.map((x) => x.length / 3)"
    )
    wall_layer = frame.decision.partition.walls.layer
    assert drawn == [int((wall_layer == layer).sum()) for layer in range(2)]


def test_zooming_draws_the_regions_anew(page: Any, training: TrainingFrames) -> None:
    region = largest(training.frames[-1])
    middle = training.frames[-1].linear.interior[region]
    before = pixel(page, middle)
    page.mouse.move(*page.evaluate(TO_SCREEN, middle.tolist()))
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"{PLOT}.x_range.end - {PLOT}.x_range.start < 1.9")
    page.wait_for_function("""() => {
      const plot = Bokeh.documents[0].roots()[0], data = plot.renderers.find((r) => r.name === "fill").data_source.data;
      return Math.abs(data.dw[0] - (plot.x_range.end - plot.x_range.start)) < 1e-9;
    }""")
    assert pixel(page, middle) == before
    assert point_at(page, middle)["id"] == int(training.frames[-1].ids[region])


def test_a_click_on_a_curve_moves_to_that_moment(page: Any, training: TrainingFrames) -> None:
    box = page.locator("#panel-0").bounding_box()
    page.mouse.click(box["x"] + 52, box["y"] + box["height"] / 2)
    page.wait_for_function("regionscope.state.frame === 0")


def test_text_of_the_user_is_only_text(page: Any, training: TrainingFrames) -> None:
    click(page, training.frames[-1].linear.interior[largest(training.frames[-1])])
    mode(page, "decision")
    assert page.evaluate("window.broken") is None
    assert page.locator("#title").inner_text() == training.title
    assert training.notes[0] in page.locator("#notes").inner_text()
    legend = page.locator("#legend").inner_text()
    assert all(name in legend for name in training.class_names)
    assert training.curves[2].name.replace("_", " ") in page.locator("#curves").inner_text()
    assert page.title() == training.title
    assert page.evaluate("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1280, 720)])
def test_nothing_overlaps_or_is_cut_off(
    page: Any, training: TrainingFrames, tmp_path: Path, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function(f"Math.abs(document.getElementById('map').clientWidth - {PLOT}.outer_width) < 1")
    click(page, training.frames[-1].linear.interior[largest(training.frames[-1])])
    boxes = {
        name: page.locator(name).bounding_box() for name in ("header", "#view", "aside", "#map", "#time", "#legend")
    }
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert boxes["#view"]["y"] + boxes["#view"]["height"] <= height
    assert boxes["#view"]["x"] + boxes["#view"]["width"] <= boxes["aside"]["x"]
    assert boxes["#map"]["y"] + boxes["#map"]["height"] <= boxes["#legend"]["y"] + 1
    assert boxes["#legend"]["y"] + boxes["#legend"]["height"] <= boxes["#time"]["y"] + 1
    frame = page.evaluate(
        "(() => { const p = Bokeh.documents[0].roots()[0]; return [p.inner_width, p.inner_height]; })()"
    )
    assert frame[0] == pytest.approx(frame[1], rel=0.02)  # equal scales on both axes
    page.screenshot(path=tmp_path / f"explorer-{width}.png")


@pytest.mark.parametrize(("per_epoch", "name"), [(None, "step"), (2.0, "epoch")])
def test_curves_name_their_axis(per_epoch: float | None, name: str) -> None:
    moments = [ModelAtStep(i, mlp([2, 6, 2], seed=i)) for i in range(2)]
    training = frames_of_models(moments, Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0))
    panels = curve_figures(replace(training, steps_per_epoch=per_epoch))
    assert {figure.xaxis.axis_label for _, _, figure in panels} == {name}


def test_the_map_names_its_axes() -> None:
    square = Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
    plane = Box([0.0, 0.0, 0.0], [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], 1.0)
    coordinates = ["slice coordinate 1", "slice coordinate 2"]
    for where, names, wanted in (
        (square, (), ["input 0", "input 1"]),
        (square, ("width", ""), ["width", "input 1"]),
        (plane, (), coordinates),
        (Segment([0.0, 0.0], [1.0, 1.0]), (), ["position on the slice"]),
    ):
        moments = [ModelAtStep(0, mlp([where.origin.numel(), 6, 2], seed=0))]
        figure = map_figure(replace(frames_of_models(moments, where), input_names=names))
        assert [axis.axis_label for axis in (figure.xaxis, figure.yaxis) if axis.axis_label] == wanted


def test_curves_of_a_wide_slice_have_the_height_of_the_window(open_page: Open, tmp_path: Path) -> None:
    where = Box([0.0, 0.0], [[1.0, 0.0], [0.0, 0.4]], 1.0)
    moments = [ModelAtStep(i, mlp([2, 6, 2], seed=i)) for i in range(2)]
    wide = frames_of_models(
        moments, where, rows=[{"step": i, "name": n, "value": i} for n in "abcdef" for i in range(2)]
    )
    page = open_page(explore(wide, tmp_path / "wide.html").path)
    aside = page.locator("aside").bounding_box()
    assert 780 < aside["y"] + aside["height"] <= 900
    inside = page.locator("aside").evaluate("(box) => [box.scrollHeight, box.clientHeight]")
    assert inside[0] == inside[1]  # nothing is cut off
    assert page.evaluate("document.documentElement.scrollHeight") <= 900


@pytest.mark.parametrize("where", [Box([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0), Segment([1.0], [-1.0])])
def test_a_mirrored_slice_is_filled_and_answers(open_page: Open, tmp_path: Path, where: Slice) -> None:
    part = linear_regions(mlp([where.origin.numel(), 6, 2], seed=0), where)
    page = open_page(explore(part, tmp_path / "mirrored.html").path)
    region = int(part.sizes.argmax())
    at = where.embed(part.interior[[region]])[0]
    at = at if where.dim == 2 else torch.cat([at, torch.tensor([0.5], dtype=at.dtype)])
    assert point_at(page, at)["size"] == pytest.approx(float(part.sizes[region]), rel=1e-5)
    assert pixel(page, at) != [0, 0, 0]


def test_too_many_frames_are_thinned_and_the_page_says_so(
    open_page: Open, training: TrainingFrames, tmp_path: Path
) -> None:
    needed = sum(len(encode(frame)) for frame in training.frames)
    written = explore(training, tmp_path / "thin.html", limit=2_000_000 + int(0.7 * needed))
    assert 1 < written.frames < written.of == len(training.frames)
    page = open_page(written.path)
    assert written.notes[-1] in page.locator("#notes").inner_text()
    last = training.frames[-1]
    assert page.evaluate("regionscope.state.mesh.about.counts.linear") == last.linear.n_linear_regions
    show(page, 0)
    assert page.locator("#count-linear").inner_text() == f"{training.frames[0].linear.n_linear_regions:,}"


def test_a_partition_alone_and_a_line(open_page: Open, training: TrainingFrames, tmp_path: Path) -> None:
    part = pickle.loads(pickle.dumps(training.frames[-1].linear))  # without its network
    page = open_page(explore(part, tmp_path / "partition.html").path)
    assert page.locator("#mode-decision").count() == 0
    assert page.locator("#show-points").is_disabled()
    assert not page.locator("#time").is_visible()
    region = int(part.sizes.argmax())
    shown = point_at(page, part.interior[region])
    assert shown["size"] == pytest.approx(float(part.sizes[region]), rel=1e-5)
    assert "label" not in shown
    assert "active" not in shown

    line = decision_regions(mlp([2, 6, 2], seed=1), Segment([-1.0, -1.0], [1.0, 1.0]))
    page = open_page(explore(frames_of_partitions([(0, line)]), tmp_path / "line.html").path)
    mode(page, "decision")
    cell = int(line.partition.sizes.argmax())
    at = torch.cat([line.partition.interior[cell], torch.tensor([0.5], dtype=torch.float64)])
    shown = point_at(page, at)
    assert shown["label"] == int(line.piece_labels[cell])
    assert shown["size"] == pytest.approx(float(line.sizes[line.piece_regions[cell]]), rel=1e-5)
    whole = linear_regions(mlp([2, 6, 2], seed=1), line.partition.slice)
    assert page.locator("#count-linear").inner_text() == str(whole.n_linear_regions)


def test_a_proven_map_has_cells_labels_and_what_is_undecided(open_page: Open, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    result = decision_map(net, Box([0.0, 0.0], torch.eye(2), 2.0), undecided=0.1)
    names = ["cat", "dog"]
    page = open_page(explore(result, tmp_path / "map.html", class_names=names).path)
    assert page.locator("#count-cell").inner_text() == str(len(result))
    assert page.locator("#modes label").all_inner_texts() == ["Proven labels"]
    assert "undecided" in page.locator("#notes").inner_text()
    assert page.locator("#legend").inner_text().split() == [*names, "undecided"]
    cell = int(result.sizes.argmax())
    state = click(page, result.cells[cell].mean(0))
    assert state["piece"] == cell
    assert state["label"] == int(result.labels[cell])
    assert state["size"] == pytest.approx(float(result.sizes[cell]), rel=1e-5)
    pairs = result.parts.neighbours()
    assert sorted(state["neighbours"]) == sorted({*pairs[pairs[:, 0] == cell, 1], *pairs[pairs[:, 1] == cell, 0]})
