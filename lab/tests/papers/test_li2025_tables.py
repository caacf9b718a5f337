"""Points, correlations and figures of Li et al. from hand-made runs: verdicts come out each way."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from papers.li2025_runs import grades, made, planted
from regionscope.errors import InputError
from regionscope.measures.correlate import correlate
from regionscope_lab.config import DataSpec, NetworkSpec
from regionscope_lab.papers.charts import Scatter
from regionscope_lab.papers.li2025 import (
    cifar10,
    claims,
    consistency,
    counting,
    hyperparameter_effects,
    momentum,
    networks,
    paper,
    predictors,
    tables,
)
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace


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
    found = (networks.fitted_networks(place, each) for each in (wanted, [*wanted, lacking]))
    both, alone = (cifar10.of_networks(*each) for each in found)
    assert {claim.what.split(":")[0] for claim in both.claims if "test accuracy" in claim.what} == {"mlp", "cnn"}
    assert {claim.what.split(":")[0] for claim in alone.claims if "test accuracy" in claim.what} == {"mlp"}
    assert "18 of 19 planned runs" in alone.notes[1]
    assert any(note.startswith("mlp, 10 epochs: All 9 settings have a training error below 1%") for note in alone.notes)
    with pytest.raises(InputError, match="a run of each setting of one of cnn"):
        networks.fitted_networks(place, [wanted[-1], lacking])


def test_pages_of_networks_at_full_size_have_the_settings_that_fit(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    unfitted = made(place.runs_folder, {"regions": 9.0}, train=0.1, test=0.2, lr=0.5)
    wanted = [one.experiment for one in (*planted(place.runs_folder), unfitted)]
    lacking = replace(wanted[0], data=DataSpec(name="two_moons"))  # another data set does not make a grid incomplete
    desk, full = (networks.read_networks(place, [*wanted, lacking], size) for size in ("desk", "full"))
    assert (len(desk[0]), len(full[0])) == (10, 9)
    assert "mlp, 10 epochs: 1 of 10 settings have a training error of 1% or more" in full[1][-1]


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


def test_settings_that_did_not_train_are_left_out(tmp_path: Path) -> None:
    fine = [made(tmp_path, {"regions": 2.0 + i}, test=0.5 - 0.1 * i, lr=0.01 * (i + 1)) for i in range(3)]
    dull = [made(tmp_path, {"regions": 1.0}, train=0.9, test=0.9, lr=1.0)]
    assert [point.values["regions"] for point in tables.points(fine + dull)] == [2.0, 3.0, 4.0]
    assert len(tables.points(fine[:2] + dull)) == 3  # too few did train
    assert len(tables.points([*fine, made(tmp_path, {}, train=0.9, test=0.9, lr=1.0, optimizer="adam")])) == 4


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


def test_figure_5_each_way(tmp_path: Path) -> None:
    chosen = tables.points(planted(tmp_path))
    found = tables.effects(chosen, "regions", "batch_size")
    assert [effect.level for effect in found] == [16, 32, 64]
    assert [effect.mean for effect in found] == pytest.approx([2.3, 2.4, 2.5])
    assert all(effect.error < 1e-9 for effect in found)  # the rates' own effect is taken away
    assert hyperparameter_effects.of_figure5(chosen).grade is Grade.REPRODUCED
    turned = [replace(point, values={**point.values, "regions": -point.values["regions"]}) for point in chosen]
    assert hyperparameter_effects.of_figure5(turned).grade is Grade.NOT_REPRODUCED


def test_levels_are_compared_within_whole_blocks_only(tmp_path: Path) -> None:
    chosen = tables.points(planted(tmp_path))
    broken = [point for point in chosen if point.factors != chosen[0].factors]
    found = tables.effects(broken, "regions", "batch_size")
    assert [effect.n for effect in found] == [2, 2, 2]
    assert tables.effects([], "regions", "lr") == ()


def test_tables_2_6_and_8_read_their_own_measures(tmp_path: Path) -> None:
    chosen = tables.points(planted(tmp_path))
    assert consistency.of_dimensions(chosen).grade is Grade.REPRODUCED
    assert consistency.of_table8(chosen).grade is Grade.REPRODUCED
    assert counting.of_table6(chosen).grade is Grade.REPRODUCED
    noisy = [
        replace(point, values={**point.values, "regions_3d": (4, 1, 9, 3, 7, 2, 8, 4, 5)[i]})
        for i, point in enumerate(chosen)
    ]
    found = grades(consistency.of_dimensions(noisy))
    assert found["mlp, dimension 3"] is Grade.NOT_REPRODUCED
    assert found["mlp, dimension 2"] is Grade.REPRODUCED
    assert any("swapped" in note for note in consistency.of_table8(chosen).notes)


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


def test_runs_that_do_not_exist_are_said(tmp_path: Path) -> None:
    runs = planted(tmp_path)
    wanted = [run.experiment for run in runs]
    assert tables.missing(runs, wanted) == ()
    more = [*wanted, *(replace(one, seed=1) for one in wanted)]
    (sentence,) = tables.missing(runs, more)
    assert sentence.startswith("9 of 18 planned runs exist: mlp: 9 of 18 (9 of seed 0). ")
    (sentence,) = tables.missing(runs, [*wanted, replace(wanted[0], network=NetworkSpec(name="cnn"))])
    assert sentence.startswith("9 of 10 planned runs exist: mlp: 9 of 9; cnn: 0 of 1. ")


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


def test_what_comes_twice_is_on_the_page_once(tmp_path: Path) -> None:
    chosen = tables.points(planted(tmp_path, others=0.1))
    figure2, figure4 = predictors.of_figure2(chosen), predictors.of_figure4(chosen)
    page = claims.joined([figure4, figure2])
    assert len(page.claims) == len(figure4.claims) + len(figure2.claims) - 1  # regions against gap
    assert len(page.charts) == len(figure4.charts) + len(figure2.charts) - 1
    assert page.charts[0] == figure4.charts[0]
    table8 = consistency.of_table8(chosen)
    assert set(claims.joined([figure4, table8, table8]).claims) == {*figure4.claims, *table8.claims}
    chart = page.charts[0]
    assert isinstance(chart, Scatter)
    assert chart.found == tables.correlation(chosen, "regions")  # the interval beside the points is that of the claim
