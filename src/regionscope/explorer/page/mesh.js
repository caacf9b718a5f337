"use strict";
/* One frame in the browser: typed arrays, and the questions that the page asks of them. */

const NUMBERS = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };

async function unpack(payload) {
  const text = atob(payload), packed = new Uint8Array(text.length);
  for (let i = 0; i < packed.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

class Mesh {
  constructor(about, buffer) {
    this.about = about;
    for (const [name, type, place, length] of about.arrays) this[name] = new NUMBERS[type](buffer, place, length);
    this.n = about.pieces;
    this.offsets = new Uint32Array(this.n + 1);
    for (let i = 0; i < this.n; i++) this.offsets[i + 1] = this.offsets[i] + this.sides[i];
    this.totals = {};
  }

  /* Size of every region of one kind ("linear", "activation", "decision", "cell"): its pieces added up. */
  sizes(kind) {
    if (!this.totals[kind]) {
      const group = this[kind], total = new Float64Array(this.about.counts[kind]);
      for (let i = 0; i < this.n; i++) total[group[i]] += this.size[i];
      this.totals[kind] = total;
    }
    return this.totals[kind];
  }

  /* The pieces as an image of a window of the plane, rows from the bottom up: colours[piece] is a number of the palette
     of 32-bit pixels. A pixel has the colour of the piece that holds its middle, so pieces tile without gaps. Painting
     ten thousand outlines on a canvas takes ten times as long. */
  raster(colours, palette, window, width, height) {
    const pixels = new Uint32Array(width * height), left = new Float64Array(height), right = new Float64Array(height);
    const sx = width / (window.x1 - window.x0), sy = height / (window.y1 - window.y0);
    for (let i = 0; i < this.n; i++) {
      const end = this.offsets[i + 1];
      let lowest = Infinity, highest = -Infinity, v = this.corners[end - 1];
      let ax = (this.x[v] - window.x0) * sx - 0.5, ay = (this.y[v] - window.y0) * sy - 0.5;
      for (let c = this.offsets[i]; c < end; c++) {
        v = this.corners[c];
        const bx = (this.x[v] - window.x0) * sx - 0.5, by = (this.y[v] - window.y0) * sy - 0.5;
        if (by < lowest) lowest = by;
        if (by > highest) highest = by;
        const side = by > ay ? right : left; // outlines run counter-clockwise: the right side goes up
        const from = Math.max(0, Math.ceil(Math.min(ay, by))), to = Math.min(height, Math.ceil(Math.max(ay, by)));
        const slope = (bx - ax) / (by - ay);
        for (let row = from; row < to; row++) side[row] = ax + (row - ay) * slope;
        ax = bx;
        ay = by;
      }
      const last = Math.min(height, Math.ceil(highest)), colour = palette[colours[i]];
      for (let row = Math.max(0, Math.ceil(lowest)); row < last; row++) {
        const from = Math.max(0, Math.ceil(left[row])), to = Math.min(width, Math.ceil(right[row]));
        for (let at = row * width + from, stop = row * width + to; at < stop; at++) pixels[at] = colour;
      }
    }
    return pixels;
  }

  /* The walls as segments, joined by NaN into one path for each number that pick(wall) gives; -1 leaves one out. */
  lines(pick, count) {
    const chosen = new Int16Array(this.wall_layer.length), length = new Uint32Array(count);
    for (let w = 0; w < chosen.length; w++) {
      chosen[w] = pick(w);
      if (chosen[w] >= 0) length[chosen[w]] += 3;
    }
    const xs = Array.from(length, (m) => new Float32Array(m)), ys = Array.from(length, (m) => new Float32Array(m));
    const fill = new Uint32Array(count);
    for (let w = 0; w < chosen.length; w++) {
      const line = chosen[w];
      if (line < 0) continue;
      const at = fill[line], a = this.wall_from[w], b = this.wall_to[w];
      xs[line][at] = this.x[a]; ys[line][at] = this.y[a];
      xs[line][at + 1] = this.x[b]; ys[line][at + 1] = this.y[b];
      xs[line][at + 2] = ys[line][at + 2] = NaN;
      fill[line] = at + 3;
    }
    return { xs, ys };
  }

  /* Whether a wall separates two regions of one kind; the border of the slice separates too. */
  separates(w, group) {
    const left = this.wall_left[w], right = this.wall_right[w];
    return left === 0 || right === 0 || group[left - 1] !== group[right - 1];
  }

  /* Walls that are decision boundary: different labels on both sides. */
  isBoundary(w) {
    const left = this.wall_left[w], right = this.wall_right[w];
    return left > 0 && right > 0 && this.label[left - 1] !== this.label[right - 1];
  }

  /* The regions that share a wall with region g of one kind, ascending. */
  neighbours(group, g) {
    const found = new Set();
    for (let w = 0; w < this.wall_layer.length; w++) {
      if (this.wall_left[w] === 0 || this.wall_right[w] === 0) continue;
      const left = group[this.wall_left[w] - 1], right = group[this.wall_right[w] - 1];
      if (left !== right && (left === g || right === g)) found.add(left === g ? right : left);
    }
    return [...found].sort((a, b) => a - b);
  }

  /* How many walls of region g each layer has drawn; the last entry is the decision boundary. A wall that the boundary
     cuts into segments is one wall: two activation regions are convex and share at most one of each layer. */
  wallsByLayer(group, g) {
    const count = new Uint32Array(this.about.layers.length + 1), seen = new Set();
    for (let w = 0; w < this.wall_layer.length; w++) {
      if (this.wall_layer[w] === 0 || !this.separates(w, group)) continue;
      const left = this.wall_left[w] - 1, right = this.wall_right[w] - 1, layer = this.wall_layer[w] - 1;
      if (group[left] !== g && group[right] !== g) continue;
      const a = this.activation[left], b = this.activation[right];
      const wall = `${layer} ${Math.min(a, b)} ${Math.max(a, b)}`;
      if (layer < this.about.layers.length && seen.has(wall)) continue;
      seen.add(wall);
      count[layer]++;
    }
    return count;
  }

  /* The units that fold at the walls of region g, for each layer, ascending. */
  unitsByLayer(group, g) {
    const units = this.about.layers.map(() => new Set());
    for (let w = 0; this.wall_unit && w < this.wall_unit.length; w++) {
      if (this.wall_unit[w] === 0 || this.wall_left[w] === 0 || this.wall_right[w] === 0 || !this.separates(w, group)) continue;
      if (group[this.wall_left[w] - 1] !== g && group[this.wall_right[w] - 1] !== g) continue;
      units[this.wall_layer[w] - 1]?.add(this.wall_unit[w] - 1);
    }
    return units.map((set) => [...set].sort((a, b) => a - b));
  }

  /* The piece at a point, or -1. */
  locate(px, py) {
    if (!this.bins) this.sortIntoBins();
    const { side, x0, y0, dx, dy, start, listed } = this.bins;
    const column = Math.floor((px - x0) / dx), row = Math.floor((py - y0) / dy);
    if (column < 0 || row < 0 || column > side || row > side) return -1;
    const cell = Math.min(row, side - 1) * side + Math.min(column, side - 1);
    for (let k = start[cell]; k < start[cell + 1]; k++) if (this.holds(listed[k], px, py)) return listed[k];
    return -1;
  }

  holds(piece, px, py) {
    const first = this.offsets[piece], end = this.offsets[piece + 1];
    let a = this.corners[end - 1];
    for (let c = first; c < end; c++) {
      const b = this.corners[c];
      const cross = (this.x[b] - this.x[a]) * (py - this.y[a]) - (this.y[b] - this.y[a]) * (px - this.x[a]);
      if (cross < 0) return false; // outlines run counter-clockwise
      a = b;
    }
    return true;
  }

  sortIntoBins() {
    const side = Math.max(1, Math.round(Math.sqrt(this.n)));
    let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
    for (let v = 0; v < this.x.length; v++) {
      x0 = Math.min(x0, this.x[v]); x1 = Math.max(x1, this.x[v]);
      y0 = Math.min(y0, this.y[v]); y1 = Math.max(y1, this.y[v]);
    }
    const dx = (x1 - x0) / side, dy = (y1 - y0) / side;
    const box = new Uint16Array(4 * this.n), start = new Uint32Array(side * side + 1);
    const bin = (at, from, width) => Math.max(0, Math.min(side - 1, Math.floor((at - from) / width)));
    const each = (i, act) => {
      for (let row = box[4 * i + 2]; row <= box[4 * i + 3]; row++)
        for (let column = box[4 * i]; column <= box[4 * i + 1]; column++) act(row * side + column);
    };
    for (let i = 0; i < this.n; i++) {
      let a = Infinity, b = -Infinity, c = Infinity, d = -Infinity;
      for (let k = this.offsets[i]; k < this.offsets[i + 1]; k++) {
        const x = this.x[this.corners[k]], y = this.y[this.corners[k]];
        a = Math.min(a, x); b = Math.max(b, x); c = Math.min(c, y); d = Math.max(d, y);
      }
      box[4 * i] = bin(a, x0, dx); box[4 * i + 1] = bin(b, x0, dx);
      box[4 * i + 2] = bin(c, y0, dy); box[4 * i + 3] = bin(d, y0, dy);
      each(i, (cell) => start[cell + 1]++);
    }
    for (let cell = 0; cell < side * side; cell++) start[cell + 1] += start[cell];
    const listed = new Uint32Array(start[side * side]), fill = start.slice(0, -1);
    for (let i = 0; i < this.n; i++) each(i, (cell) => { listed[fill[cell]++] = i; });
    this.bins = { side, x0, y0, dx, dy, start, listed };
  }
}
