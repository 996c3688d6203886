"""A small BART in Hugging Face's form, laid out as facebook/bart-base is."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer

TEXTS = ["the patient was given 650 mg of paracetamol", "the patient went home after 650 days"]


def save_bart_tokenizer(folder: Path, *, pieces: int = 300) -> None:
    """Write vocab.json and merges.txt: <s> 0, <pad> 1, </s> 2, <unk> 3, pieces, <mask> last."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        TEXTS,
        vocab_size=pieces,
        min_frequency=1,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        show_progress=False,
    )
    tokenizer.save_model(str(folder))
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text(encoding="utf-8"))
    vocabulary["<mask>"] = len(vocabulary)
    path.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
