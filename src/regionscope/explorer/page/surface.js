"use strict";

// The surface page: a polygon mesh that is drawn with WebGL and turned with the mouse, a finger or the keyboard.
const regionscope = (() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("surface").textContent);
  const read = (name, Kind) => {
    const text = atob(data.arrays[name]);
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    return new Kind(bytes.buffer);
  };
  const points = read("points", Float32Array), triangles = read("triangles", Int32Array);
  const face = read("face", Int32Array), normals = read("normals", Float32Array);
  const edges = read("edges", Int32Array), colours = read("colours", Uint8Array);
  const START = { turn: -0.9, tilt: 0.55, fitted: true };
  const state = { ...START, distance: 2.7, mode: "pieces", edges: true, box: true, chosen: null, frames: 0, webgl: true };

  // ---- small matrices, by columns as WebGL wants them
  const multiply = (a, b) => {
    const out = new Float32Array(16);
    for (let i = 0; i < 4; i++)
      for (let j = 0; j < 4; j++)
        for (let k = 0; k < 4; k++) out[4 * j + i] += a[4 * k + i] * b[4 * j + k];
    return out;
  };
  const view = ({ turn, tilt } = state) => {
    const [ca, sa, ct, st] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
    const right = [-sa, ca, 0], up = [-ca * st, -sa * st, ct], back = [ca * ct, sa * ct, st];
    const d = state.distance * data.reach;
    return new Float32Array([right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
      0, 0, -d, 1]);
  };
  const projection = (ratio) => {
    const f = 4 * Math.min(1, ratio), middle = state.distance * data.reach, half = 1.01 * Math.hypot(...data.half);
    const near = Math.max(middle - half, 0.02 * data.reach), far = middle + half;  // tight: depths stay distinct
    return new Float32Array([f / ratio, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, 2 * far * near / (near - far), 0]);
  };
  // The least distance, in units of the reach, from which all places are in sight before the surface is turned.
  const fit = (places, ratio) => {
    const m = view(START), p = projection(ratio);
    let far = 0;
    for (let i = 0; i < places.length; i += 3) {
      const [x, y, z] = [0, 1, 2].map((k) => m[k] * places[i] + m[4 + k] * places[i + 1] + m[8 + k] * places[i + 2]);
      far = Math.max(far, z + 1.06 * Math.max(p[0] * Math.abs(x), p[5] * Math.abs(y)));
    }
    return far / data.reach;
  };

  const [x, y, z] = data.half, frame = [];
  for (const a of [-1, 1])
    for (const b of [-1, 1])
      frame.push(-x, a * y, b * z, x, a * y, b * z, a * x, -y, b * z, a * x, y, b * z, a * x, b * y, -z, a * x, b * y, z);

  // ---- the graphics card
  const canvas = $("stage");
  const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
  const VERTEX = `attribute vec3 place; attribute vec3 normal; attribute vec3 tint; uniform mat4 whole; uniform float lift;
    varying vec3 n; varying vec3 c;
    void main() { n = normal; c = tint; gl_Position = whole * vec4(place, 1.0); gl_Position.z -= lift * gl_Position.w; }`;
  const FRAGMENT = `precision mediump float; varying vec3 n; varying vec3 c; uniform vec3 lamp; uniform float shaded;
    void main() { float side = gl_FrontFacing ? 1.0 : -1.0;
      float light = (0.9 + 0.1 * side) * (0.7 + 0.34 * side * dot(normalize(n + vec3(0.0, 0.0, 1e-6)), lamp));
      gl_FragColor = vec4(c * mix(1.0, clamp(light, 0.0, 1.0), shaded), 1.0); }`;
  let program = null, meshBuffers = null, edgeBuffers = null, boxBuffers = null;

  const compile = (kind, text) => {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    return shader;
  };
  const buffer = (array, old) => {
    const made = old ?? gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, made);
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
    return made;
  };
  const tint = (i) => {
    if (state.chosen !== null && i === state.chosen) return [0.84, 0.1, 0.1];
    if (state.mode === "plain") return [0.62, 0.74, 0.84];
    if (state.mode === "normals") return [0, 1, 2].map((k) => 0.5 + 0.5 * normals[3 * i + k]);
    return [0, 1, 2].map((k) => colours[3 * i + k] / 255);
  };
  const paint = () => {
    const tints = new Float32Array(3 * triangles.length);
    for (let t = 0; t < face.length; t++) {
      const c = tint(face[t]);
      for (let v = 0; v < 3; v++) tints.set(c, 9 * t + 3 * v);
    }
    meshBuffers.tint = buffer(tints, meshBuffers.tint);
  };
  const lines = (places, colour) => {
    const tints = new Float32Array(places.length), none = new Float32Array(places.length);
    for (let i = 0; i < places.length; i += 3) tints.set(colour, i);
    return { place: buffer(places), normal: buffer(none), tint: buffer(tints), count: places.length / 3 };
  };
  const setUp = () => {
    program = gl.createProgram();
    gl.attachShader(program, compile(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compile(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    gl.useProgram(program);
    const places = new Float32Array(3 * triangles.length), flat = new Float32Array(3 * triangles.length);
    triangles.forEach((p, i) => {
      places.set(points.subarray(3 * p, 3 * p + 3), 3 * i);
      const f = face[Math.floor(i / 3)];
      flat.set(normals.subarray(3 * f, 3 * f + 3), 3 * i);
    });
    meshBuffers = { place: buffer(places), normal: buffer(flat), tint: undefined, count: triangles.length };
    paint();
    const ends = new Float32Array(3 * edges.length);
    edges.forEach((p, i) => ends.set(points.subarray(3 * p, 3 * p + 3), 3 * i));
    edgeBuffers = lines(ends, [0.25, 0.28, 0.3]);
    boxBuffers = lines(new Float32Array(frame), [0.55, 0.6, 0.65]);
  };
  const use = (buffers, kind, shaded, lift) => {
    for (const name of ["place", "normal", "tint"]) {
      const at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, 3, gl.FLOAT, false, 0, 0);
    }
    gl.uniform1f(gl.getUniformLocation(program, "shaded"), shaded);
    gl.uniform1f(gl.getUniformLocation(program, "lift"), lift);
    gl.drawArrays(kind, 0, buffers.count);
  };
  const whole = () => multiply(projection(canvas.width / canvas.height), view());
  const draw = () => {
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    if (state.fitted)  // the whole box is in sight, unless that makes the surface tiny
      state.distance = Math.min(fit(frame, width / height), 4 * fit(points, width / height) || Infinity);
    gl.viewport(0, 0, width, height);
    gl.enable(gl.DEPTH_TEST);
    const ground = getComputedStyle($("view")).backgroundColor.match(/\d+/g);
    gl.clearColor(...ground.slice(0, 3).map((part) => part / 255), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(gl.getUniformLocation(program, "whole"), false, whole());
    const m = view(), lamp = [0, 1, 2].map((i) => -0.45 * m[4 * i] + 0.5 * m[4 * i + 1] + 0.74 * m[4 * i + 2]);
    gl.uniform3fv(gl.getUniformLocation(program, "lamp"), lamp);
    use(meshBuffers, gl.TRIANGLES, 1, 0);
    if (state.edges) use(edgeBuffers, gl.LINES, 0, 1e-3);
    if (state.box) use(boxBuffers, gl.LINES, 0, 0);
    state.frames++;
  };

  // ---- choosing a face: the nearest triangle under the pointer
  const pick = (x, y) => {
    const box = canvas.getBoundingClientRect();
    const px = 2 * (x - box.left) / box.width - 1, py = 1 - 2 * (y - box.top) / box.height;
    const m = whole(), at = new Float32Array(3 * points.length / 3);
    for (let i = 0; i < points.length / 3; i++) {
      const [a, b, c] = points.subarray(3 * i, 3 * i + 3);
      const w = m[3] * a + m[7] * b + m[11] * c + m[15];
      for (let k = 0; k < 3; k++) at[3 * i + k] = (m[k] * a + m[4 + k] * b + m[8 + k] * c + m[12 + k]) / w;
    }
    let found = null, nearest = Infinity;
    for (let t = 0; t < face.length; t++) {
      const [i, j, k] = triangles.subarray(3 * t, 3 * t + 3).map((v) => 3 * v);
      const [ax, ay, bx, by, cx, cy] = [at[i], at[i + 1], at[j], at[j + 1], at[k], at[k + 1]];
      const area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
      const u = ((bx - px) * (cy - py) - (by - py) * (cx - px)) / area;
      const v = ((cx - px) * (ay - py) - (cy - py) * (ax - px)) / area;
      if (!(u >= 0 && v >= 0 && u + v <= 1)) continue;
      const depth = u * at[i + 2] + v * at[j + 2] + (1 - u - v) * at[k + 2];
      if (depth < nearest) [found, nearest] = [face[t], depth];
    }
    return found;
  };
  const choose = (i) => {
    state.chosen = i;
    const card = $("card");
    card.replaceChildren();
    const title = document.createElement("h2");
    title.textContent = i === null ? "faces" : `face ${i.toLocaleString("en")}`;
    card.append(title);
    if (i === null) {
      card.append(element("p", "Click a face to read its area and its normal. Drag or use the arrow keys to turn the "
        + "surface; scroll, pinch or use + and - to zoom."));
      card.lastChild.className = "hint";
    } else {
      const facts = document.createElement("dl");
      facts.className = "facts";
      const normal = [0, 1, 2].map((k) => normals[3 * i + k].toFixed(3)).join(", ");
      for (const [name, value] of [["area", data.areas[i]], ["normal", normal]])
        facts.append(element("dt", name), element("dd", String(value)));
      card.append(facts);
    }
    if (program !== null) { paint(); draw(); }
  };
  const element = (kind, text) => {
    const made = document.createElement(kind);
    made.textContent = text;
    return made;
  };

  // ---- the page
  const turn = (dx, dy) => {
    state.turn -= dx;
    state.tilt = Math.max(-1.57, Math.min(1.57, state.tilt + dy));
    draw();
  };
  const zoom = (factor) => {
    state.distance = Math.max(0.3, Math.min(24, state.distance * factor));
    state.fitted = false;
    draw();
  };
  const pointers = new Map();
  let moved = 0;
  const listen = () => {
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return;
      const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
      const spread = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
      const old = pointers.size === 2 ? spread() : 0;
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      moved += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 1) turn(0.008 * dx, 0.008 * dy);
      else if (pointers.size === 2) zoom(old / Math.max(spread(), 1));
    });
    for (const name of ["pointerup", "pointercancel"])
      canvas.addEventListener(name, (event) => {
        if (name === "pointerup" && moved < 4) {
          const found = pick(event.clientX, event.clientY);
          choose(found === state.chosen ? null : found);
        }
        pointers.delete(event.pointerId);
      });
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(0.001 * event.deltaY)); },
      { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const keys = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
      if (keys[event.key] !== undefined) turn(...keys[event.key]);
      else if (event.key === "+" || event.key === "=") zoom(0.9);
      else if (event.key === "-") zoom(1 / 0.9);
      else return;
      event.preventDefault();
    });
    for (const mode of ["pieces", "plain", "normals"])
      $(`mode-${mode}`).addEventListener("change", () => { state.mode = mode; paint(); draw(); });
    for (const name of ["edges", "box"])
      $(`show-${name}`).addEventListener("change", (event) => { state[name] = event.target.checked; draw(); });
    $("reset").addEventListener("click", () => { Object.assign(state, START); draw(); });
    new ResizeObserver(draw).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };

  const start = () => {
    $("title").textContent = data.title;
    $("where").textContent = data.what;
    for (const [name, value] of data.facts) {
      const entry = document.createElement("div");
      entry.append(element("dt", name), element("dd", value));
      $("counts").append(entry);
    }
    choose(null);
    if (gl === null) {
      state.webgl = false;
      canvas.replaceWith(element("p", "This browser does not offer WebGL, which the picture needs. The numbers are exact."));
    } else {
      setUp();
      listen();
      draw();
    }
    document.body.dataset.ready = "yes";
  };
  start();
  return { state, pick, choose, draw, turn, zoom };
})();
