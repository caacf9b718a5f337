"""Points, correlations and figures of Li et al. from hand-made runs: verdicts come out each way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regionscope.errors import InputError
from regionscope.measures.correlate import correlate
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.papers.charts import Scatter
from regionscope_lab.papers.li2025 import (
    augmentation,
    cifar10,
    claims,
    consistency,
    counting,
    evolution,
    hyperparameter_effects,
    momentum,
    networks,
    paper,
    predictors,
    schedule,
    settings,
    tables,
    theory,
)
from regionscope_lab.papers.study import Outcome
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder

MEASURES = ("regions", "regions_test", "regions_random", "regions_2d", "regions_3d", "regions_4d", "regions_5d")


def made(
    folder: Path,
    numbers: dict[str, float],
    *,
    train: float = 0.0,
    test: float = 0.1,
    seed: int = 0,
    status: str = "finished",
    rows: Iterable[dict[str, Any]] = (),
    network: str = "mlp",
    **training: Any,
) -> RunFolder:
    """A stored run with these results."""
    options = {"epochs": 10, **training}
    experiment = Experiment(
        data=DataSpec(name="digits"), network=NetworkSpec(name=network), training=Training(**options), seed=seed
    )
    run = RunFolder.create(folder, experiment)
    with run.claim():
        run.append({"stderr": None, "seconds": 0.0, **row} for row in rows)
        measures = {name: {"value": value, "stderr": None} for name, value in numbers.items()}
        result = {"status": status, "train_error": train, "test_error": test, "gap": test - train, "measures": measures}
        run.finish(result)
    return run


def planted(
    folder: Path, *, sign: float = 1.0, others: float = 0.0, network: str = "mlp", **training: Any
) -> list[RunFolder]:
    """Nine settings whose counts fall with the rate, rise with the batch, and go with the gap by ``sign``."""
    runs = []
    for i, lr in enumerate((0.1, 0.01, 0.001)):
        for j, batch in enumerate((16, 32, 64)):
            level = 3 * i + j
            counts = dict.fromkeys(MEASURES, 2 + 0.1 * level) | {"regions_refined": 2.05 + 0.1 * level}
            counts |= {f"regions_from_{a}_to_{b}": 3.0 - a + 0.1 * level for a, b in paper.RANGES if a < 0}
            noise = (0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6)[level]
            weak = {"distance": noise + others * level, "norm.l2": noise, "margin": noise}
            test = 0.2 + sign * 0.01 * level + 0.001 * noise
            setting = {"lr": lr, "batch_size": batch, **training}
            runs.append(made(folder, counts | weak, test=test, network=network, **setting))
    return runs


def grades(outcome: Outcome) -> dict[str, Grade]:
    return {claim.what: claim.verdict.grade for claim in outcome.claims}


def test_a_point_is_the_mean_over_seeds(tmp_path: Path) -> None:
    runs = [made(tmp_path, {"regions": 2.0 + seed}, test=0.1 + 0.1 * seed, seed=seed) for seed in (0, 1)]
    runs.append(made(tmp_path, {"regions": 9.0}, seed=2, status="diverged"))
    (point,) = tables.points(runs)
    assert point.seeds == 2
    assert point.values["regions"] == 2.5
    assert point.values["gap"] == pytest.approx(15)
    assert point.values["test_accuracy"] == pytest.approx(85)
    assert point.deviations["regions"] == pytest.approx(math.sqrt(0.5))
    assert "1 run left out" in tables.left_out(runs)[0]
    assert tables.left_out(runs[:2]) == ()
    (sentence,) = tables.left_out([made(tmp_path, {}, train=0.8, test=0.9, lr=5.0)])
    assert "above 50%" in sentence


def test_a_network_without_all_settings_is_left_out_of_a_page(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    runs = [one for name in ("mlp", "cnn") for one in planted(place.runs_folder, network=name)]
    wanted = [one.experiment for one in runs]
    lacking = replace(wanted[-1], training=replace(wanted[-1].training, lr=0.5))
    outcomes = (cifar10.of_networks(*networks.fitted_networks(place, asked)) for asked in (wanted, [*wanted, lacking]))
    both, alone = outcomes
    assert {claim.what.split(":")[0] for claim in both.claims if "test accuracy" in claim.what} == {"mlp", "cnn"}
    assert {claim.what.split(":")[0] for claim in alone.claims if "test accuracy" in claim.what} == {"mlp"}
    assert "18 of 19 planned runs" in alone.notes[1]
    with pytest.raises(InputError, match="a run of each setting of one of cnn"):
        networks.fitted_networks(place, [wanted[-1], lacking])


def test_optimisers_are_compared_with_and_without_the_settings_that_do_not_fit(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    runs = planted(place.runs_folder) + planted(place.runs_folder, optimizer="adam", sign=-1.0)
    runs += planted(place.runs_folder, network="cnn")
    runs.append(
        made(place.runs_folder, {"regions": 9.0}, train=0.2, test=0.21, lr=0.5, batch_size=16, optimizer="adam")
    )
    wanted = [run.experiment for run in runs]
    lacking = replace(wanted[0], training=replace(wanted[0].training, optimizer="adagrad"))
    outcome = consistency.of_table7(*networks.whole_grids(place, [*wanted, lacking]))
    assert {claim.what: claim.spread.split("], ")[1] for claim in outcome.claims} == {
        "mlp, sgd": "9 settings",
        "mlp, adam": "10 settings",
        "mlp, adam, settings that fit": "9 settings",
    }  # neither the whole grid of another network with SGD alone, nor one that lacks settings
    assert grades(outcome)["mlp, sgd"] is Grade.REPRODUCED
    assert grades(outcome)["mlp, adam, settings that fit"] is Grade.NOT_REPRODUCED
    assert [(table.title, len(table.rows)) for table in outcome.tables] == [("SGD", 9), ("Adam", 10)]
    assert any(note.startswith("mlp, adam, 10 epochs: 1 of 10 settings") for note in outcome.notes)
    every, fitted = (chart.series[0].y for chart in outcome.charts)
    assert every[0] == fitted[0] == pytest.approx(1.0, abs=1e-3)
    assert every[1] > fitted[1] == pytest.approx(-1.0, abs=1e-3)


def test_weight_decays_are_copies_and_not_evidence(tmp_path: Path) -> None:
    runs = [
        made(
            tmp_path, {"regions": 2.0 + 0.1 * i + 1e-4 * j}, test=gap + 1e-4 * j, lr=0.01 * (i + 1), weight_decay=decay
        )
        for i, gap in enumerate((0.1, 0.3, 0.2, 0.4))
        for j, decay in enumerate((1e-5, 1e-6, 1e-7))
    ]
    chosen = tables.points(runs)
    found = tables.correlation(chosen, "regions")
    assert found is not None
    single = correlate([one.values["regions"] for one in chosen], [one.values["gap"] for one in chosen])
    assert found.pearson.value == single.pearson.value
    assert found.pearson.interval[0] < single.pearson.interval[0] - 0.1
    assert {effect.n for effect in tables.effects(chosen, "regions", "lr")} == {1}


def test_no_correlation_where_none_is_defined(tmp_path: Path) -> None:
    same = [made(tmp_path, {"regions": 2.0}, test=0.1 * i, lr=0.1 / (i + 1)) for i in range(4)]
    assert tables.correlation(tables.points(same), "regions") is None
    assert tables.correlation(tables.points(same), "margin") is None
    outcome = predictors.of_figure4(tables.points(same))
    assert outcome.claims[0].ours == "not defined"
    assert outcome.grade is Grade.INCONCLUSIVE
    assert outcome.charts == ()


def test_figure_4_each_way(tmp_path: Path) -> None:
    good = tables.points(planted(tmp_path / "good"))
    bad = tables.points(planted(tmp_path / "bad", sign=-1))
    outcome = predictors.of_figure4(good)
    assert outcome.grade is Grade.REPRODUCED
    (chart,) = outcome.charts
    assert isinstance(chart, Scatter)
    assert len(chart.series[0].x) == 9
    assert predictors.of_figure4(bad).grade is Grade.NOT_REPRODUCED
    pooled = predictors.of_figure4([*good, *(_renamed(point, "cnn") for point in bad)]).claims[-1]
    assert (pooled.what, pooled.paper) == ("mlp, cnn together (the paper's 0.93 is for other networks)", "")
    assert pooled.verdict.grade is Grade.SHOWN
    same = [_renamed(point, name) for name in paper.NETWORKS for point in good]
    other = [_renamed(point, "vgg19") for point in bad]  # counts for itself only
    pooled = predictors.of_figure4([*same, *other]).claims[-1]
    assert (pooled.what, pooled.paper) == ("resnet18, efficientnetb0, senet18 together", "0.93")
    assert pooled.verdict.grade is Grade.REPRODUCED


def _renamed(point: tables.Point, network: str) -> tables.Point:
    return replace(point, experiment=replace(point.experiment, network=NetworkSpec(name=network)))


def test_figures_2_and_8_each_way(tmp_path: Path) -> None:
    weak = tables.points(planted(tmp_path / "weak"))
    strong = tables.points(planted(tmp_path / "strong", others=5.0))
    assert predictors.of_figure2(weak).grade is Grade.INCONCLUSIVE  # so few runs cannot show that nothing is there
    found = grades(predictors.of_figure2(strong))
    assert found["distance from the initial weights against gap"] is Grade.NOT_REPRODUCED
    assert predictors.of_figure8(weak).grade is Grade.REPRODUCED
    opposite = tables.points(planted(tmp_path / "opposite", sign=-1))
    assert predictors.of_figure8(opposite).grade is Grade.NOT_REPRODUCED


def test_figure_5_each_way(tmp_path: Path) -> None:
    chosen = tables.points(planted(tmp_path))
    found = tables.effects(chosen, "regions", "batch_size")
    assert [effect.level for effect in found] == [16, 32, 64]
    assert [effect.mean for effect in found] == pytest.approx([2.3, 2.4, 2.5])
    assert all(effect.error < 1e-9 for effect in found)  # the rates' own effect is taken away
    assert hyperparameter_effects.of_figure5(chosen).grade is Grade.REPRODUCED
    turned = [replace(point, values={**point.values, "regions": -point.values["regions"]}) for point in chosen]
    assert hyperparameter_effects.of_figure5(turned).grade is Grade.NOT_REPRODUCED


def test_settings_that_do_not_fit_are_left_out_of_every_row(tmp_path: Path) -> None:
    runs = planted(tmp_path)
    slow = runs[-1].experiment.training
    off = made(tmp_path / "off", {"regions": 9.0}, train=0.2, lr=slow.lr, batch_size=slow.batch_size)
    fitted, said = tables.fitting([*runs[:-1], off])
    assert fitted == runs[:-1]
    assert "1 of 9 settings have a training error of 1% or more, such as" in said[0]
    every, (sentence,) = tables.fitting(runs)
    assert every == runs
    assert sentence.startswith("All 9 settings have a training error below 1%, at most ")
    few, kept = tables.fitting([*runs[:2], off])
    assert len(few) == 3
    assert "they are kept" in kept[0]


def test_tables_4_and_5_each_way(tmp_path: Path) -> None:
    fine = {"grid_50": 2.9, "grid_200": 3.0, "grid_500": 3.0, "grid_10x10": 4.0, "grid_30x30": 4.4, "grid_50x50": 4.5}
    fine |= {"samples_10": 2.0, "samples_100": 2.9, "samples_500": 3.0}

    def judged(**changes: float) -> tuple[list[Grade], Grade]:
        """The grades of tables 4 and 5 over one seed, or over two of which the second differs."""
        second = [] if not changes else [made(tmp_path / repr(changes), fine | changes, seed=1)]
        chosen = [*tables.points([first]), *tables.points(second)]
        table4 = grades(counting.of_table4(chosen, (50, 200, 500), (10, 30, 50)))
        return list(table4.values()), counting.of_table5(chosen, (10, 100, 500)).grade

    first = made(tmp_path, fine)
    yes, near, unclear, no = Grade.REPRODUCED, Grade.SAME_TREND, Grade.INCONCLUSIVE, Grade.NOT_REPRODUCED
    assert judged() == ([yes, unclear], yes)  # planes of one seed have no spread
    assert judged(grid_30x30=4.6)[0][1] is near  # the mean is the paper's, and the seeds differ by 4%
    assert judged(samples_100=1.5)[1] is no  # the mean of 2.9 and 1.5
    assert judged(samples_100=3.1)[1] is yes  # the mean of 2.9 and 3.1 is judged
    assert judged(grid_200=1.5)[0][0] is no


def trained(folder: Path, *, rising: bool) -> list[RunFolder]:
    """Runs of two lengths with counts and gaps along the way; ``rising``: they go together at the end, not before."""
    runs = []
    for i in range(8):
        length = 100 if i % 2 else 50
        rows: list[dict[str, Any]] = [{"step": 0, "name": "regions_path", "value": 1.0 + 0.01 * i}]
        for share in (0.1, 0.5, 1.0):
            step = int(share * length)
            together = i if (share == 1.0) == rising else 8 - i
            rows += [
                {"step": step, "name": "regions_path", "value": 2.0 + share + 0.1 * i},
                {"step": step, "epoch": int(10 * share), "name": "train_error", "value": 0.05},
                {
                    "step": step,
                    "epoch": int(10 * share),
                    "name": "test_error",
                    "value": 0.1 * share + 0.1 + 0.01 * together,
                },
            ]
        runs.append(made(folder, {}, lr=0.1 / (i + 1), batch_size=length, rows=rows))
    return runs


def test_table_3_each_way(tmp_path: Path) -> None:
    runs = trained(tmp_path / "rising", rising=True)
    moments = tables.evolution(runs)
    assert [moment.share for moment in moments] == [0.0, 0.1, 0.5, 1.0]
    assert moments[0].gap is None
    assert moments[0].found is None
    assert moments[-1].gap == pytest.approx(100 * (0.2 + 0.035 - 0.05))
    assert moments[1].found is not None
    assert moments[1].found.pearson.value < -0.99
    found = grades(evolution.of_table3(runs))
    assert found["correlation at the end"] is Grade.REPRODUCED
    assert found["region count, start and end"] is Grade.REPRODUCED
    falling = grades(evolution.of_table3(trained(tmp_path / "falling", rising=False)))
    assert falling["correlation at the end"] is Grade.NOT_REPRODUCED
    assert falling["course of the correlation"] is Grade.NOT_REPRODUCED


def augmented(folder: Path, *, gain: float) -> list[RunFolder]:
    runs = []
    for kind, shift in (({}, 0.0), ({"mixup": 1.0}, 1.0), ({"augment": "crop_flip"}, 2.0)):
        for i in range(6):
            counts = {"regions": 3.0 + 0.1 * i - 0.5 * gain * shift}
            runs.append(made(folder, counts, test=0.3 + 0.01 * i - 0.05 * gain * shift, lr=0.1 / (i + 1), **kind))
    return runs


def test_augmentation_each_way(tmp_path: Path) -> None:
    good = tables.points(augmented(tmp_path / "good", gain=1.0))
    difference, error, n = tables.difference(good[6:12], good[:6], "test_accuracy")
    assert difference == pytest.approx(5.0)
    assert error < 1e-9
    assert n == 6
    assert augmentation.of_augmentation(good).grade is Grade.REPRODUCED
    bad = grades(augmentation.of_augmentation(tables.points(augmented(tmp_path / "bad", gain=-1.0))))
    assert bad["mixup: change of the region count"] is Grade.NOT_REPRODUCED
    assert bad["test accuracy, crop and flip minus mixup"] is Grade.NOT_REPRODUCED
    assert bad["mixup: regions against gap"] is Grade.REPRODUCED


def test_section_6_each_way() -> None:
    found = {
        "line": [theory.descend_with(data="line", n=5, dim=2, width=12, share=share, runs=2, steps=20, record=3)
                 for share in (0.3, 0.6, 0.9)]
    }  # fmt: skip
    outcome = grades(theory.of_section6(found))
    assert all(grade is Grade.REPRODUCED for what, grade in outcome.items() if what.startswith(("Lemma", "Theorem")))
    found["line"][0]["failures"] = 1
    assert grades(theory.of_section6(found))["Lemma 6.4: R(a, b) <= N(a) + N(b) + 2"] is Grade.NOT_REPRODUCED
    trend = "alternating points on a line, all rates: change of the mean region count for each doubling of the rate"
    assert grades(theory.of_section6(found))[trend] is Grade.SHOWN  # rates below the edge are outside the assumption


def ended_with(place: Workspace, one: Experiment, error: float | None) -> None:
    run = RunFolder.create(place.runs_folder, one)
    with run.claim():
        status = "diverged" if error is None else "finished"
        run.finish({"status": status, "train_error": error, "test_error": 0.5, "gap": 0.5, "measures": {}})


def test_the_shortest_schedule_that_fits_both_corners_is_taken(tmp_path: Path) -> None:
    wanted = settings.grid("full", "efficientnetb0", "cifar10")
    place = Workspace(tmp_path)

    def planned() -> set[tuple[int, int, float, int]]:
        now = schedule.planned(place, wanted)
        return {(one.training.epochs, one.seed, one.training.lr, one.training.batch_size) for one in now}

    assert planned() == {(25, 0, 0.001, 1024), (25, 0, 0.1, 256)}
    slow, fast = schedule.corners(settings.grid("full", "efficientnetb0", "cifar10", seeds=(0,))[:9])
    ended_with(place, slow, 0.02)
    assert planned() == {(50, 0, 0.001, 1024), (50, 0, 0.1, 256)}  # the other corner of 25 epochs is not needed
    slow, fast = (replace(one, training=replace(one.training, epochs=50)) for one in (slow, fast))
    ended_with(place, slow, 0.009)
    assert len(planned()) == 2
    ended_with(place, fast, 0.0)
    assert {(epochs, seed) for epochs, seed, *_ in planned()} == {(50, 0), (50, 1), (50, 2)}
    assert len(planned()) == 27
    resnet = settings.grid("full", "resnet18", "cifar10")
    assert schedule.planned(place, resnet) == resnet  # one schedule is no choice


def test_figure_2_without_momentum(tmp_path: Path) -> None:
    usual = tables.points(planted(tmp_path / "usual", sign=-1, momentum=0.9))
    without = tables.points(planted(tmp_path / "without", others=5.0, momentum=0.0))
    found = grades(momentum.of_momentum((*usual, *without)))
    assert found["no momentum: mlp: regions against gap"] is Grade.REPRODUCED
    assert found["no momentum: distance from the initial weights against gap"] is Grade.NOT_REPRODUCED
    assert len(found) == 4  # all settings fit their data
    unfit = [replace(p, values={**p.values, "train_error": 5.0, "regions": 9.0}) for p in without[:2]]
    found = grades(momentum.of_momentum((*usual, *unfit, *without[2:])))
    assert found["no momentum: mlp: regions against gap"] is not Grade.REPRODUCED
    assert found["no momentum, settings that fit: mlp: regions against gap"] is Grade.REPRODUCED


def test_the_page_opens_with_a_margin_that_correlates(tmp_path: Path) -> None:
    chosen = tables.points(planted(tmp_path))
    gaps = [point.values["gap"] for point in chosen]
    against = [replace(point, values={**point.values, "margin": -gap}) for point, gap in zip(chosen, gaps, strict=True)]
    said = claims.joined([predictors.of_figure4(against), predictors.of_figure2(against)]).summary
    assert said.startswith("Over 9 settings that fit their data, one seed each, the mean output margin correlates with")
    assert "-1.00" in said
    assert "contradicts the paper" in said
    flat = [replace(p, values={**p.values, "margin": float(i % 2)}) for i, p in enumerate(chosen)]
    assert predictors.of_figure2(flat).summary == ""
