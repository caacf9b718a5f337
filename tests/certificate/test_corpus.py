"""The corpus: its files are what they claim, and the runner tells right counts from wrong ones."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import check_certificate
import corpus_adapters
import regionscope as rs
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
        proved = check_certificate.check(document)
        assert {name: proved[name] for name in document["counts"]} == document["counts"]


def test_certificates_of_the_files_are_about_their_weights_and_slices() -> None:
    """The checker takes the network of a certificate as it is; it is that of the file."""
    stored = {path.stem: json.loads(path.read_text())["certificate"] for path in SMALLEST[:12]}
    for case in run_corpus.cases():
        if case.name in stored:
            certificate = rs.decision_regions(case.model(), corpus_adapters.place_of(case)).certify()
            assert certificate.document is not None
            made = json.loads(json.dumps(certificate.document()))
            assert (made["network"], made["slice"]) == (stored[case.name]["network"], stored[case.name]["slice"])


def test_the_checker_rejects_a_wrong_topology() -> None:
    """Class 0 is a polygon inside class 1, which has a hole there."""
    document = json.loads((run_corpus.CORPUS / "ring-2d-0000.json").read_text())
    counts = document["counts"]
    assert counts["topology"] == {"0": {"components": 1, "holes": 0}, "1": {"components": 1, "holes": 1}}
    assert check_certificate.check(document)["topology"] == counts["topology"]
    for shape, name in [(shape, name) for shape in counts["topology"].values() for name in ("components", "holes")]:
        shape[name] += 1
        with pytest.raises(check_certificate.Fault, match="the counts are"):
            check_certificate.check(document)
        shape[name] -= 1
    counts["labels"] = [0, 0]
    with pytest.raises(check_certificate.Fault, match="the counts are"):
        check_certificate.check(document)


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


def test_the_adapter_on_the_page_runs() -> None:
    """The page's numbers come from this adapter and all networks."""
    page = (run_corpus.CORPUS / "README.md").read_text()
    namespace: dict[str, Any] = {}
    exec(page.split("```{code-block} python\n")[1].split("```")[0], namespace)
    chosen = {case.name: case for case in run_corpus.cases()}
    for name, status in (("larger-0000", "right"), ("mlp-3d-0008", "wrong"), ("abs-1d-0006", "unsupported")):
        outcome = run_corpus.test(namespace["sampled"], chosen[name])
        assert outcome.status == status
        assert not outcome.details or f"{name} ({outcome.case.weights_kind}): {outcome.details}" in page
