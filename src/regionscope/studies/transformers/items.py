"""Questions beyond the papers, and why an answer is not the expected one."""

from __future__ import annotations

from regionscope.studies.items import Item

_NONE = "no paper"

ITEMS = (
    Item(where="Question 1", scale=_NONE, hypothesis="local complexity of a transformer falls when it groks"),
    Item(where="Question 2", scale=_NONE, hypothesis="regions of the next token go with the gap of a GPT"),
    Item(where="Question 3", scale=_NONE, hypothesis="regions of a ViT go with its gap"),
)
CAUSES: dict[str, dict[str, str]] = {
    "transformers-vision": {
        "": "Range: with a rate of 0.002 every run diverges, and the gaps of the six settings that are left lie "
        "between 25.0 and 27.4%, with a standard deviation between seeds of up to 0.8%, so that there is little to "
        "correlate."
    },
}
