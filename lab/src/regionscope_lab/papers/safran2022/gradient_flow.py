"""Late gradient flows of univariate networks, beside Theorems 2.3 and 4.2 and Corollary 5.1."""

from __future__ import annotations

import math
from statistics import fmean

from regionscope_lab import shallow
from regionscope_lab.fit import linear_fit
from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.rules import by_seed, combined, every_case, in_range, order_vote
from regionscope_lab.papers.safran2022.flows import DELTA, error_bound, joined
from regionscope_lab.papers.seed_table import Runs, SeedTable

KKT = 0.1  # residual, as a share of the norm of the weights, up to which a direction is near a KKT point
_LATE = "safran2022.flows.late_flows"


def theorem23(table: SeedTable, runs: Runs) -> Finding:
    flows = joined(table.answers(_LATE, seeds=1), "r", "n", "width")
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
                f"test error {max(row[5] for row in rows):.3f} at most",
            ),
        },
        (Table("Flows with sigma_h = 1, followed to the end", columns, rows),),
    )


def theorem42(table: SeedTable, runs: Runs) -> Finding:
    flows = joined(table.answers(_LATE, seeds=5, n=100), "r", "width")
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
            "regions": every_case(
                over, cases, f"{max(row[3] for row in rows):.0f} effective regions at most for r up to {rows[-1][0]}"
            ),
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
        for key, flow in joined(table.answers(_LATE, seeds=5), "r", "n", "width").items()
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
