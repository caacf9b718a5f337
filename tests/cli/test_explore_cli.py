"""``regionscope explore``: saved partitions become a page, and one sentence for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

import regionscope as rs
from command_line import run
from regionscope.exact import decision_regions, linear_regions
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NETS = [mlp([2, 6, 2], seed=seed) for seed in range(3)]


def said(command: str, code: int = 0) -> str:
    done = run(command)
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize("labelled", [False, True])
def test_a_saved_partition_becomes_a_page_named_after_it(labelled: bool) -> None:
    found = decision_regions(NETS[0], SQUARE) if labelled else linear_regions(NETS[0], SQUARE)
    found.save("p")
    assert "wrote p.html" in said("explore p.npz")
    text = Path("p.html").read_text(encoding="utf-8")
    assert ('"decision": ' in text) == labelled
    assert f'"linear": {linear_regions(NETS[0], SQUARE).n_linear_regions}' in text


def test_several_partitions_are_the_frames_of_a_training() -> None:
    parts = [linear_regions(net, SQUARE) for net in NETS]
    for i, part in enumerate(parts):
        part.save(f"p{i}")
    assert "3 of 3 frames" in said("explore p0.npz p1.npz p2.npz --steps 0,10,200 -o page.html")
    text = Path("page.html").read_text(encoding="utf-8")
    for step, part in zip((0, 10, 200), parts, strict=True):
        assert f'"step": {step}' in text
        assert f'"linear": {part.n_linear_regions}' in text
    said("explore p0.npz p1.npz")
    assert '"step": 1,' in Path("p0.html").read_text(encoding="utf-8")


def test_classes_have_names() -> None:
    decision_regions(NETS[0], SQUARE).save("p")
    said("explore p.npz --class-names upper,lower")
    assert '"classes": ["upper", "lower"]' in Path("p.html").read_text(encoding="utf-8")
    assert "Expected 2 class names, got 3." in said("explore p.npz --class-names a,b,c", code=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("p.npz -o x.pdf", "ends in .html"),
        ("p.npz -o none/x.html", "does not exist"),
        ("absent.npz", "at 'absent.npz', got nothing"),
        (".", "For a run, use regionscope-lab explore"),
        ("cut.npz", "Expected a saved partition"),
        ("damaged.npz", "Expected a saved partition"),
        ("p.npz --steps 1,2", "Expected --steps with 1 numbers, one for each partition, got '1,2'."),
        ("p.npz p.npz --steps a,b", "Expected --steps with 2 numbers, one for each partition, got 'a,b'."),
        ("p.npz line.npz", "Expected partitions of one slice, got several slices."),
    ],
)
def test_mistakes_are_one_sentence(words: str, sentence: str, folder: Path) -> None:
    whole = linear_regions(NETS[0], SQUARE).save("p").read_bytes()
    linear_regions(NETS[0], rs.Segment([0.0, 0.0], [1.0, 1.0])).save("line")
    Path("cut.npz").write_bytes(whole[:300])
    Path("damaged.npz").write_bytes(whole[:500] + bytes(len(whole) // 2) + whole[500 + len(whole) // 2 :])
    before = sorted(path.name for path in folder.iterdir())
    assert sentence in said(f"explore {words}", code=2)
    assert sorted(path.name for path in folder.iterdir()) == before
