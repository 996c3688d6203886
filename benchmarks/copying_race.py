"""Pointer-generator against a subword Transformer of the same size: who writes new names?

    python benchmarks/copying_race.py --out course/checkpoints/copying_race/race.csv
    python benchmarks/copying_race.py --seeds 1 --steps 20  # does it run?

Lesson 16 reads the file. Both models learn from the notes of its 1,760 training patients, one
drug in each, and write summaries of 100 other notes whose drugs no training note has.

* *as they are*: the training notes have some 200 names of drugs between them.
* *one each*: in every training note the drug has a name of its own, made of random syllables.
* *ever new*: such a name is drawn again each time that a note is read.

The pointer is that of exercise 16.7, on whole words, with the lesson's 120 steps. The Transformer
reads and writes the pieces of a NoteTokenizer, in 1,000 steps, the rate falling along a cosine.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from ehr_course import (
    NoteDataset,
    NotePair,
    NoteTokenizer,
    WordTokenizer,
    drug_names,
    make_cohort,
    make_notes,
    names_recovered,
    split_by_patient,
)
from ehr_course.batches.note_dataset import NoteBatch
from ehr_course.exercises.worked_answers import worked

PATIENTS, NEW, BATCH = 2_200, 100, 16
BEGINNINGS = (
    "ba", "ce", "do", "fi", "gu", "ka", "le", "mo", "ni", "pu", "ra", "se", "to", "vi", "xa", "ze",
    "pra", "clo", "tri", "sul", "mel",
)  # fmt: skip
ENDINGS = ("pam", "lol", "zine", "pril", "tan", "mab", "xib", "statin", "gliptin", "cillin")
WORDS = set(drug_names("common")) | set(drug_names("unseen"))


def notes(names: str) -> tuple[list[NotePair], list[NotePair], list[NotePair]]:
    """Training notes, other notes with drugs of the training notes, and with new drugs."""
    learned_from, _, others = split_by_patient(make_cohort(PATIENTS, seed=0), seed=0)
    one_drug = {"seed": 0, "medications": (1, 1)}
    pairs = make_notes(learned_from, **one_drug)
    if names != "as they are":
        rng = random.Random(0)
        pairs = [renamed(pair, rng) for pair in pairs]
    others = others[:NEW]
    return pairs, make_notes(others, **one_drug), make_notes(others, drugs="unseen", **one_drug)


def renamed(pair: NotePair, rng: random.Random) -> NotePair:
    """The same note, its drug with a new name."""
    while True:
        name = "".join(rng.choices(BEGINNINGS, k=rng.choice((2, 3)))) + rng.choice(ENDINGS)
        if name not in WORDS:
            break
    WORDS.add(name)
    old = pair.summary.partition("treated with ")[2].partition(".")[0]
    return NotePair(pair.note.replace(old, name), pair.summary.replace(old, name))


def batches(n: int, seed: int) -> Iterator[list[int]]:
    """Places of rows, every row once before any comes again."""
    rng, order = random.Random(seed), []
    while True:
        if len(order) < BATCH:
            order = rng.sample(range(n), n)
        yield order[:BATCH]
        order = order[BATCH:]


# fmt: off
class Rival(nn.Module):
    def __init__(self, n_pieces, width=64, longest=200):
        super().__init__()
        self.pieces = nn.Embedding(n_pieces, width)
        self.places = nn.Embedding(longest, width)
        sizes = {"dim_feedforward": 256, "dropout": 0.0}
        options = {"batch_first": True, "norm_first": True}
        self.body = nn.Transformer(width, 4, 2, 2, **sizes, **options)

    def forward(self, note, summary):
        padding, n = note == 3, summary.shape[1]
        hidden = self.body(
            self.pieces(note) + self.places.weight[: note.shape[1]],
            self.pieces(summary) + self.places.weight[:n],
            tgt_mask=torch.ones(n, n).triu(1).bool(),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return hidden @ self.pieces.weight.T
# fmt: on


def new_rival(n_pieces: int) -> Rival:
    """A rival whose first logits are not far from 0, though head and embedding are one table."""
    rival = Rival(n_pieces)
    for table in (rival.pieces, rival.places):
        nn.init.normal_(table.weight, std=0.125)
    return rival


@torch.no_grad()
def rival_writes(model: Rival, tokenizer: NoteTokenizer, pairs: list[NotePair]) -> list[str]:
    """The likeliest piece each time, as `model(note, ids)` has it; the notes are read once."""
    note = NoteDataset(pairs, tokenizer).batch(range(len(pairs)))["input_ids"]
    padding, body = note == tokenizer.pad_id, model.body
    read = model.pieces(note) + model.places.weight[: note.shape[1]]
    memory = body.encoder(read, src_key_padding_mask=padding)
    ids = torch.full((len(pairs), 1), tokenizer.bos_id)
    while ids.shape[1] < 60 and not (ids == tokenizer.eos_id).any(dim=1).all():
        n = ids.shape[1]
        hidden = body.decoder(
            model.pieces(ids) + model.places.weight[:n],
            memory,
            tgt_mask=torch.ones(n, n).triu(1).bool(),
            memory_key_padding_mask=padding,
        )
        logits = hidden[:, -1] @ model.pieces.weight.T
        ids = torch.cat([ids, logits.argmax(dim=1, keepdim=True)], dim=1)
    texts = []
    for row in ids.tolist():
        end = row.index(tokenizer.eos_id) if tokenizer.eos_id in row else None
        texts.append(tokenizer.decode([i for i in row[1:end] if i > tokenizer.pad_id]))
    return texts


def words_of(batch: NoteBatch) -> tuple[Tensor, Tensor]:
    """The notes of a batch without <s> and </s>, and their mask."""
    note = batch["input_ids"][:, 1:]
    note = note.masked_fill(note == WordTokenizer.eos_id, WordTokenizer.pad_id)
    return note, (note != WordTokenizer.pad_id).long()


def pointer_loss(model: nn.Module, batch: NoteBatch) -> Tensor:
    note, mask = words_of(batch)
    logits, scores, gate = model(note, mask, batch["decoder_input_ids"])
    labels = batch["labels"]
    of_step = logits, scores, gate, note[:, None].expand(scores.shape), labels
    return worked("16.5", "pointer_loss")(*(each[labels >= 0] for each in of_step))


def rival_loss(model: nn.Module, batch: NoteBatch) -> Tensor:
    logits = model(batch["input_ids"], batch["decoder_input_ids"])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())


@torch.no_grad()
def pointer_writes(model: nn.Module, tokenizer: WordTokenizer, pairs: list[NotePair]) -> list[str]:
    data = NoteDataset(pairs, tokenizer)
    note, mask = words_of(data.batch(range(len(pairs))))
    ids = torch.full((len(pairs), 1), tokenizer.bos_id)
    while ids.shape[1] < 40:
        logits, scores, gate = (each[:, -1] for each in model(note, mask, ids))
        both = logits.softmax(dim=1), scores.softmax(dim=1), gate.sigmoid()
        mixed = worked("16.3")(*both, note, max(map(len, data.oov)))
        ids = torch.cat([ids, mixed.argmax(dim=1, keepdim=True)], dim=1)
    texts = []
    for row, oov in zip(ids.tolist(), data.oov, strict=True):
        end = row.index(tokenizer.eos_id) if tokenizer.eos_id in row else None
        texts.append(tokenizer.decode(row[:end], oov))
    return texts


def race(names: str, kind: str, seed: int, steps: int, report: Callable[[dict], None]) -> None:
    """Train one model, and report how it writes after a quarter, half and all."""
    pairs, known, new = notes(names)
    texts = [text for pair in pairs for text in (pair.note, pair.summary)]
    torch.manual_seed(seed)
    tokenizer: Any
    model: nn.Module
    if kind == "pointer":
        rarest = 1 if names == "as they are" else 3  # the made-up names are outside
        tokenizer = WordTokenizer.from_texts(texts, min_count=rarest)
        model, lr = worked("16.7")(len(tokenizer), 32, 64), 1e-2
        loss_of, write = pointer_loss, pointer_writes
    else:
        tokenizer = NoteTokenizer.train(texts, vocab_size=700)
        model, lr = new_rival(len(tokenizer)), 2e-3
        loss_of, write = rival_loss, rival_writes
    data, total = NoteDataset(pairs, tokenizer), 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: (
            1.0
            if kind == "pointer"
            else min(1, (i + 1) / 50) * (0.51 + 0.49 * math.cos(math.pi * i / steps))
        ),
    )
    rng = random.Random(seed)
    judged_at = {steps // 4, steps // 2, steps}
    size, since = sum(p.numel() for p in model.parameters()), 0
    for step, rows in zip(range(1, steps + 1), batches(len(pairs), seed), strict=False):
        batch = data.batch(rows)
        if names == "ever new":
            again = [renamed(pairs[row], rng) for row in rows]
            batch = NoteDataset(again, tokenizer).batch(range(BATCH))
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        schedule.step()
        total, since = total + loss.item(), since + 1
        if step in judged_at:
            row = {"names": names, "model": kind, "parameters": size, "seed": seed, "step": step}
            row["loss"] = total / since
            for group, some, of in (("known", known, "common"), ("new", new, "unseen")):
                model.eval()
                written, right = write(model, tokenizer, some), [pair.summary for pair in some]
                model.train()
                row[f"{group}_names"] = names_recovered(written, right, drug_names(of))
                both = zip(map(without_drug, written), map(without_drug, right), strict=True)
                row[f"{group}_all_else"] = sum(w == r for w, r in both) / len(some)
            report(row)
            total, since = 0.0, 0


def without_drug(summary: str) -> str:
    """A summary from which what follows "treated with" is cut."""
    before, _, after = summary.replace(" .", ".").partition("treated with ")
    return before + after.partition(".")[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of each model, in place of 120 and 1,000")
    parser.add_argument("--names", nargs="+", default=["as they are", "one each"])
    parser.add_argument("--models", nargs="+", default=["pointer", "Transformer"])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict] = []
    if options.out and options.out.exists():
        rows = pl.read_csv(options.out).to_dicts()

    def report(row: dict) -> None:
        rows.append({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
        print(rows[-1], flush=True)
        if options.out:
            pl.DataFrame(rows).write_csv(options.out)

    for seed in range(options.first, options.first + options.seeds):
        for kind in options.models:
            steps = options.steps or {"pointer": 120, "Transformer": 1_000}[kind]
            for names in options.names:
                race(names, kind, seed, steps, report)


if __name__ == "__main__":
    main()
