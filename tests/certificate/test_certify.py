"""Certificates: true partitions are certified, wrong ones refuted with the true count, and a checker agrees."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import check_certificate
import damage
import regionscope as rs
from fuzz.compare import slice_of
from fuzz.networks import FAMILIES, network
from fuzz.truth import truth_of
from regionscope.certificate.bits import Bits, distinct
from regionscope.certificate.claim import ClaimedPartition
from regionscope.certificate.frames import corner_frames, frames_of
from regionscope.certificate.integers import IntegerNetwork, WideProduct, homogeneous
from regionscope.certificate.matrices import LayerMatrix
from regionscope.certificate.rounding_bounds import Value, first_steps, reads
from regionscope.certificate.rounding_bounds import affine as columns_of_affine
from regionscope.certificate.steps import AffineStep, Largest, read_steps
from regionscope.certificate.unit_bounds import screen
from regionscope.certificate.vertices import screen_by_vertices
from regionscope.errors import LimitReached
from regionscope.network import trace
from small_slices import PENTAGON, mlp

SQUARE = rs.Box.between(-1.0, 1.0, (2,))


class Columns(nn.Module):
    """max(relu(x_0), x_1), whose values have no axis but the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(torch.relu(x[:, 0]), x[:, 1])[:, None]


def test_a_plane_is_certified_in_floats_alone() -> None:
    columns = rs.linear_regions(Columns(), rs.Box([0.1, 0.2], torch.eye(2), 1.0)).certify()
    assert columns
    assert columns.counts["linear"] == 3
    found = rs.linear_regions(mlp(2, 12, 12, 2), SQUARE)
    certificate = found.certify()
    assert certificate
    assert certificate.recomputed == certificate.unproved == 0
    assert certificate.counts["by_layer"] == found.by_layer
    assert certificate.counts["linear"] == found.n_linear_regions
    assert 0 < certificate.nearest_tie < 1
    assert certificate.vertex_error < 1e-9
    assert str(certificate).startswith(f"certified: {len(found)} activation regions")
    assert certificate.readings()[0] == ("", 1, None)


@pytest.mark.parametrize("seed", [*range(len(FAMILIES)), 8, 9, 11, 12, 16, 19, 22])
def test_certificates_agree_with_exact_arithmetic(seed: int) -> None:
    """The fuzz program computes the same counts by another method; the checker agrees without either."""
    net = network(seed)
    truth = truth_of(net.layers, net.weights, net.place)
    found = rs.decision_regions(net.module(), slice_of(net.place))
    certificate = found.certify()
    assert certificate
    assert list(certificate.counts["by_layer"].values()) == truth.by_layer
    assert certificate.counts["linear"] == truth.linear
    assert certificate.counts["decision"] == len(truth.labels)
    assert certificate.document is not None
    proved = check_certificate.check(json.loads(json.dumps(certificate.document())))
    assert {name: proved[name] for name in certificate.counts} == certificate.counts
    assert proved["labels"] == sorted(found.labels.tolist())
    if net.dim == 2:
        shapes = {str(label): (one.components, one.holes) for label, one in found.topology().items()}
        assert {label: (one["components"], one["holes"]) for label, one in proved["topology"].items()} == shapes


def test_the_sides_of_a_polygon_are_exact() -> None:
    """Its corners have long mantissas, so that the normals of its sides are rounded."""
    for seed in range(3):
        corners = PENTAGON / 3 @ torch.randn(2, 4, generator=torch.Generator().manual_seed(seed)).double()
        certificate = rs.linear_regions(mlp(4, 10, 10, 3), rs.Polygon(corners)).certify()
        assert certificate
        assert certificate.document is not None
        check_certificate.check(json.loads(json.dumps(certificate.document())))


def test_a_partition_that_merges_thin_regions_is_refuted_with_the_true_count() -> None:
    """Neurons that are nearly copies leave regions that are thinner than the tolerance of the engine."""
    net = network(13)
    truth = truth_of(net.layers, net.weights, net.place)
    part = rs.linear_regions(net.module(), slice_of(net.place))
    assert list(part.by_layer.values()) != truth.by_layer
    certificate = part.certify()
    assert not certificate
    assert list(certificate.counts["by_layer"].values()) == truth.by_layer
    first = certificate.refuted[0]
    assert first.true - first.claimed == truth.by_layer[-1] - len(part)
    assert str(certificate).startswith("refuted: the true region has other neighbours (regions ")
    with pytest.raises(rs.InputError, match="Expected a certified partition"):
        certificate.save("nowhere.json")


def pooling(size: int, stride: int) -> tuple[nn.Module, rs.Slice]:
    """Max-pooling behind ReLUs, with many ties of zeros; windows that overlap if the stride is small."""
    torch.manual_seed(2)
    first = [nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(size, stride), nn.Conv2d(2, 3, 2), nn.ReLU(), nn.MaxPool2d(2)]
    images = torch.rand(3, 1, 9, 9)
    layers = nn.Sequential(*first, nn.Flatten())
    return nn.Sequential(layers, nn.Linear(layers(images).shape[1], 2)), rs.Simplex(images)


@pytest.mark.parametrize(
    ("model", "where"),
    [
        (mlp(2, 6, 6, 2, seed=1), SQUARE),
        pooling(2, 2),
        pooling(3, 2),
        (mlp(3, 5, 3, 2), rs.Box.between(-1.0, 1.0, (3,))),
    ],
)
def test_integers_alone_give_the_same_certificate(
    model: nn.Module, where: rs.Slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = rs.linear_regions(model, where)
    quick = part.certify()
    assert quick.recomputed < 0.001 * quick.signs
    module = sys.modules["regionscope.certificate.float_proof"]
    proved = module.prove
    nothing = np.zeros(len(part), dtype=bool)
    monkeypatch.setattr(module, "prove", lambda *args, **options: replace(proved(*args, **options), proved=nothing))
    slow = part.certify()
    assert quick
    assert slow
    assert slow.counts == quick.counts
    assert slow.recomputed > 0.9 * slow.signs
    left = part.certify(max_recomputed=1)
    assert not left
    assert str(left) == f"not certified: {left.unproved} signs left"


@pytest.mark.parametrize("by_vertices", [True, False])
def test_error_bounds_hold(by_vertices: bool) -> None:
    """Each float function of a unit differs from the true one by no more than its bound, on all of [-3, 3]^2; and far
    units have the sign of the pattern."""
    torch.manual_seed(3)
    layers = [nn.Linear(2, 9), nn.LeakyReLU(0.1), nn.Linear(9, 9), nn.Hardsigmoid(), nn.Linear(9, 3)]
    part = rs.linear_regions(nn.Sequential(*layers).double(), SQUARE)
    assert part.program is not None
    claim, steps = ClaimedPartition.of(part), read_steps(part.program)
    code, exact = Bits(steps, 4), IntegerNetwork(steps, part.slice)
    corners = corner_frames(claim.points, claim.offsets, claim.owner)
    boxes = frames_of(claim.vertices, claim.corners, claim.offsets)
    if by_vertices:
        found = screen_by_vertices(steps, part.slice, claim, corners, code)
        origins, ends = fractions(claim.points[corners.base[0]]), fractions(claim.points[corners.base[1:]])
        axes = (ends - origins).transpose(1, 0, 2)
    else:
        found = screen(steps, part.slice, boxes, code)
        origins, axes = fractions(boxes.reference), fractions(boxes.scale[:, :, None] * np.eye(2))
    assert found.sure.all()
    patterns, points = code.decode(found.bits), fractions(claim.points)
    units = [(fold, factor) for fold in steps.folds for _ in range(9) for factor, _ in exact.thresholds[id(fold)]]
    near = {int(key): (row, error) for key, row, error in zip(*vars(found.near).values(), strict=True)}
    shares, n_far = [], 0
    for region in range(len(part)):
        constraints = exact.cell(patterns[region]).constraints
        for number, (fold, factor) in enumerate(units, 4):
            over = exact.denominators[fold.source] * factor
            *slopes, constant = (Fraction(int(a), over) for a in constraints[number])
            if (key := region * (4 + len(units)) + number) in near:
                row, error = near[key]
                local = [constant + origins[region] @ slopes, *(axes[region] @ slopes)]
                gaps = np.abs(np.array(local) - fractions(row))
                shares.append(float((gaps[0] + 3 * sum(gaps[1:])) / Fraction(float(error))))
            elif by_vertices:
                n_far += 1
                assert (points[claim.offsets[region] : claim.offsets[region + 1]] @ slopes + constant > 0).all()
    assert len(shares) > 50
    assert 0.0005 < max(shares) < 1
    assert (n_far > 200) == by_vertices


def fractions(numbers: Any) -> Any:
    """The same numbers as fractions."""
    return np.vectorize(lambda x: Fraction(float(x)), otypes=[object])(numbers)


def test_the_first_layer_is_sharp() -> None:
    """With many inputs the first matrix product is much more accurate than a plain one, and its bound holds."""
    torch.manual_seed(0)
    line = rs.Segment(30 * torch.randn(400, dtype=torch.float64), torch.randn(400, dtype=torch.float64))
    steps = read_steps(trace(nn.Sequential(nn.Linear(400, 3), nn.ReLU()).double(), (400,)))
    values, first = first_steps(steps, line, np.ones(1))
    step, columns = steps.steps[0], np.stack([line.origin.numpy().ravel(), line.basis.numpy().ravel()], 1)
    assert isinstance(step, AffineStep)
    value = values[next(reads(steps.steps[first]))]
    true = fractions(step.terms[0][1].sparse.toarray()) @ fractions(columns)
    true[:, 0] += fractions(step.shift)
    gaps = np.abs(true - fractions(value.numbers)).sum(1).astype(float)
    assert (gaps <= value.error).all()
    plain = columns_of_affine(step, {"x": Value(columns, np.zeros(400), np.abs(columns).sum(1))}, 1)[1]
    assert (100 * value.error < plain).all()


def test_frames_of_flat_regions_and_numbers_that_overflow_prove_nothing() -> None:
    flat = np.array([[0.0, 0.0], [0.1, 0.3], [0.2, 0.6], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    frames = corner_frames(flat, np.array([0, 3, 6]), np.repeat([0, 1], 3))
    assert frames.sound.tolist() == [False, True]
    huge = nn.Sequential(*(layer for _ in range(11) for layer in (nn.Linear(2, 2), nn.ReLU()))).double()
    with torch.no_grad():
        for parameter in huge.parameters():
            parameter.fill_(2.0**99)
    part = rs.linear_regions(mlp(2, 2, 2), SQUARE)
    claim, steps = ClaimedPartition.of(part), read_steps(trace(huge, (2,)))
    corners = corner_frames(claim.points, claim.offsets, claim.owner)
    assert not screen_by_vertices(steps, part.slice, claim, corners, Bits(steps, 4)).sure.any()


def test_patterns_survive_their_bits() -> None:
    program = trace(Odd().eval().double(), (3,))
    steps = read_steps(program)
    code, rng = Bits(steps, 2), np.random.default_rng(0)
    sizes = [(fold.rows_per_unit + (not isinstance(fold, Largest)), fold.n_units) for fold in steps.folds]
    patterns = np.concatenate([rng.integers(0, most, (6, n)) for most, n in sizes], 1).astype(np.int16)
    patterns[5] = patterns[4]
    bits = code.encode(patterns)
    assert (code.decode(bits) == patterns).all()
    assert distinct(bits) == 5


class Odd(nn.Module):
    """Operations that a reader of matrices may get wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 2, padding=1)
        self.norm = nn.BatchNorm1d(2)
        self.prelu = nn.PReLU(2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.prelu(self.norm(self.conv(x[:, None])))
        y = torch.minimum(y, y.flip(2) * 0.3 - 0.1)
        y = nn.functional.softshrink(nn.functional.avg_pool1d(y, 2), 0.1)
        z = torch.maximum(y.flatten(1), torch.linspace(-0.2, 0.3, 4))
        z = torch.cat([z, nn.functional.hardsigmoid(7 * z), z.abs().amin(dim=1, keepdim=True)], 1)
        return z[:, :6] + 0.5 * z.mean(1, keepdim=True) - nn.functional.relu6(9 * z[:, 3:])


def test_all_kinds_of_operations_are_read() -> None:
    torch.manual_seed(0)
    program = trace(Odd().eval().double(), (3,))
    line = rs.Segment([-1.0, 2.0, 0.5], [1.5, -1.0, 0.25])
    exact = IntegerNetwork(read_steps(program), line)
    for t in (0.125, 0.5, 0.8125):
        pattern = exact.pattern(homogeneous(np.array([t])))
        rows, over = exact.cell(pattern).outputs, exact.denominators[program.output_name]
        values = [(int(a) * 16 * int(16 * t) + int(b) * 256) / (over * 256) for a, b in rows]
        expected = program(line.embed([[t]]))[0]
        assert torch.allclose(torch.tensor(values, dtype=torch.float64), expected, atol=1e-14)
    part = rs.linear_regions(program, line)
    assert len(part) > 5
    assert part.certify()
    points = [homogeneous(point) for point in part.interior.numpy()]
    for directions in (None, [(1,)] * len(points)):  # several together, and one after another
        patterns = exact.patterns(points, directions)
        for i, cell in enumerate(exact.cells(patterns)):
            direction = None if directions is None else directions[i]
            alone = exact.cell(patterns[i])
            assert (exact.pattern(points[i], direction) == patterns[i]).all()
            assert (cell.constraints == alone.constraints).all()
            assert (cell.outputs == alone.outputs).all()
            assert cell.degenerate == alone.degenerate


def test_space_is_certified_in_floats_alone() -> None:
    found = rs.decision_regions(mlp(3, 6, 5, 3), rs.Box.between(-1.0, 1.0, (3,)))
    certificate = found.certify()
    assert certificate
    assert certificate.counts["decision"] == found.count
    assert f" linear, {found.count} decision (" in str(certificate)
    assert certificate.recomputed == 0
    assert 0 < certificate.nearest_tie < 1
    assert certificate.vertex_error < 1e-7
    part = found.partition
    flat = replace(part.walls, vertices=part.walls.vertices[2:], offsets=(part.walls.offsets - 2).clamp(min=0))
    wrong = replace(part, walls=flat).certify()
    assert "a wall has too few vertices" in str(wrong)
    assert json.loads(json.dumps(wrong.summary(), allow_nan=False))["refuted"][0]["true"] == 1


def test_each_kind_of_damage_is_refuted() -> None:
    """tools/damage.py does this 1,000 times; docs/damage.json is its report."""
    found = [one for seed in range(40) if (one := damage.outcome(seed)) is not None]
    assert {one.kind for one in found} == {*damage.KINDS}
    assert len(found) > 20
    assert all(one.refuted and one.rejected is not False for one in found)
    report = json.loads((Path(damage.__file__).parents[1] / "docs" / "damage.json").read_text())
    assert report["damages"] == 1000
    assert report["missed"] == []


def test_a_wrong_merge_and_a_wrong_layer_are_refuted() -> None:
    part = rs.linear_regions(mlp(2, 5, 4, 1), SQUARE)
    same, undecided = part._compared
    flipped = same.clone()
    flipped[0] = ~flipped[0]
    wrong = replace(part, compared=(flipped, undecided)).certify()
    assert [one.reason for one in wrong.refuted] == ["linear regions"]
    walls = replace(part.walls, layer=torch.where(part.walls.layer == 0, 1, part.walls.layer))
    assert "another fold" in str(replace(part, walls=walls).certify())


def test_the_checker_reads_files_and_rejects_changed_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate = rs.decision_regions(mlp(2, 5, 4, 2), SQUARE).certify()
    good, bad = certificate.save(tmp_path / "good.json"), tmp_path / "bad.json"
    document = json.loads(good.read_text())
    changed = copy.deepcopy(document)
    changed["counts"]["linear"] += 1
    bad.write_text(json.dumps(changed))
    assert check_certificate.main([str(good)]) == 0
    assert check_certificate.main([str(good), str(bad)]) == 1
    assert "not proved: the counts are" in capsys.readouterr().out
    changed = copy.deepcopy(document)
    changed["network"]["steps"][0]["shift"]["numbers"][0] *= -1
    assert damage.is_rejected(changed)
    document["slice"]["border"]["numbers"].append([float("nan")] * 3)
    bad.write_text(json.dumps(document))
    assert check_certificate.main([str(bad)]) == 1


def test_the_checker_rejects_documents_that_are_not_well_formed() -> None:
    certificate = rs.decision_regions(mlp(1, 4, 2), rs.Segment([-1.0], [1.0])).certify()
    assert certificate.document is not None

    def rejected(match: str, *path: Any, to: Callable[[Any], Any]) -> None:
        part = changed = json.loads(json.dumps(certificate.document()))
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = to(part[path[-1]])
        with pytest.raises(check_certificate.Fault, match=match):
            check_certificate.check(changed)

    fold = next(i for i, step in enumerate(certificate.document()["network"]["steps"]) if step["kind"] == "pieces")
    rejected("Expected the format", "format", to=lambda _: "another")
    rejected("a denominator is not positive", "slice", "inputs", "over", to=lambda number: -number)
    rejected("not continuous", "network", "steps", fold, "shifts", "numbers", 1, 0, to=lambda number: number + 1)
    rejected("does not fit its border", "slice", "border", "numbers", 0, 1, to=lambda number: number + 1)
    rejected("an edge of the slice", "slice", "corners", "numbers", to=lambda corners: corners[:1])
    rejected("a piece that does not exist", "regions", 0, to=lambda letters: chr(47) + letters[1:])
    rejected("one name each", "network", "layers", to=lambda _: [])
    rejected("writes nothing", "network", "steps", fold, "writes", to=lambda _: "")
    rejected("the decision is not the last", "network", "decision", to=lambda _: False)
    rejected("does not decide between the outputs", "network", "steps", -1, "groups", to=lambda _: [[1, 0]])
    rejected("one fewer than pieces", "network", "steps", fold, "slopes", "numbers", to=lambda rows: [*rows, rows[1]])


@pytest.mark.parametrize(
    ("names", "fold", "match"),
    [
        (("0", "1"), {"kind": "largest", "groups": [[0, 0]]}, "the first of equal candidates"),
        (("10", "11"), {"kind": "pieces", "slopes": [[0, 0], [1, 0]], "shifts": [[-5, 0], [0, 0]]}, "longer than"),
        (("1", "2"), {"kind": "pieces", "slopes": [[0], [1], [1]], "shifts": [[-5], [0], [0]]}, "fewer than pieces"),
    ],
)
def test_the_checker_rejects_two_names_of_one_region(names: tuple[str, str], fold: dict[str, Any], match: str) -> None:
    """A unit with pieces that no constraint tells apart: each region is there twice, with all its walls."""
    certificate = rs.linear_regions(mlp(1, 4, 1), rs.Segment([-1.0], [1.0])).certify()
    assert certificate.document is not None
    document = json.loads(json.dumps(certificate.document()))
    n, network = len(document["regions"]), document["network"]
    document["regions"] = [name + letters for name in names for letters in document["regions"]]
    document["walls"] += [[a + n, b + n] for a, b in document["walls"]]
    tables = {key: {"numbers": fold[key], "over": 1} for key in ("slopes", "shifts") if key in fold}
    about = {"writes": "more", "source": network["input"], "at": {"numbers": [-5], "over": 1}, "divisor": 1}
    network["steps"].insert(0, fold | tables | about)
    network["layers"].insert(0, "more")
    with pytest.raises((check_certificate.Fault, ValueError), match=match):
        check_certificate.check(document)


def test_what_cannot_be_certified_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    part = rs.linear_regions(mlp(2, 5, 4, 1), SQUARE)
    loaded = rs.Partition.load(part.save(tmp_path / "part.npz"))
    with pytest.raises(rs.InputError, match="Expected a partition that carries its network, got one from a file"):
        loaded.certify()
    stopped = rs.linear_regions(mlp(2, 9, 9, 1), SQUARE, max_regions=20, on_limit="return")
    with pytest.raises(LimitReached, match="Expected a finished partition to certify, got"):
        stopped.certify()
    tiny = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).double()
    with torch.no_grad():
        tiny[0].weight.fill_(1e-200)
    with pytest.raises(rs.InputError, match="Expected constants that are zero or between"):
        rs.linear_regions(tiny, SQUARE).certify()
    with monkeypatch.context() as patch:  # integers do not take it, but floats decide everything
        patch.setattr("regionscope.certificate.matrices._MOST_ENTRIES", 9)
        assert part.certify()
        doubtful = rs.linear_regions(network(13).module(), slice_of(network(13).place)).certify()
        assert str(doubtful).startswith(
            f"not certified: {doubtful.unproved} signs left. Expected layers with at most 9 "
        )


def test_integers_need_no_flint(monkeypatch: pytest.MonkeyPatch) -> None:
    part = rs.linear_regions(network(13).module(), slice_of(network(13).place))
    with_flint = part.certify()
    monkeypatch.setitem(sys.modules, "flint", None)
    without = part.certify()
    assert without.recomputed > 0
    assert (without.certified, without.counts) == (with_flint.certified, with_flint.counts)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 2.0**60])
def test_long_rows_are_multiplied_exactly(scale: float) -> None:
    random = np.random.default_rng(0)
    numbers = random.uniform(-1, 1, (3, 300)) * 2.0 ** random.integers(-20, 3, (3, 300)) * scale
    numbers[:, ::7] = 0.0
    columns = np.array([[int(x) << 60, -int(x) - 1] for x in random.integers(-(2**40), 2**40, 300)], dtype=object)
    product = WideProduct.of(LayerMatrix(functional.linear, numbers, (300,)))
    assert product is not None
    product.scaled(3)
    for _ in range(2):
        exact = [
            [3 * sum(Fraction(a) * b for a, b in zip(row, column, strict=True)) for column in columns.T]
            for row in numbers
        ]
        assert [[Fraction(x, product.denominator) for x in row] for row in product(columns)] == exact
    assert WideProduct.of(LayerMatrix(functional.linear, numbers[:, :200], (200,))) is None
