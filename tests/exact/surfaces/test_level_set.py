"""Level sets against closed forms, sampled segments, the whole partition, and cases in which values hit the level."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.exact.surfaces.pruning import Pruning
from small_slices import Function, mlp


def middle(network: nn.Module, box: rs.Box) -> float:
    """A level that the network takes: its median on random points."""
    draws = torch.rand(2001, box.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        return float(network(box.embed(draws * box.radius))[:, 0].median())


def cube(k: int, radius: float = 1.0) -> rs.Box:
    return rs.Box(torch.zeros(k), torch.eye(k), radius)


def infinity_norm(x: Tensor) -> Tensor:
    a = x.abs()
    b = a[:, 1] + torch.relu(a[:, 0] - a[:, 1])
    return a[:, 2] + torch.relu(b - a[:, 2])


@pytest.mark.parametrize(
    ("formula", "value", "area", "euler"),
    [
        (lambda x: x.abs().sum(1), 1.0, 4 * 3**0.5, 2),
        (infinity_norm, 0.5, 6.0, 2),
        (lambda x: (x[:, :2].abs().sum(1) - 0.5).abs() + x[:, 2].abs(), 0.25, None, 0),
    ],
    ids=["octahedron", "cube", "torus"],
)
def test_closed_forms_in_space(formula: Callable[[Tensor], Tensor], value: float, area: float, euler: int) -> None:
    found = rs.level_set(Function(formula), cube(3, 1.3), value=value)
    assert found.euler == euler
    assert found.n_nonmanifold == 0
    assert len(found.boundary_edges) == 0
    assert found.n_components == 1
    if area is not None:
        assert found.area == pytest.approx(area, rel=1e-12)


def test_closed_forms_on_a_plane() -> None:
    found = rs.level_set(Function(lambda x: x.abs().sum(1)), cube(2, 1.3), value=1.0)
    assert found.area == pytest.approx(4 * 2**0.5, rel=1e-12)
    assert (len(found), found.euler, len(found.boundary_edges)) == (4, 0, 0)
    wide = rs.level_set(
        Function(lambda x: x.abs().sum(1)), rs.Box([0.0, 0.0], [[2.0, 0.0], [0.0, 0.5]], 3.0), value=1.0
    )
    assert wide.area == pytest.approx(4 * 2**0.5, rel=1e-12)  # lengths are those of input space
    ends = wide.points[wide.corners.view(-1, 2)]
    turn = ends[:, 0, 0] * ends[:, 1, 1] - ends[:, 0, 1] * ends[:, 1, 0]
    assert bool((turn > 0).all())  # {f < value} lies to the left of each segment


@pytest.mark.parametrize("angle", [1e-3, 3e-8, 1e-8, 2e-9])
def test_sizes_on_slices_whose_directions_are_almost_parallel(angle: float) -> None:
    plane = rs.Box([0.0, 0.0], torch.tensor([[1.0, 0.0], [1.0, angle]], dtype=torch.float64), 1.0)
    assert rs.level_set(Function(lambda x: x[:, 0]), plane, value=0.1).area == pytest.approx(1.9 * angle, rel=1e-6)
    directions = torch.tensor([[1.0, 0.0, 0.0], [1.0, angle, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    space = rs.Box([0.0, 0.0, 0.0], directions, 1.0)
    assert rs.level_set(Function(lambda x: x[:, 2]), space, value=0.3).area == pytest.approx(4 * angle, rel=1e-6)
    across = rs.level_set(Function(lambda x: x[:, 1]), space, value=0.3 * angle)
    assert across.area == pytest.approx(4.0, rel=1e-6)


def crossings(found: rs.LevelSet, start: Tensor, stop: Tensor) -> Tensor:
    """Positions t in (0, 1) at which the segment from ``start`` to ``stop`` meets the faces."""
    along = stop - start
    if found.dim == 2:
        a, b = found.vertices[found.corners.view(-1, 2)].unbind(1)
        solved = torch.linalg.solve(torch.stack([along.expand_as(a), a - b], 2), a - start)
        inside = (solved > 0).all(1) & (solved < 1).all(1)
        return solved[inside, 0]
    a, b, c = found.vertices[found.triangles()].unbind(1)
    matrix = torch.stack([along.expand_as(a), a - b, a - c], 2)
    flat = torch.linalg.det(matrix).abs() < 1e-14
    matrix[flat] = torch.eye(3, dtype=torch.float64)
    solved = torch.linalg.solve(matrix, a - start)
    inside = (solved > 0).all(1) & (solved[:, 0] < 1) & (solved[:, 1:].sum(1) < 1) & ~flat
    return solved[inside, 0]


NETWORKS = [((2, 10, 10, 1), 0), ((2, 16, 8, 8, 1), 1), ((3, 8, 8, 1), 2), ((3, 6, 6, 6, 1), 3)]


@pytest.mark.parametrize(("sizes", "seed"), NETWORKS)
def test_random_networks_against_samples(sizes: tuple[int, ...], seed: int) -> None:
    network, box = mlp(*sizes, seed=seed).double(), cube(sizes[0], 2.0)
    value = middle(network, box)
    found = rs.level_set(network, box, value=value)
    assert len(found) > 5
    with torch.no_grad():
        assert float((network(found.points) - value).abs().max()) < 1e-9
        step = 1e-6 * found.normals
        centre = torch.stack(
            [found.vertices[face].mean(0) for face in found.corners.split(found.offsets.diff().tolist())]
        )
        large = found.areas > 1e-4
        assert bool((network(box.embed(centre + step)) > network(box.embed(centre - step)))[large].all())
    assert found.n_nonmanifold == 0
    assert bool((found.vertices[found.boundary_edges].abs().amax(-1) > 2 - 1e-9).all())
    generator = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, 2001, dtype=torch.float64)
    changes = 0
    for _ in range(20):
        start, stop = torch.rand(2, box.dim, generator=generator, dtype=torch.float64) * 4 - 2
        with torch.no_grad():
            below = network(box.embed(start + t[:, None] * (stop - start)))[:, 0] < value
        met = crossings(found, start, stop)
        sampled = (below[1:] != below[:-1]).nonzero()[:, 0]
        places = torch.searchsorted(t, met) - 1
        assert torch.equal(torch.unique(places), sampled), "each sampled change has a crossing, and nothing else has"
        assert len(met) == len(sampled)
        changes += len(sampled)
    assert changes > 5


@pytest.mark.parametrize(("sizes", "seed"), NETWORKS[1::2])
def test_dropping_regions_changes_nothing(sizes: tuple[int, ...], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network, box = mlp(*sizes, seed=seed).double(), cube(sizes[0], 2.0)
    value = middle(network, box)
    found = rs.level_set(network, box, value=value)
    part = rs.linear_regions(network, box)
    assert found.n_regions < len(part)
    monkeypatch.setattr(Pruning, "__call__", lambda *_: None)
    whole = rs.level_set(network, box, value=value)
    assert whole.n_regions >= len(part)
    assert (len(whole), len(whole.vertices), whole.euler) == (len(found), len(found.vertices), found.euler)
    assert whole.area == pytest.approx(found.area, rel=1e-12)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_the_scale_of_a_hidden_layer_changes_nothing(factor: float) -> None:
    """Bounds run in float32 only where it can hold the values."""
    network, box = mlp(3, 12, 12, 12, 1, seed=3).double(), cube(3, 2.0)
    found = rs.level_set(network, box, value=(value := middle(network, box)))
    first, second, *_ = (layer for layer in network.modules() if isinstance(layer, nn.Linear))
    with torch.no_grad():
        first.weight *= factor
        first.bias *= factor
        second.weight /= factor
    scaled = rs.level_set(network, box, value=value)
    assert (len(scaled), scaled.euler, scaled.n_regions) == (len(found), found.euler, found.n_regions)
    assert scaled.area == pytest.approx(found.area, rel=1e-9)


def test_small_memory_gives_the_same_curves() -> None:
    network, box = mlp(2, 48, 48, 1, seed=5).double(), cube(2, 2.0)
    value = middle(network, box)
    found = rs.level_set(network, box, value=value)
    small = rs.level_set(network, box, value=value, memory=1 << 20)
    assert small.n_regions > found.n_regions  # worked through in parts, without dropping
    assert (len(small), small.euler, small.n_nonmanifold) == (len(found), found.euler, found.n_nonmanifold)
    assert small.area == pytest.approx(found.area, rel=1e-12)


def test_regions_on_the_level_are_reported() -> None:
    ramp = rs.level_set(Function(lambda x: -torch.relu(x[:, 0] + 0.5)), cube(3))
    assert ramp.area == pytest.approx(4.0)  # {f < 0} is x > -0.5
    assert torch.allclose(ramp.normals, torch.tensor([-1.0, 0.0, 0.0]).double())
    assert len(ramp.flat) == 1
    assert ramp.flat_size == pytest.approx(2.0)
    assert float(ramp.flat[0, 0]) < -0.5
    assert len(ramp.boundary_edges) == 4
    hill = rs.level_set(Function(lambda x: torch.relu(x[:, 0])), cube(2))
    assert len(hill) == 0  # no point lies below 0
    assert hill.flat_size == pytest.approx(2.0)


@pytest.mark.parametrize("k", [2, 3])
def test_a_sheet_without_inside_is_left_out(k: int) -> None:
    found = rs.level_set(Function(lambda x: -x[:, 0].abs()), cube(k))
    assert (len(found), found.euler, found.area, found.n_components) == (0, 0, 0.0, 0)
    assert found.vertices.shape == (0, k)


def test_vertices_on_the_level_stay_closed() -> None:
    """At value 0.5 the level set runs through vertices and along edges of the partition."""

    def bump(x: Tensor) -> Tensor:
        return torch.relu(x[:, 0]) + torch.relu(-x[:, 1]) + x[:, 2].abs() + torch.relu(x[:, 0] - 0.5)

    found = rs.level_set(Function(bump), cube(3), value=0.5)
    assert found.n_nonmanifold == 0
    assert found.euler == 1  # a cap with its border on the box
    on_box = found.vertices[found.boundary_edges].abs().amax(-1)
    assert torch.allclose(on_box, torch.ones_like(on_box))


def test_touching_sheets_are_counted() -> None:
    saddle = rs.level_set(Function(lambda x: x[:, 0].abs() - x[:, 1].abs()), cube(2))
    assert saddle.n_nonmanifold == 1
    assert (len(saddle), len(saddle.boundary_edges)) == (4, 4)
    cones = rs.level_set(Function(lambda x: x[:, 0].abs() + x[:, 1].abs() - x[:, 2].abs()), cube(3))
    assert cones.n_nonmanifold == 1
    assert cones.n_components == 1


@pytest.mark.slow
@pytest.mark.parametrize(("k", "seed"), [(2, 21), (3, 0)])
def test_boundary_between_classes(k: int, seed: int) -> None:
    network, box = mlp(k, 8, 8, 4, seed=seed).double(), cube(k, 3.0)
    dec = rs.decision_regions(network, box)
    seen = sorted({*dec.labels.tolist()})
    assert len(seen) == 4
    walls = dec.partition.walls
    labels = dec.piece_labels[walls.regions]
    total = 0.0
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            found = rs.level_set(network, box, classes=(a, b))
            wanted = (walls.regions >= 0).all(1) & (labels.sort(1).values == torch.tensor([a, b])).all(1)
            assert len(found) == int(wanted.sum())
            with torch.no_grad():
                outputs = network(found.points)
            top = outputs.amax(1)
            assert torch.allclose(outputs[:, a], top)
            assert torch.allclose(outputs[:, b], top)
            total += found.area
    assert total == pytest.approx(sum(rs.level_set(network, box, classes=a).area for a in seen) / 2, rel=1e-9)
    assert rs.level_set(network, box, classes=seen[0]).classes == (seen[0],)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_border_of_a_class_in_space_is_that_of_its_pairs(seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Linear(3, 5), nn.LeakyReLU(), nn.Linear(5, 4), nn.LeakyReLU(), nn.Linear(4, 4)
    network = nn.Sequential(*layers).double()
    for parameter in network.parameters():
        parameter.data *= 2  # regions away from the border are left out before the classes are compared
    area = {
        classes: rs.level_set(network, cube(3, 2.0), classes=classes).area
        for classes in [*range(4), *combinations(range(4), 2)]
    }
    for a in range(4):
        pairs = sum(area[pair] for pair in combinations(range(4), 2) if a in pair)
        assert area[a] == pytest.approx(pairs, rel=1e-9)


def test_normals_point_out_of_the_first_class() -> None:
    network = Function(lambda x: torch.stack([x[:, 0], -x[:, 0], x[:, 1] - 5], 1))
    assert rs.level_set(network, cube(2), classes=(0, 1)).normals.tolist() == [[-1.0, 0.0]]
    assert rs.level_set(network, cube(2), classes=(1, 0)).normals.tolist() == [[1.0, 0.0]]
    assert len(rs.level_set(network, cube(2), classes=(0, 2))) == 0


def test_networks_with_maxima_are_cut_everywhere() -> None:
    pooled = nn.Sequential(nn.Linear(3, 8), nn.Unflatten(1, (1, 8)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(4, 1))
    network = pooled.double()
    box = cube(3)
    found = rs.level_set(network, box, value=middle(network, box))
    with torch.no_grad():
        assert float((network(found.points) - found.value).abs().max()) < 1e-9
    assert found.n_nonmanifold == 0


def test_one_of_several_outputs() -> None:
    network, box = mlp(2, 8, 3, seed=4).double(), cube(2)
    difference = rs.level_set(network, box, target=(0, 2), value=0.1)
    with torch.no_grad():
        outputs = network(difference.points)
    assert torch.allclose(outputs[:, 0] - outputs[:, 2], torch.full_like(outputs[:, 0], 0.1))
    with pytest.raises(rs.InputError, match="Expected a target"):
        rs.level_set(network, box)


def test_wrong_arguments_are_named() -> None:
    network, box = mlp(3, 4, 2, seed=0).double(), cube(3)
    with pytest.raises(rs.InputError, match="dimension 2 or 3"):
        rs.level_set(network, rs.Segment([0.0, 0, 0], [1.0, 0, 0]), target=0)
    with pytest.raises(rs.InputError, match="two different ones"):
        rs.level_set(network, box, classes=(1, 1))
    with pytest.raises(rs.InputError, match="two different ones"):
        rs.level_set(network, box, classes=2)
    with pytest.raises(rs.InputError, match="classes without value"):
        rs.level_set(network, box, classes=(0, 1), value=1.0)
    with pytest.raises(rs.InputError, match="finite"):
        rs.level_set(network, box, target=0, value=float("nan"))
    with pytest.raises(rs.LimitReached, match="max_regions=2"):
        rs.level_set(network, box, target=0, max_regions=2)


def test_the_result_describes_itself() -> None:
    found = rs.level_set(Function(lambda x: x.abs().sum(1)), cube(3, 1.3), value=1.0)
    assert repr(found) == "LevelSet(dim=3, value=1, faces=8, area=6.9282, euler=2)"
    curve = rs.level_set(Function(lambda x: x.abs().sum(1)), cube(2, 1.3), value=1.0)
    assert repr(curve) == "LevelSet(dim=2, value=1, segments=4, length=5.65685, euler=0)"
    corners, offsets = found.faces
    assert (len(corners), offsets.tolist()) == (24, list(range(0, 25, 3)))
    names = [name for name, _, _ in found.readings()]
    assert names == ["", "area", "euler", "components", "boundary_edges", "nonmanifold"]
    assert found.to("cpu").area == found.area


@pytest.mark.slow
def test_pandas_has_a_row_for_each_face() -> None:
    found = rs.level_set(Function(lambda x: x.abs().sum(1)), cube(3, 1.3), value=1.0)
    table = found.to_pandas()
    assert table["area"].sum() == pytest.approx(found.area)
    assert list(table.columns) == ["area", "corners", "normal_1", "normal_2", "normal_3"]
