r"""Joining the parts of a mesh that were cut separately.

A mesh that is too large for the memory is divided into parts, each a group of cells. The edges between two parts are
*tagged*, and each part is cut on its own. What was one edge is then a chain of pieces in both parts:

    before              cut apart                       stitched
    +-----+-----+       +-----+         +-----+         +-----+-----+
    |     |     |       |    /a         a\    |         |    /a\    |
    |  P  t  Q  |  ->   |   / |         | \   |   ->    |   / | \   |
    |     |     |       |  /  b         b  \  |         |  /  b  \  |
    +-----+-----+       +-----+         +-----+         +-----+-----+

The functions are continuous, so both parts find the same points along the tagged edge t, in the same order: the k-th
point of one is the k-th of the other. These vertices, and the pieces of t between them, are glued: they get one number.
Where rounding gave one part a point more, the other receives it first (``_even_out``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.crossing import Points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.planar.mesh import Mesh, cut_edges
from regionscope.geometry.ragged import offsets_of, sort_by


@dataclass(frozen=True)
class Part:
    """A mesh with its arrays (a row a vertex). The first ``len(shared)`` vertices are the vertices ``shared`` of the
    whole.

    arrays[0] are the coordinates.
    """

    mesh: Mesh
    arrays: tuple[Tensor, ...]
    shared: Tensor


def groups_of_cells(mesh: Mesh, position: Tensor, n_groups: int) -> list[Tensor]:
    """Sort cells into compact groups of equal size by repeated halving; cells of different slices are parted first.

    ``position`` (r, 2): a point of each cell.
    """
    groups = [torch.arange(mesh.n_cells, device=position.device)]
    while len(groups) < n_groups:
        halves = []
        for group in groups:
            slice_id, place = mesh.slice_id[group], position[group]
            if bool((slice_id == slice_id[0]).all()):
                extent = place.amax(0) - place.amin(0)
                key = place[:, int(extent.argmax())]
            else:
                key = slice_id.double()
            order = key.argsort()
            middle = len(group) // 2
            halves += [group[order[:middle]].sort().values, group[order[middle:]].sort().values]
        groups = [half for half in halves if len(half)]
        if all(len(group) == 1 for group in groups):
            break
    return groups


def tag_borders(mesh: Mesh, groups: list[Tensor], first_tag: int) -> tuple[Mesh, int]:
    """Give every edge between cells of different groups a tag of its own; returns the number of tags."""
    group_of = torch.empty(mesh.n_cells + 1, dtype=torch.int64, device=mesh.edges.device)
    group_of[-1] = -1
    for i, group in enumerate(groups):
        group_of[group] = i
    cells = mesh.edge_cells()
    border = (cells >= 0).all(1) & (group_of[cells[:, 0]] != group_of[cells[:, 1]])
    count = int(border.sum())
    tags = mesh.tags.clone()
    tags[border] = first_tag + torch.arange(count, device=tags.device)
    return replace(mesh, tags=tags), count


def stitch(parts: list[Part], n_vertices: int, first_tag: int, n_tags: int) -> tuple[Mesh, tuple[Tensor, ...]]:
    """One mesh from parts that tile it and meet along the edges tagged ``first_tag .. first_tag + n_tags - 1``.

    ``n_vertices``: number of vertices of the whole before the parts were worked through; they keep their numbers.
    Returns the mesh and its arrays.
    """
    seams = _Seams.of(parts, first_tag, n_tags)
    chains = _even_out([seams.chain(part) for part in parts], seams)
    parts = [chain.part for chain in chains]
    device = parts[0].mesh.edges.device
    vertex_of, n_all = _number_vertices(chains, n_vertices)

    edge_base = offsets_of(torch.tensor([len(part.mesh.edges) for part in parts], device="cpu")).tolist()
    edge_of = torch.arange(edge_base[-1], device=device)
    second, first = _twins(chains, [chain.edge + edge_base[i] for i, chain in enumerate(chains)])
    edge_of[second] = first
    kept = edge_of == torch.arange(len(edge_of), device=device)
    edge_of = (kept.cumsum(0) - 1)[edge_of]

    edges = torch.cat([vertex_of[i][part.mesh.edges] for i, part in enumerate(parts)])[kept]
    tags = torch.cat([part.mesh.tags for part in parts])[kept]
    tags[(tags >= first_tag) & (tags < first_tag + n_tags)] = -1
    corner_base = offsets_of(torch.tensor([len(part.mesh.corners) for part in parts], device="cpu")).tolist()
    offsets = [part.mesh.offsets[:-1] + corner_base[i] for i, part in enumerate(parts)]
    mesh = Mesh(
        n_all,
        edges,
        torch.cat([part.mesh.layer for part in parts])[kept],
        tags,
        torch.cat([vertex_of[i][part.mesh.corners] for i, part in enumerate(parts)]),
        torch.cat([edge_of[part.mesh.sides + edge_base[i]] for i, part in enumerate(parts)]),
        torch.cat([*offsets, offsets[0].new_full((1,), corner_base[-1])]),
        torch.cat([part.mesh.slice_id for part in parts]),
    )
    arrays = []
    for k in range(len(parts[0].arrays)):
        sample = parts[0].arrays[k]
        whole = sample.new_empty((n_all, *sample.shape[1:]))
        for i, part in enumerate(parts):
            whole[vertex_of[i]] = part.arrays[k]
        arrays.append(whole)
    return mesh, tuple(arrays)


@dataclass(frozen=True)
class _TaggedEdges:
    """The pieces of all tagged edges of a part, sorted by tag and along it.

    tag: (x,) counted from 0. edge: (x,) the piece. end: (x,) the vertex of the part at which the piece ends.
    """

    part: Part
    tag: Tensor
    edge: Tensor
    end: Tensor


@dataclass(frozen=True)
class _Seams:
    """The tagged edges along which parts meet: tags ``first .. first + count - 1``.

    start, stop: (count, 2) coordinates of the ends that the edge had before it was cut, in one direction for both
    parts.
    """

    first: int
    count: int
    start: Tensor
    stop: Tensor

    @staticmethod
    def of(parts: list[Part], first: int, count: int) -> _Seams:
        device = parts[0].mesh.edges.device
        low = torch.full((count,), -1, dtype=torch.int64, device=device)
        high = low.clone()
        start, stop = torch.zeros(2, count, 2, dtype=torch.float64, device=device)
        seams = _Seams(first, count, start, stop)
        for part in parts:
            mine = seams.edges(part.mesh)
            tag = (part.mesh.tags[mine] - first).repeat(2)
            vertex = part.mesh.edges[mine].T.flatten()
            old = vertex < len(part.shared)
            tag, vertex = tag[old], vertex[old]
            whole = part.shared[vertex]
            low = low.scatter_reduce(0, tag, whole, "amin", include_self=False)
            high = high.scatter_reduce(0, tag, whole, "amax", include_self=False)
            is_low, is_high = whole == low[tag], whole == high[tag]
            start[tag[is_low]] = part.arrays[0][vertex[is_low]]
            stop[tag[is_high]] = part.arrays[0][vertex[is_high]]
        return seams

    def edges(self, mesh: Mesh) -> Tensor:
        """The tagged edges of a mesh."""
        return ((mesh.tags >= self.first) & (mesh.tags < self.first + self.count)).nonzero()[:, 0]

    def along(self, point: Tensor, tag: Tensor) -> Tensor:
        """Position of a point of a tagged edge between its ends, 0 to 1."""
        start = self.start[tag]
        direction = self.stop[tag] - start
        return ((point - start) * direction).sum(-1) / (direction * direction).sum(-1)

    def chain(self, part: Part) -> _TaggedEdges:
        """The pieces of the tagged edges of a part, in order."""
        edge = self.edges(part.mesh)
        tag = part.mesh.tags[edge] - self.first
        vertices = part.mesh.edges[edge]
        first, second = (self.along(part.arrays[0][ends], tag) for ends in vertices.unbind(1))
        end = torch.where(first < second, vertices[:, 1], vertices[:, 0])
        order = sort_by(tag, torch.maximum(first, second))
        return _TaggedEdges(part, tag[order], edge[order], end[order])


def _even_out(chains: list[_TaggedEdges], seams: _Seams) -> list[_TaggedEdges]:
    """Where rounding gave one part a point that the other does not have, give it to the other as well."""
    counts = torch.stack([torch.bincount(chain.tag, minlength=seams.count) for chain in chains])
    most = counts.amax(0)
    uneven = ((counts > 0) & (counts < most)).any(0).nonzero()[:, 0].tolist()
    if not uneven:
        return chains
    missing: list[list[tuple[int, float]]] = [[] for _ in chains]
    for tag in uneven:
        rich, poor = (int(i) for i in counts[:, tag].argsort(descending=True)[:2])
        missing[poor] += _missing_points(chains[rich], chains[poor], tag, seams)
    pairs = zip(chains, missing, strict=True)
    return [seams.chain(_insert(chain.part, lacking) if lacking else chain.part) for chain, lacking in pairs]


def _missing_points(rich: _TaggedEdges, poor: _TaggedEdges, tag: int, seams: _Seams) -> list[tuple[int, float]]:
    """(edge of the poorer part, t) for each point of the richer part that has no partner, farthest from any first."""
    where: list[list[float]] = []
    for chain in (rich, poor):
        end = chain.end[chain.tag == tag]
        where.append(seams.along(chain.part.arrays[0][end], torch.full_like(end, tag))[:-1].tolist())
    distance = {s: min((abs(s - other) for other in where[1]), default=1.0) for s in where[0]}
    lonely = sorted(sorted(where[0], key=lambda s: -distance[s])[: len(where[0]) - len(where[1])])
    edges = poor.edge[poor.tag == tag].tolist()
    stops = [0.0, *where[1], 1.0]
    missing = []
    for s in lonely:
        piece = max(i for i in range(len(edges)) if stops[i] <= s)
        t = (s - stops[piece]) / (stops[piece + 1] - stops[piece])
        first = poor.part.mesh.edges[edges[piece], 0]
        chain_end = poor.end[poor.edge == edges[piece]]
        missing.append((edges[piece], float(1 - t if first == chain_end else t)))
    return missing


def _insert(part: Part, lacking: list[tuple[int, float]]) -> Part:
    lacking = sorted(lacking)
    device = part.mesh.edges.device
    edge = torch.tensor([e for e, _ in lacking], device=device)
    t = torch.tensor([t for _, t in lacking], dtype=torch.float64, device=device)
    ends = part.mesh.edges[edge]
    interpolation = Interpolation.of_points(part.mesh.n_vertices, ends[:, 0], ends[:, 1], t)
    mesh = cut_edges(part.mesh, Points(edge, t)).mesh
    return Part(mesh, tuple(interpolation.apply_all(part.arrays)), part.shared)


def _twins(chains: list[_TaggedEdges], items: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Pairs (second, first) of items that stand at the same place of the same chain in two parts."""
    tag = torch.cat([chain.tag for chain in chains])
    item = torch.cat(items)
    order = tag.argsort(stable=True)
    tag, item = tag[order], item[order]
    counts = torch.bincount(tag) // 2
    counts = counts[counts > 0]
    start = offsets_of(2 * counts)[:-1]
    place = torch.arange(int(counts.sum()), device=tag.device) - torch.repeat_interleave(
        offsets_of(counts)[:-1], counts
    )
    first = torch.repeat_interleave(start, counts) + place
    second = first + torch.repeat_interleave(counts, counts)
    return item[second], item[first]


def _number_vertices(chains: list[_TaggedEdges], n_vertices: int) -> tuple[list[Tensor], int]:
    """The number of every vertex of every part in the whole: shared ones once, those on tagged edges once."""
    device = chains[0].part.mesh.edges.device
    counts = torch.tensor([chain.part.mesh.n_vertices for chain in chains], device="cpu")
    base = (offsets_of(counts) + n_vertices).tolist()
    number = torch.arange(base[-1], device=device)  # the whole's own vertices, then all parts'
    items = []
    for i, chain in enumerate(chains):
        shared = chain.part.shared
        number[base[i] : base[i] + len(shared)] = shared
        items.append(chain.end + base[i])
    second, first = _twins(chains, items)
    inner = number[second] == second  # the last end of a chain is a shared vertex already
    number[second[inner]] = first[inner]
    used = torch.zeros(base[-1], dtype=torch.bool, device=device)
    used[number[n_vertices:]] = True
    compact = used.cumsum(0) - 1
    of_part = [compact[number[base[i] : base[i + 1]]] for i in range(len(chains))]
    return of_part, int(used.sum())
