"""Two artists that draw many small shapes as a few long paths.

A collection of 100,000 polygons is slow in a PDF or SVG file, where every polygon carries its own colour and state.
These two keep the interface of matplotlib's collections, one path for each shape, but make those paths only when asked,
and hand the renderer one compound path for each colour. Neighbours of one colour become one shape, without the edges
between them:

    +---+---+          +-------+
    | a | a |    ->    |   a   |     the edges that two polygons of one colour run along in opposite directions are
    +---+---+          +---+---+     left out, and the others are put end to end
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import allow_rasterization
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.collections import Collection, LineCollection, PolyCollection
from matplotlib.path import Path

from regionscope.types import FloatArray

_POINTS = 10_000  # in one path: the rasteriser limits how much it takes at once
_CHAINED = 50_000  # more segments than that are too short and thin for their joints to be seen
_SEAM = 0.35  # points: the width of strokes below the faces
_WORTH_MERGING = 0.8  # share of the edges that remain, at most
_STRAIGHT = 1e-9  # sine of a turn that nobody sees
_FINE = 0.5  # points: snapping would widen thinner lines across a band to a whole pixel


class Cells(PolyCollection):
    """Filled polygons without outlines: polygon i is ``outlines[i]`` (m, 2), its colour ``colours[i]`` (3 or 4,)."""

    def __init__(self, outlines: Sequence[FloatArray], colours: FloatArray, **options: Any) -> None:
        super().__init__(outlines, facecolors=colours, edgecolors="none", linewidths=0.0, **options)

    def set_verts(self, verts: Sequence[FloatArray], closed: bool = True) -> None:  # type: ignore[override]
        """Take new polygons; they are always closed."""
        self._outlines = list(verts)
        self._paths: list[Path] = []
        self.stale = True

    def get_paths(self) -> list[Path]:
        """One closed path for each polygon."""
        if not self._paths:
            self._paths = [Path([*outline, outline[0]], closed=True) for outline in self._outlines]
        return self._paths

    @allow_rasterization  # type: ignore[untyped-decorator]
    def draw(self, renderer: RendererBase) -> None:
        """Each colour is one path, or a few when it has many polygons."""
        if not self.get_visible() or not self._outlines:
            return
        self.update_scalarmappable()
        colours = np.broadcast_to(np.asarray(self.get_facecolor()), (len(self._outlines), 4))
        distinct, which = np.unique(colours, axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(which.reshape(-1)))[:-1])
        layers = [
            (tuple(colour), list(_joined(merged([self._outlines[i] for i in group]), closed=True)))
            for colour, group in zip(distinct, groups, strict=True)
        ]
        # Below, strokes in the colours of the faces: where two faces meet, the hairline between them then shows one of
        # the two colours, not the background. On top, the faces alone, so that no stroke hides a small face. The orders
        # are opposite: faces smaller than a pixel would otherwise favour the colours that come last.
        rounds = [(_SEAM, layers[::-1]), (0.0, layers)] if (colours[:, 3] == 1.0).all() else [(0.0, layers)]
        with _Pen(self, renderer) as gc:
            for width, ordered in rounds:
                gc.set_linewidth(width)
                for colour, paths in ordered:
                    gc.set_foreground(colour, isRGBA=True)
                    for path in paths:
                        renderer.draw_path(gc, path, self.get_transform(), colour)


class Segments(LineCollection):
    """Straight segments (n, 2, 2) of one width; those of one colour that share an end are drawn as one line.

    colour: one for all, or one for each segment (n, 3).
    """

    def __init__(self, segments: FloatArray, *, colour: Any, width: float, **options: Any) -> None:
        colours = [colour] if np.ndim(colour) < 2 else colour
        super().__init__(segments, colors=colours, linewidths=width, **options)  # type: ignore[arg-type]

    def set_segments(self, segments: Any) -> None:
        """Take new segments."""
        self._ends = np.asarray(segments, dtype=np.float64).reshape(-1, 2, 2)
        self._paths: list[Path] = []
        self.stale = True

    def get_segments(self) -> list[FloatArray]:
        """The segments as they were given."""
        return list(self._ends)

    def get_paths(self) -> list[Path]:
        """One path for each segment."""
        if not self._paths:
            self._paths = [Path(ends) for ends in self._ends]
        return self._paths

    @allow_rasterization  # type: ignore[untyped-decorator]
    def draw(self, renderer: RendererBase) -> None:
        """A few long paths."""
        if not self.get_visible() or not len(self._ends):
            return
        colours = np.broadcast_to(np.asarray(self.get_color()), (len(self._ends), 4))
        distinct, which = np.unique(colours, axis=0, return_inverse=True)
        with _Pen(self, renderer) as gc:
            width = float(np.asarray(self.get_linewidth()).reshape(-1)[0])
            gc.set_linewidth(width)
            if width < _FINE:
                gc.set_snap(False)
            gc.set_capstyle("butt")
            gc.set_joinstyle("round")
            for i in range(len(distinct))[::-1]:  # the lightest first: dark lines stay whole where they cross others
                ends = self._ends[which.reshape(-1) == i]
                gc.set_foreground(tuple(distinct[i]), isRGBA=True)
                for path in _joined(chains(ends) if len(ends) <= _CHAINED else list(ends), closed=False):
                    renderer.draw_path(gc, path, self.get_transform(), None)


def merged(outlines: Sequence[FloatArray]) -> list[FloatArray]:
    """The border of a union of polygons (m, 2), all of one orientation, as closed lines without the last point.

    Holes run the other way round, so that filling by winding numbers leaves them out. Corners are the same when their
    coordinates are equal; those of a straight line between two others are left out.

    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> [line.tolist() for line in merged([square, square + [1.0, 0.0]])]
    [[[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]]]
    """
    sizes = np.array([len(outline) for outline in outlines])
    points = np.concatenate(outlines)
    following = np.arange(1, len(points) + 1)
    following[np.cumsum(sizes) - 1] -= sizes
    corners, node = np.unique(points @ np.array([1.0, 1j]), return_inverse=True)
    start, end = node, node[following]
    _, edge = np.unique(np.minimum(start, end) * len(corners) + np.maximum(start, end), return_inverse=True)
    border = np.bincount(edge, weights=np.sign(end - start))[edge] != 0
    if border.sum() > _WORTH_MERGING * len(points):
        return list(outlines)
    leaving: dict[int, list[int]] = {}
    for corner, following_corner in zip(start[border].tolist(), end[border].tolist(), strict=True):
        leaving.setdefault(corner, []).append(following_corner)
    lines = []
    for first, unused in leaving.items():
        while unused:  # as many edges enter a corner as leave it, so that each walk ends where it began
            line, corner = [], first
            while leaving[corner]:
                line.append(corner)
                corner = leaving[corner].pop()
            lines.append(_without_straight(np.stack([corners[line].real, corners[line].imag], 1)))
    return lines


def _without_straight(line: FloatArray) -> FloatArray:
    """A closed line without the points at which it does not turn."""
    before, after = line - np.roll(line, 1, 0), np.roll(line, -1, 0) - line
    turn = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
    kept = turn > _STRAIGHT * np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return line[kept] if kept.sum() > 2 else line


def chains(segments: FloatArray) -> list[FloatArray]:
    """The segments (n, 2, 2) put end to end: lines (m, 2) that end where an end belongs to one or to three segments.

    Ends are the same when their coordinates are equal. A closed line repeats its first point.

    >>> [line.tolist() for line in chains(np.array([[[0.0, 0.0], [1.0, 0.0]], [[2.0, 1.0], [1.0, 0.0]]]))]
    [[[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]]]
    """
    ends = segments.reshape(-1, 2)
    _, node, degree = np.unique(ends @ np.array([1.0, 1j]), return_inverse=True, return_counts=True)
    paired = degree[node] == 2
    by_node = np.argsort(node, kind="stable")
    pairs = by_node[paired[by_node]].reshape(-1, 2)
    mate = np.full(len(ends), -1)
    mate[pairs] = pairs[:, ::-1]
    follower, unused, lines = mate.tolist(), [True] * len(segments), []
    for start in [*np.flatnonzero(~paired).tolist(), *range(len(ends))]:  # open lines first, then what is closed
        if not unused[start // 2]:
            continue
        line, end = [start], start
        while end >= 0 and unused[end // 2]:
            unused[end // 2] = False
            line.append(end ^ 1)
            end = follower[end ^ 1]
        lines.append(ends[line])
    return lines


def faces_in_space(points: FloatArray, corners: Any, offsets: Any) -> FloatArray:
    """Polygons (r, m, 3); the last corner is repeated, as matplotlib fills shorter ones with whatever memory holds."""
    sizes = np.diff(offsets)[:, None]
    place = offsets[:-1, None] + np.minimum(np.arange(sizes.max(initial=1)), sizes - 1)
    return np.asarray(points[corners[place]])


class _Pen:
    """A graphics context with the clip of an artist, and the group of the artist around what is drawn with it."""

    def __init__(self, artist: Collection, renderer: RendererBase) -> None:
        self.artist, self.renderer = artist, renderer
        self.gc = renderer.new_gc()

    def __enter__(self) -> GraphicsContextBase:
        self.renderer.open_group(type(self.artist).__name__, self.artist.get_gid())
        self.artist._set_gc_clip(self.gc)  # type: ignore[attr-defined]
        return self.gc

    def __exit__(self, *_: object) -> None:
        self.gc.restore()
        self.renderer.close_group(type(self.artist).__name__)
        self.artist.stale = False


def _joined(lines: Sequence[FloatArray], *, closed: bool) -> Iterator[Path]:
    """The lines (m, 2) as compound paths of about 10,000 points; ``closed`` ends each where it began."""
    length = np.array([len(line) for line in lines]) + int(closed)
    total = np.cumsum(length)
    first = 0
    while first < len(lines):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + _POINTS, side="right")))
        start = total[first:last] - length[first:last] - done
        codes = np.full(int(total[last - 1]) - done, Path.LINETO, dtype=np.uint8)
        codes[start] = Path.MOVETO
        points = np.concatenate(lines[first:last])
        if closed:
            codes[total[first:last] - done - 1] = Path.CLOSEPOLY
            given, points = points, np.zeros((len(codes), 2))  # the point of a CLOSEPOLY is not looked at
            points[codes != Path.CLOSEPOLY] = given
        yield Path(points, codes)
        first = last
