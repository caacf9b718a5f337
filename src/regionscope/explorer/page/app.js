"use strict";
/* The page: what is shown, at which moment, and what lies under the mouse. Text is only ever set as textContent. */

const training = JSON.parse(document.getElementById("training").textContent);
const by = (id) => document.getElementById(id);

const MODES = {
  linear: { title: "Linear", kind: "linear", walls: true },
  decision: { title: "Decision", kind: "decision", walls: false },
  neurons: { title: "Neurons", kind: "activation", walls: true },
  size: { title: "Size", kind: "linear", walls: true },
  slope: { title: "Slope norm", kind: "linear", walls: true },
  proven: { title: "Proven labels", kind: "cell", walls: true },
};
const MOST_WALLED = 20000; // pieces: the walls of more would hide their colours, and take long to draw
const NOUNS = { linear: "linear region", activation: "activation region", decision: "decision region", cell: "cell" };

const state = { frame: -1, mode: "linear", playing: false, mesh: null, hover: null, pin: null, chosen: null };
const renderers = {}, cursors = [], meshes = new Map();
let plot = null, ndarray = null, timer = 0, wanted = 0, moved = null;

/* ---- small helpers ---- */

function make(tag, text, name) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (name) node.className = name;
  return node;
}

function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
}

const counted = (n, noun) => `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`;
const className = (label) => training.classes[label] ?? String(label);

function facts(rows) {
  const list = make("dl", undefined, "facts");
  for (const [name, value] of rows) list.append(make("dt", name), make("dd", value));
  return list;
}

/* ---- frames ---- */

function mesh(i) {
  if (!meshes.has(i)) meshes.set(i, unpack(by(`frame-${i}`).textContent).then((raw) => new Mesh(training.frames[i], raw)));
  return meshes.get(i);
}

async function show(i) {
  wanted = i;
  const found = await mesh(i);
  if (wanted !== i) return; // the slider has moved on
  state.frame = i;
  state.mesh = found;
  by("slider").value = i;
  by("moment").textContent = training.frames[i].text;
  by("slider").setAttribute("aria-valuetext", training.frames[i].text);
  for (const cursor of cursors) cursor.location = training.frames[i].at;
  writeCounts();
  writeKeys();
  paint();
  if (i + 1 < training.frames.length) mesh(i + 1);
}

function paint() {
  const started = performance.now(), m = state.mesh, nothing = { xs: [], ys: [], colour: [] };
  renderers.walls.data_source.data = by("show-walls").checked ? walls(m) : nothing;
  const boundary = by("show-boundary").checked && m.label && state.mode !== "neurons";
  renderers.boundary.data_source.data = boundary
    ? { ...m.lines((w) => (m.isBoundary(w) ? 0 : -1), 1), colour: ["#000000"] } : nothing;
  leave();
  choose(state.pin);
  state.buildMs = performance.now() - started;
}

/* The fill is an image of what the window shows, made anew whenever that changes. */
function fill() {
  const m = state.mesh;
  if (!m) return;
  const x = plot.x_range, y = plot.y_range, ratio = window.devicePixelRatio || 1;
  const width = Math.round(plot.inner_width * ratio), height = Math.round(plot.inner_height * ratio);
  if (!(width > 0 && height > 0)) return;
  const started = performance.now(), seen = { x0: x.start, x1: x.end, y0: y.start, y1: y.end };
  const [colours, palette] = fills(m), bright = palette.map((hex) => pixel(hex, 0)), pale = bright.slice();
  if (state.chosen) {
    const group = m[state.chosen.kind], near = new Set(state.chosen.neighbours);
    palette.forEach((hex, c) => pale.push(pixel(hex, 0.8)));
    for (let i = 0; i < m.n; i++) {
      if (group[i] !== state.chosen.group && !near.has(group[i])) colours[i] += palette.length;
    }
  }
  const image = ndarray(m.raster(colours, pale, seen, width, height), { dtype: "uint32", shape: [height, width] });
  renderers.fill.data_source.data = {
    image: [image], x: [seen.x0], y: [seen.y0], dw: [seen.x1 - seen.x0], dh: [seen.y1 - seen.y0],
  };
  thinWalls(m, seen);
  fitMarkers();
  state.fillMs = performance.now() - started;
}

/* Lines are thinner the more regions the window shows, and step back while a region is chosen. */
/* Markers of a small map are smaller, so that they do not bury its regions. */
function fitMarkers() {
  const share = Math.max(0.4, Math.min(1, plot.inner_width / 560));
  for (const name in renderers) {
    if (!name.startsWith("points-")) continue;
    const glyph = renderers[name].glyph, full = (state.markers ??= glyph.size.value);
    if (Math.abs(glyph.size.value - full * share) > 0.1) glyph.size = { value: full * share };
  }
}

function thinWalls(m, seen) {
  const share = ((seen.x1 - seen.x0) * (seen.y1 - seen.y0)) / training.area, glyph = renderers.walls.glyph;
  const width = Math.max(0.3, Math.min(1, Math.sqrt(1500 / Math.max(1, m.n * Math.min(1, share)))));
  const alpha = state.chosen ? 0.3 : state.mode === "neurons" ? 0.95 : 0.8;
  if (Math.abs(glyph.line_width.value - width) > 0.04) glyph.line_width = { value: width };
  if (glyph.line_alpha.value !== alpha) glyph.line_alpha = { value: alpha };
}

function pixel(hex, white) {
  const part = (at) => { const c = parseInt(hex.slice(at, at + 2), 16); return Math.round(c + (255 - c) * white); };
  return ((255 << 24) | (part(5) << 16) | (part(3) << 8) | part(1)) >>> 0;
}

let due = false;
function refill() {
  if (due) return;
  due = true;
  queueMicrotask(() => { due = false; fill(); }); // once for all the ranges that change together
}

const coloursLabels = () => state.mode === "decision" || state.mode === "proven";

/* A colour number for every piece, and the colours. */
function fills(m) {
  const colours = new Uint16Array(m.n);
  if (state.mode === "neurons") return [colours, ["#ffffff"]];
  if (coloursLabels()) {
    for (let i = 0; i < m.n; i++) colours[i] = m.label[i];
    return [colours, training.pale];
  }
  if (state.mode === "linear") {
    for (let i = 0; i < m.n; i++) colours[i] = m.colour[m.linear[i]];
    return [colours, m.about.palette];
  }
  const { low, high } = training.scales[state.mode], ramp = training.ramp, steps = ramp.length;
  const values = state.mode === "size" ? m.sizes("linear") : null;
  for (let i = 0; i < m.n; i++) {
    const value = values ? values[m.linear[i]] : m.norm[i];
    const place = (Math.log10(Math.max(value, 1e-300)) - low) / (high - low || 1);
    colours[i] = Math.max(0, Math.min(steps - 1, Math.floor(place * steps)));
  }
  return [colours, ramp];
}

function walls(m) {
  const mode = MODES[state.mode], layers = m.about.layers.length;
  if (state.mode === "neurons") {
    return { ...m.lines((w) => (m.wall_layer[w] > layers ? -1 : m.wall_layer[w] - 1), layers), colour: training.layerColours };
  }
  const group = mode.kind === "decision" ? m.activation : m[mode.kind];
  return { ...m.lines((w) => (m.wall_layer[w] > 0 && m.separates(w, group) ? 0 : -1), 1), colour: ["#2b2f36"] };
}

/* ---- text beside the map ---- */

function writeCounts() {
  const counts = training.frames[state.frame].counts, rows = [];
  for (const kind of ["linear", "activation", "decision", "cell"]) {
    if (!(kind in counts)) continue;
    const value = make("dd", counts[kind].toLocaleString("en-US")), row = make("div");
    value.id = `count-${kind}`;
    row.append(make("dt", `${NOUNS[kind]}s`), value);
    rows.push(row);
  }
  by("counts").replaceChildren(...rows);
}

function writeKeys() {
  training.panels.forEach((panel, p) => panel.curves.forEach((curve, c) => {
    by(`value-${p}-${c}`).textContent = number(curve.now[state.frame] ?? NaN);
  }));
}

function key(mark, text, colour) {
  const entry = make("span"), sign = make("i", undefined, mark);
  sign.style[mark === "rule" ? "borderColor" : "background"] = colour;
  entry.append(sign, text);
  return entry;
}

function writeLegend() {
  const legend = by("legend"), m = training.frames[0];
  if (state.mode === "linear") {
    const followed = training.frames.length > 1 ? "; a region keeps its colour as long as it can be tracked" : "";
    legend.replaceChildren(`One colour for each affine map${followed}.`);
  } else if (coloursLabels()) {
    legend.replaceChildren(...training.shown.map((i) => key("swatch", className(i), training.pale[i])));
  } else if (state.mode === "neurons") {
    legend.replaceChildren("Zero lines of ", ...m.layers.map((name, i) => key("rule", name, training.layerColours[i])));
  } else {
    const { low, high } = training.scales[state.mode], ramp = make("i", undefined, "ramp"), entry = make("span");
    ramp.style.background = `linear-gradient(90deg, ${training.ramp.join(",")})`;
    entry.append(number(10 ** low), ramp, number(10 ** high));
    legend.replaceChildren(state.mode === "size" ? "Size of a linear region" : "Largest stretch of the affine map", entry);
  }
  if (state.mode !== "decision" && training.marked.length) {
    legend.append(make("span", "Data:"), ...training.marked.map((i) => key("swatch", className(i), training.full[i])));
  }
}

/* ---- inputs of the network that are images ---- */

/* The input at a place of the slice as a canvas; null where inputs are no images. */
function imageAt(coords) {
  const view = training.images;
  if (!view) return null;
  const [height, width, channels] = view.shape, canvas = make("canvas", undefined, "image");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d"), pixels = context.createImageData(width, height);
  for (let p = 0; p < width * height; p++) {
    for (let c = 0; c < 3; c++) {
      const entry = view.first ? (c % channels) * width * height + p : p * channels + (c % channels);
      let value = view.origin[entry];
      for (let k = 0; k < view.basis.length; k++) value += coords[k] * view.basis[k][entry];
      pixels.data[4 * p + c] = (255 * (value - view.low)) / (view.high - view.low);
    }
    pixels.data[4 * p + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function showInputs() {
  if (!training.images) return;
  by("inputs").replaceChildren(...training.images.points.map(([label, coords]) => {
    const canvas = imageAt(coords);
    canvas.style.borderColor = training.full[label];
    canvas.title = className(label);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `input of class ${className(label)}`);
    return canvas;
  }));
}

/* ---- controls ---- */

function setMode(name) {
  state.mode = name;
  by(`mode-${name}`).checked = true;
  by("show-walls").checked = MODES[name].walls && training.frames[Math.max(0, state.frame)].pieces <= MOST_WALLED;
  by("show-walls").disabled = name === "neurons";
  by("show-boundary").disabled = name === "neurons" || !["decision", "cell"].some((kind) => kind in training.frames[0].counts);
  writeLegend();
  if (state.mesh) paint();
}

function play(on) {
  if (state.playing && !on) wanted = state.frame; // a frame that is still being unpacked is not shown any more
  state.playing = on;
  by("play").classList.toggle("on", on);
  by("play").setAttribute("aria-label", on ? "Pause" : "Play");
  clearTimeout(timer);
  if (!on) return;
  const tick = async () => {
    const last = training.frames.length - 1;
    if (state.frame >= last) return play(false);
    await show(state.frame + 1);
    if (state.playing) timer = setTimeout(tick, 1000 / Number(by("speed").value));
  };
  if (state.frame >= training.frames.length - 1) show(0).then(() => { if (state.playing) timer = setTimeout(tick, 400); });
  else tick();
}

function seek(x) {
  let best = 0;
  training.frames.forEach((frame, i) => { if (Math.abs(frame.at - x) < Math.abs(training.frames[best].at - x)) best = i; });
  play(false);
  return show(best);
}

function buildControls() {
  by("title").textContent = training.title;
  by("where").textContent = training.where;
  by("notes").textContent = training.notes.join(" ");
  for (const [name, mode] of Object.entries(MODES)) {
    if (!(mode.kind in training.frames[0].counts)) continue;
    const label = make("label", mode.title), input = make("input");
    Object.assign(input, { type: "radio", name: "mode", id: `mode-${name}`, value: name });
    input.addEventListener("change", () => setMode(name));
    label.prepend(input);
    by("modes").append(label);
  }
  const slider = by("slider"), single = training.frames.length === 1;
  slider.max = training.frames.length - 1;
  slider.addEventListener("input", () => { play(false); show(Number(slider.value)); });
  by("time").hidden = single;
  if (single) by("time").style.display = "none";
  by("play").addEventListener("click", () => play(!state.playing));
  for (const id of ["show-walls", "show-boundary"]) by(id).addEventListener("change", paint);
  by("show-points").addEventListener("change", showPoints);
  document.addEventListener("keydown", (event) => {
    if (event.code === "Space" && event.target === document.body) { event.preventDefault(); play(!state.playing); }
    if (event.code === "Escape") choose(null);
    if (event.target === by("map") && steer(event.key)) event.preventDefault();
  });
}

/* The map by keyboard: arrows pan, + and - zoom, Enter chooses the region in the middle. */
function steer(name) {
  const x = plot.x_range, y = plot.y_range, wide = x.end - x.start, high = y.end - y.start;
  const middle = { x: (x.start + x.end) / 2, y: (y.start + y.end) / 2 };
  const move = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[name];
  const scale = { "+": 0.8, "=": 0.8, "-": 1.25 }[name] ?? 1;
  if (name === "Enter") choose(middle);
  else if (move || scale !== 1) {
    const [right, up] = move ?? [0, 0];
    x.setv({ start: middle.x + wide * (right - scale / 2), end: middle.x + wide * (right + scale / 2) });
    y.setv({ start: middle.y + high * (up - scale / 2), end: middle.y + high * (up + scale / 2) });
  } else return false;
  return true;
}

function showPoints() {
  for (const name in renderers) if (name.startsWith("points-")) renderers[name].visible = by("show-points").checked;
}

function buildPanels() {
  training.panels.forEach((panel, p) => {
    const box = make("div", undefined, "panel"), head = make("div", undefined, "head"), area = make("div", undefined, "plot");
    head.append(make("h2", panel.title));
    panel.curves.forEach((curve, c) => {
      const entry = key("rule", curve.name + " ", (isDark && CURVES[curve.colour]) || curve.colour), value = make("b");
      entry.className = "key";
      value.id = `value-${p}-${c}`;
      entry.append(value);
      head.append(entry);
    });
    box.append(head);
    if (panel.drawn) {
      const target = make("div");
      target.id = `panel-${p}`;
      area.append(target);
      box.append(area);
    } else {
      box.classList.add("single");
    }
    by("curves").append(box);
  });
}

/* ---- start ---- */

window.regionscope = {
  state, training, show, setMode, choose, play, seek, refill,
  mousemove(event) {
    if (!moved) requestAnimationFrame(() => { const last = moved; moved = null; if (last) hover(last); });
    moved = { x: event.x, y: event.y, sx: event.sx, sy: event.sy };
  },
  mouseleave() { moved = null; leave(); },
  tap(event) {
    const same = state.chosen && state.mesh.locate(event.x, event.y) >= 0
      && state.mesh[state.chosen.kind][state.mesh.locate(event.x, event.y)] === state.chosen.group;
    choose(same ? null : { x: event.x, y: event.y });
  },
};

/* Bokeh frames a figure that was clicked, which only those who use the keyboard need; its toolbar has colours of its own. */
const LOOK = `.bk-events:focus:not(:focus-visible) { outline: none; } :host(.bk-Toolbar) > .bk-divider { background: var(--line) !important; }
  :host(.bk-Toolbar) > :not(.bk-divider):hover { background: var(--ground) !important; }`;
function restyle(root) {
  for (const node of root.querySelectorAll("*")) {
    if (!node.shadowRoot) continue;
    node.shadowRoot.append(make("style", LOOK));
    restyle(node.shadowRoot);
  }
}

/* Bokeh draws on a canvas, which style sheets do not reach: on a dark screen its colours change before it starts. */
const DARK = { "#fff": "#1b2028", "#5b6573": "#a3adba", "#b9c0c9": "#56606d", "#edf0f3": "#2b323c" };
const CURVES = { "#111111": "#e6eaf0", "#0072B2": "#4aa8e0", "#D55E00": "#f5893d", "#009E73": "#2cc79c" };
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
function figure(name) {
  let text = by(name).textContent;
  if (isDark) {
    const colours = name === "figure-map" ? DARK : { ...DARK, ...CURVES };
    for (const [light, dark] of Object.entries(colours)) text = text.replaceAll(`"${light}"`, `"${dark}"`);
  }
  return JSON.parse(text);
}

async function start() {
  buildControls();
  buildPanels();
  showInputs();
  const embed = async (name, target) => [...await Bokeh.embed.embed_item(figure(name), target)][0].model;
  ndarray = Bokeh.require("core/util/ndarray").ndarray;
  plot = await embed("figure-map", "map");
  restyle(by("map"));
  for (const renderer of plot.renderers) renderers[renderer.name] = renderer;
  by("show-points").disabled = !Object.keys(renderers).some((name) => name.startsWith("points-"));
  for (let p = 0; p < training.panels.length; p++) {
    if (!training.panels[p].drawn) continue;
    const panel = await embed(`figure-${p}`, `panel-${p}`);
    cursors.push(...panel.center.filter((part) => part.name === "cursor"));
  }
  setMode(MODES.linear.kind in training.frames[0].counts ? "linear" : "proven");
  await show(training.frames.length - 1);
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  by("card").replaceChildren(make("h2", "The page could not start"), make("p", String(error), "hint"));
  throw error;
});
