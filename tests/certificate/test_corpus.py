"""The corpus: its files are what they claim, and the runner tells right counts from wrong ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import check_certificate
import corpus_adapters
import run_corpus

FILES = sorted(run_corpus.CORPUS.glob("*.json"))
SMALLEST = sorted(FILES, key=lambda path: path.stat().st_size)


def test_the_corpus_has_all_families_and_dimensions() -> None:
    found = list(run_corpus.cases())
    assert len(found) == 200
    assert {case.dim for case in found} == {1, 2, 3}
    assert {"MLP", "CNN", "residual", "max-pool", "clamp"} <= {case.family for case in found}
    assert {"whole numbers", "copies", "near copies", "zero bias"} <= {case.weights_kind for case in found}
    assert sum(path.stat().st_size for path in FILES) < 3_000_000


def test_the_checker_proves_the_counts_of_the_files() -> None:
    for path in SMALLEST[:40]:
        document = json.loads(path.read_text())
        proved = check_certificate.check(document["certificate"])
        counts = document["counts"]
        assert list(proved["by_layer"].values()) == counts["activation_by_layer"]
        assert (proved["linear"], proved["decision"]) == (counts["linear"], counts["decision"])


def test_regionscope_is_right_on_small_cases_and_a_wrong_tool_is_not() -> None:
    chosen = [case for case in run_corpus.cases() if case.name in {path.stem for path in SMALLEST[:12]}]
    outcomes = [run_corpus.test(corpus_adapters.regionscope, case) for case in chosen]
    assert Counter(one.status for one in outcomes) == {"right": 12}
    wrong = run_corpus.test(lambda case: {"linear": case.counts["linear"] + 1}, chosen[0])
    assert wrong.status == "wrong"
    assert wrong.details == f"linear is {chosen[0].counts['linear'] + 1}, true is {chosen[0].counts['linear']}"
    assert run_corpus.test(lambda case: None, chosen[0]).status == "unsupported"
    assert run_corpus.test(lambda case: {}[case.name], chosen[0]).status == "error"
    assert "all" in run_corpus.table([*outcomes, wrong])


def test_a_case_of_a_peer_starts_with_the_same_function() -> None:
    """The network that relucent searches is the one of the corpus on the slice."""
    import torch

    for case in run_corpus.cases():
        if case.family != "MLP" or (made := corpus_adapters.on_slice(case)) is None:
            continue
        model, _, start = made
        inputs = torch.tensor(case.slice["origin"]) + start @ torch.tensor(case.slice["basis"], dtype=torch.float64)
        assert torch.allclose(model(start), case.model()(inputs), atol=1e-12)
        break
    else:
        raise AssertionError("no case for relucent")
    assert Path(run_corpus.CORPUS).name == "corpus"
