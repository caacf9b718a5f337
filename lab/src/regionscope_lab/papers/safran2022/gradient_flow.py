"""Gradient flows of univariate networks, beside Theorems 2.3, 3.1, 3.2 and 4.2, Corollary 5.1 and Example 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from regionscope.measures.fit import linear_fit
from regionscope_lab import shallow
from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.rules import by_seed, combined, every_case, in_range, order_vote, share
from regionscope_lab.papers.safran2022.end_to_end import asked
from regionscope_lab.papers.safran2022.flows import DELTA, error_bound
from regionscope_lab.papers.seed_table import SeedRun, SeedTable

Runs = Mapping[str, Sequence[SeedRun]]
Answer = Mapping[str, Any]
KKT = 0.1  # residual, as a share of the norm of the weights, up to which a direction is near a KKT point
_LATE = "safran2022.flows.late_flows"


def _joined(answers: Sequence[Answer], *names: str) -> dict[tuple[Any, ...], dict[str, list[float]]]:
    """Lists of all flows by setting."""
    groups: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for one in answers:
        lists = groups.setdefault(tuple(one[name] for name in names), {})
        for name, value in one.items():
            if isinstance(value, list):
                lists.setdefault(name, []).extend(math.inf if v is None else float(v) for v in value)
    return dict(sorted(groups.items()))


def theorem31(table: SeedTable, runs: Runs) -> Finding:
    flows = _joined(table.answers("safran2022.end_to_end.flows_as_asked"), "theorem", "r", "n", "width")
    parts: dict[Any, Any] = {}
    first_stage: dict[Any, Any] = {}
    rows: list[tuple[Any, ...]] = []
    for (theorem, r, n, width), flow in flows.items():
        need = asked(theorem, r, n, width)
        reached = sum(value >= math.log(2 * n if theorem == "3.1" else n) for value in flow["log_loss"])
        rows.append(
            (
                theorem,
                r,
                n,
                width,
                math.ceil(need.k),
                f"{need.sigma_h:.1e}",
                len(flow["log_loss"]),
                reached,
                fmean(flow["error"]),
                fmean(flow["regions"]),
            )
        )
        if width >= need.k:
            graded = in_range(share(reached, len(flow["log_loss"])), 1 - DELTA, 1.0)
            (parts if theorem == "3.1" else first_stage)[r, width] = graded
    total = sum(row[7] for row in rows)
    words = f"{total} of {sum(row[6] for row in rows)} flows of both theorems"
    columns = (
        "theorem",
        "r",
        "n",
        "width",
        "required width",
        "required sigma_h",
        "flows",
        "reached",
        "mean test error",
        "mean regions so far",
    )
    return Finding(
        {"loss": combined(list(parts.values()), words), "first-stage": combined(list(first_stage.values()), words)},
        (Table("Flows at the scale of the theorems", columns, tuple(rows)),),
    )


def theorem23(table: SeedTable, runs: Runs) -> Finding:
    flows = _joined(table.answers(_LATE, seeds=1), "r", "n", "width")
    over = sum(count > shallow.region_bound(key[0]) for key, flow in flows.items() for count in flow["line"])
    errors = {key: (flow["error"], error_bound(key[0], key[1], delta=DELTA / 2)) for key, flow in flows.items()}
    rows = tuple(
        (*key, max(flow["line"]), shallow.region_bound(key[0]), max(flow["error"]), errors[key][1])
        for key, flow in flows.items()
    )
    ended = sum(bool(value) for flow in flows.values() for value in flow["converged"])
    counts = ", ".join(str(int(max(flow["line"]))) for flow in flows.values())
    columns = ("r", "n", "width", "effective regions", "32r + 67", "test error", "bound with C0 = 1")
    return Finding(
        {
            "regions-late": every_case(
                over,
                len(rows),
                f"{counts} regions for r = 1 to 4; {ended} of {len(rows)} converged",
            ),
            "error-late": every_case(
                sum(error > bound for each, bound in errors.values() for error in each),
                len(rows),
                f"{max(row[5] for row in rows):.3f} at most",
            ),
        },
        (Table("Flows with sigma_h = 1, followed to the end", columns, rows),),
    )


def theorem32(table: SeedTable, runs: Runs) -> Finding:
    found: dict[tuple[float, int], list[Answer]] = {}
    for one in table.answers("safran2022.width.flows_of_width"):
        found.setdefault((one["alpha"], one["width"]), []).append(one)
    rows = []
    for (alpha, width), answers in sorted(found.items()):
        flows = sum(one["runs"] for one in answers)
        right = sum(round(one["success"] * one["runs"]) for one in answers)
        rows.append((alpha, width, flows, right, sum(one["unfinished"] for one in answers)))
    narrow, wide = (in_range(share(row[3], row[2]), 0.0, 1.0) for row in (rows[0], rows[-1]))
    verdict = in_range(
        (wide.value - narrow.value, wide.interval[0] - narrow.interval[1], wide.interval[1] - narrow.interval[0]),
        0.0,
        1.0,
    )
    return Finding(
        {"helps": verdict},
        (
            Table(
                "Flows that classify every point, by width",
                ("alpha", "width", "flows", "classified", "cut off"),
                tuple(rows),
            ),
        ),
    )


def example1(table: SeedTable, runs: Runs) -> Finding:
    flows = sorted(table.answers("safran2022.example1.flow_from"), key=lambda one: str(one["loss"]))
    moved = sum(one["turned"] > 1e-9 or one["second_unit"] > 0 or not one["classified"] for one in flows)
    stays = sum(abs(one["norm_squared"][-1] / 2 - 1) > 1e-3 for one in flows)
    better = sum(abs(one["better"] - 1) > 1e-3 for one in flows)
    rows = tuple(
        (one["loss"], one["log_loss"][-1], one["turned"], one["norm_squared"][-1], one["kkt"], one["better"])
        for one in flows
    )
    return Finding(
        {
            "stays": every_case(moved, len(flows), f"turns by {max(one['turned'] for one in flows):.1e} at most"),
            "norm": every_case(stays, len(flows), f"{flows[0]['norm_squared'][-1]:.6f}"),
            "better": every_case(better, len(flows), f"{flows[0]['better']:.6f}"),
        },
        (
            Table(
                "The flow at its end",
                ("loss", "-log L", "turned", "norm² at margin 1", "KKT residual", "better network"),
                rows,
            ),
        ),
    )


def theorem42(table: SeedTable, runs: Runs) -> Finding:
    flows = _joined(table.answers(_LATE, seeds=5, n=100), "r", "width")
    flows = {key: flow for key, flow in flows.items() if key[1] == math.ceil(4 * shallow.region_bound(key[0]))}
    cases = sum(len(flow["line"]) for flow in flows.values())
    over = sum(count > shallow.region_bound(r) for (r, _), flow in flows.items() for count in flow["line"])
    stopped = sum(not value for flow in flows.values() for value in flow["converged"])
    residuals = [value for flow in flows.values() for value in flow["kkt"]]
    rows = tuple(
        (
            r,
            width,
            fmean(flow["line"]),
            max(flow["line"]),
            shallow.region_bound(r),
            min(flow["minimum"]),
            fmean(flow["exact"]),
            fmean(flow["kkt"]),
        )
        for (r, width), flow in flows.items()
    )
    return Finding(
        {
            "regions": every_case(over, cases, f"{max(row[3] for row in rows):.0f} at most for r up to {rows[-1][0]}"),
            "direction": every_case(stopped, cases),
            "kkt": every_case(sum(value > KKT for value in residuals), cases, f"residual {max(residuals):.3f} at most"),
        },
        (
            Table(
                "Late flows, five for each teacher",
                (
                    "r",
                    "width",
                    "effective regions",
                    "most",
                    "32r + 67",
                    "fewest possible",
                    "exact regions so far",
                    "KKT residual",
                ),
                rows,
            ),
        ),
    )


def corollary51(table: SeedTable, runs: Runs) -> Finding:
    flows = {
        key: flow
        for key, flow in _joined(table.answers(_LATE, seeds=5), "r", "n", "width").items()
        if key[2] == math.ceil(4 * shallow.region_bound(key[0]))
    }
    sizes = sorted({n for r, n, _ in flows if r == 2})
    parts, slopes, rows, above, cases = {}, {}, [], 0, 0
    for r in (2, 4):
        mine = {n: flow["error"] for (q, n, _), flow in flows.items() if q == r and n in sizes}
        parts[r] = by_seed([-order_vote(one) for one in zip(*mine.values(), strict=True)])
        means = {n: fmean(errors) for n, errors in mine.items()}
        fit = linear_fit([math.log(n) for n in means], [math.log(error) for error in means.values()])
        slopes[r] = in_range(
            (fit.slope, fit.slope - 2 * fit.slope_stderr, fit.slope + 2 * fit.slope_stderr), -1.5, -0.5
        )
        above += sum(error > error_bound(r, n) for n, errors in mine.items() for error in errors)
        cases += sum(map(len, mine.values()))
        rows += [(r, n, means[n], max(mine[n]), error_bound(r, n)) for n in means]
    return Finding(
        {
            "falls": combined(list(parts.values())),
            "slope": combined(list(slopes.values()), ", ".join(f"{one.ours} (r = {r})" for r, one in slopes.items())),
            "bound": every_case(above, cases),
        },
        (Table("Test error of late flows", ("r", "n", "mean", "largest", "bound with C0 = 1"), tuple(rows)),),
        (
            Figure(
                title="Test error of late flows",
                x_label="points",
                y_label="test error",
                series=[
                    Series(f"r = {r}", [row[1] for row in rows if row[0] == r], [row[2] for row in rows if row[0] == r])
                    for r in (2, 4)
                ],
            ),
        ),
    )
