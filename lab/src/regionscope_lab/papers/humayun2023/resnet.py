"""ResNet18: Figures 5 and 16."""

from __future__ import annotations

import itertools

from regionscope_lab.papers.declaration import Finding
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.images import normalisation, pairs_of
from regionscope_lab.papers.humayun2023.seeds import is_true
from regionscope_lab.papers.rules import by_seed, combined
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable, by_setting


def figure5(table: SeedTable, runs: Runs) -> Finding:
    pairs = pairs_of({"ResNet18": runs["resnet"]})
    kinds = {name: [pair[bn] for pair in pairs["ResNet18"]] for bn, name in enumerate(("without BN", "with BN"))}
    return Finding(
        {"phases": by_seed([seeds.three_phases(run) for run in kinds["without BN"]]), **normalisation(pairs)},
        *seeds.shown(("LC at training points of ResNet18", kinds, "lc.train")),
    )


def figure16(table: SeedTable, runs: Runs) -> Finding:
    mine = by_setting(runs["resnet"], "network.options.bn")[False]
    start = "lc.train.layer."
    layers = [name.removeprefix(start) for name in mine[0].rows if name.startswith(start)]
    shallow = [name for name in layers if name.startswith("stage1.")]

    def second(name: str) -> list[bool]:
        return [seeds.has_second_descent(run, start + name) for run in mine]

    def meets(run: SeedRun) -> int:
        """Before the last layer's peak, train and test LC are within two standard errors of random LC at two looks."""
        last, train = layers[-1], seeds.shape(run, start + layers[-1])
        if train.ascent is None:
            return 0
        looks = [
            all(
                abs(seeds.apart(run, f"lc.{part}.layer.{last}", f"lc.random.layer.{last}", step)[0])
                <= 2 * seeds.apart(run, f"lc.{part}.layer.{last}", f"lc.random.layer.{last}", step)[1]
                for part in ("train", "test")
            )
            for step in train.steps[: train.ascent.last]
        ]
        return is_true(any(a and b for a, b in itertools.pairwise(looks)))

    firsts, seconds = ([name for name in shallow if (".branch." in name) is inner] for inner in (False, True))
    return Finding(
        {
            "first-relu": combined([by_seed([is_true(not one) for one in second(name)]) for name in firsts]),
            "second-relu": combined([by_seed([is_true(one) for one in second(name)]) for name in seconds]),
            "meets-random": by_seed([meets(run) for run in mine]),
        },
        *seeds.shown(
            *((f"LC at training points, {name}", {"": mine}, start + name) for name in (*shallow, layers[-1]))
        ),
    )
