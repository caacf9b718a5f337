"""Exported programs and graph modules are read as the modules they come from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from small_slices import mlp


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = x.view(x.size(0), -1)
        return self.b(torch.cat([torch.relu(self.a(h))[:, :2], h[:, 2:].abs()], 1) + h)


def cnn() -> nn.Module:
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(), nn.Linear(8, 4), nn.LeakyReLU(), nn.Linear(4, 3))


CASES: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: mlp(2, 6, 6, 3, seed=0), (2,)),
    (cnn, (1, 6, 6)),
    (Residual, (2, 2)),
]


def exported(module: nn.Module, shape: tuple[int, ...]) -> torch.export.ExportedProgram:
    return torch.export.export(module, (torch.zeros(2, *shape),), dynamic_shapes=({0: torch.export.Dim.AUTO},))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "shape"), CASES, ids=["mlp", "cnn", "residual"])
@pytest.mark.parametrize("form", ["exported", "module", "decomposed", "fx"])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_program_is_read_as_its_module(make: Callable[[], nn.Module], shape: tuple[int, ...], form: str) -> None:
    module = make().eval()
    program = torch.fx.symbolic_trace(module) if form == "fx" else exported(module, shape)
    read = program.module() if form == "module" else program
    if isinstance(read, torch.export.ExportedProgram) and form == "decomposed":
        read = read.run_decompositions()
    x = torch.randn(5, *shape, dtype=torch.float64)
    wanted = rs.trace(module, shape)
    found = rs.trace(read, shape)
    torch.testing.assert_close(found(x), wanted(x))
    assert found.n_units == wanted.n_units


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_fixed_batch_dimension_is_one_sentence() -> None:
    program = torch.export.export(mlp(2, 4, 2, seed=0), (torch.zeros(3, 2),))
    with pytest.raises(rs.InputError, match=r"got one of a fixed number.*dynamic_shapes"):
        rs.region_count(program.module(), torch.randn(20, 2), slices=2)
    for instrument in (rs.local_complexity, rs.region_count):
        with pytest.raises(rs.InputError, match=r"ExportedProgram.*\.module\(\)"):
            instrument(program, torch.randn(20, 2))
    with pytest.raises(rs.InputError, match=r"fixed shape \(3, 2\).*dynamic_shapes"):
        rs.linear_regions(program, rs.Segment([0.0, 0.0], [1.0, 1.0]))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_write_into_a_view_is_refused() -> None:
    class Writes(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            nn.functional.silu(y[:, :2], inplace=True)
            return y

    with pytest.raises(rs.NotPiecewiseAffine, match="silu_"):
        rs.linear_regions(exported(Writes(2, 3), (2,)), rs.Box([0.0, 0.0], torch.eye(2), 1.0))
