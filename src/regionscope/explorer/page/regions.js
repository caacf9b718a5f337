"use strict";
/* What lies under the mouse: a region, its numbers, its outline, its neighbours. */

function describe(m, piece) {
  const kind = MODES[state.mode].kind, group = m[kind], g = group[piece];
  const size = m.sizes(kind)[g], found = { kind, group: g, piece, size, share: size / training.size, norm: m.norm?.[piece] };
  found.id = kind === "linear" ? m.ids[g] : g;
  if (m.label) found.label = m.label[piece];
  if (m.active) found.active = m.about.units.map((_, layer) => m.active[layer * m.n + piece]);
  return found;
}

function rowsOf(m, found) {
  const rows = [];
  if (found.label !== undefined) rows.push(["label", className(found.label)]);
  rows.push(["size", `${number(found.size)} (${(100 * found.share).toPrecision(3)} %)`]);
  if (m.norm) rows.push([found.kind === "decision" ? "slope here" : "slope norm", number(found.norm)]);
  if (found.active) {
    const parts = found.active.map((n, layer) => `${m.about.layers[layer]} ${n}/${m.about.units[layer]}`);
    rows.push(["active units", parts.join(", ")]);
  }
  return rows;
}

const MOST_UNITS = 8;
function unitsText(units) {
  if (!units || !units.length) return "";
  const shown = units.slice(0, MOST_UNITS).join(", "), more = units.length - MOST_UNITS;
  return ` (${units.length === 1 ? "unit" : "units"} ${shown}${more > 0 ? ` and ${more} more` : ""})`;
}

const titleOf = (found) => `${NOUNS[found.kind]} ${found.id.toLocaleString("en-US")}`;

/* Draw the outlines of some regions of the kind that is shown. */
function outline(name, regions) {
  const m = state.mesh, line = renderers[name].data_source;
  if (!regions) {
    if (line.data.xs.length) line.data = { xs: [], ys: [] };
    return;
  }
  const kind = MODES[state.mode].kind, group = m[kind], inside = new Uint8Array(m.about.counts[kind]);
  for (const region of regions) inside[region] = 1;
  line.data = m.lines((w) => {
    const left = m.wall_left[w], right = m.wall_right[w];
    const a = left > 0 ? group[left - 1] : -1, b = right > 0 ? group[right - 1] : -1;
    return a !== b && ((a >= 0 && inside[a]) || (b >= 0 && inside[b])) ? 0 : -1;
  }, 1);
}

function hover(event) {
  const m = state.mesh;
  if (!m) return;
  const piece = m.locate(event.x, event.y), tip = by("tip");
  if (piece < 0) return leave();
  if (!state.hover || state.hover.piece !== piece) {
    const before = state.hover;
    state.hover = describe(m, piece);
    tip.replaceChildren(make("strong", titleOf(state.hover)), facts(rowsOf(m, state.hover)));
    const image = imageAt([event.x, event.y]);
    if (image) tip.append(image);
    if (!before || before.group !== state.hover.group) outline("hover", [state.hover.group]);
  }
  tip.hidden = false;
  const frame = by("map").getBoundingClientRect(), box = tip.getBoundingClientRect();
  const x = frame.left + event.sx + 16, y = frame.top + event.sy + 16;
  tip.style.left = `${Math.max(8, x + box.width > innerWidth - 8 ? x - box.width - 32 : x)}px`;
  tip.style.top = `${Math.max(8, y + box.height > innerHeight - 8 ? y - box.height - 32 : y)}px`;
}

function leave() {
  state.hover = null;
  by("tip").hidden = true;
  outline("hover", null);
}

/* The pin is a place, so that the region found there follows the frame and the mode. */
function choose(at) {
  const m = state.mesh, card = by("card"), piece = at ? m.locate(at.x, at.y) : -1;
  state.pin = piece < 0 ? null : at;
  state.chosen = null;
  refill();
  if (piece < 0) {
    outline("near", null);
    outline("chosen", null);
    card.replaceChildren(make("h2", "Regions"), make("p", "Point at a region to read its numbers; click it to see its "
      + "neighbours. Drag to pan, scroll to zoom.", "hint"));
    return;
  }
  const found = describe(m, piece), group = m[found.kind];
  found.neighbours = m.neighbours(group, found.group);
  found.walls = m.about.layers.length ? [...m.wallsByLayer(group, found.group)] : [];
  state.chosen = found;
  outline("near", found.neighbours);
  outline("chosen", [found.group]);
  const names = [...m.about.layers, "decision boundary"];
  const units = m.unitsByLayer(group, found.group);
  const drawn = found.walls.map((n, i) => (n ? `${names[i]} ${n}${unitsText(units[i])}` : "")).filter(Boolean).join(", ") || "none";
  const beside = make("dd", counted(found.neighbours.length, found.kind === "cell" ? "cell" : "region"));
  beside.id = "neighbours";
  const list = facts(m.about.layers.length ? [...rowsOf(m, found), ["walls by layer", drawn]] : rowsOf(m, found));
  list.prepend(make("dt", "neighbours"), beside);
  card.replaceChildren(make("h2", titleOf(found)), list);
}
