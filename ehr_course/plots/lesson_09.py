"""What lesson 09 draws: a damaged record beside its right answer, and damaged visits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ehr_course.batches.collate import NOT_SCORED, Batch
from ehr_course.plots.corruption import MASK, Fate, Step, align
from ehr_course.plots.diagrams import Token, draw_strips, token_fill
from ehr_course.plots.style import Picture, count
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

CLEAN, READS, KNOWS, WRITES = (
    "clean record",
    "encoder reads\ninput_ids",
    "decoder reads\ndecoder_input_ids",
    "it must write\nlabels",
)


def draw_training_pair(
    tokenizer: CodeTokenizer,
    clean: Sequence[int],
    batch: Batch,
    row: int = 0,
    *,
    title: str = "What does the encoder read, and what must the decoder write?",
) -> Picture:
    """Draw one patient of a batch: the clean record, and what encoder and decoder are given.

    Every token that the encoder reads stands under the code that it comes from. A label that is
    not the token of the clean record is marked.

    Args:
        tokenizer: that encoded the patient.
        clean: the ids of the clean record.
        batch: int64 (batch, length), with `input_ids`, `decoder_input_ids` and `labels`.
        row: the patient's row.
        title: what the picture is to be asked.
    """
    damaged = [i for i in batch["input_ids"][row].tolist() if i != tokenizer.pad_id]
    labels = [i for i in batch["labels"][row].tolist() if i != NOT_SCORED]
    steps = _steps(tokenizer, clean, damaged)
    answers = tokenizer.tokens(labels)
    # A label belongs to a token of the clean record, or else to one that the encoder reads.
    under = [i for i, step in enumerate(steps) if step.after]
    under = [*range(len(clean))] if len(labels) == len(clean) else under
    wrong = [answer != steps[i].before for answer, i in zip(answers, under, strict=True)]
    changed = [i for i, step in enumerate(steps) if step.fate is not Fate.KEPT]
    rows: dict[str, Sequence[Token]] = {
        CLEAN: tokenizer.tokens(list(clean)),
        READS: _under(steps),
        KNOWS: tokenizer.tokens(batch["decoder_input_ids"][row].tolist()[: len(labels)]),
        WRITES: answers,
    }
    fills = [
        "trap" if bad else token_fill(answer) for answer, bad in zip(answers, wrong, strict=True)
    ]
    notes = {CLEAN: count(len(clean), "token")}
    notes[READS] = f"{count(len(damaged), 'token')} → encoder"
    notes[KNOWS] = f"{count(len(labels), 'token')} → decoder"
    notes[WRITES] = f"{count(len(labels), 'token')} ← decoder"
    key = {"code": "a code", "special": "a marker"}
    key |= {"mask": "a mask, drawn as wide as what it hides"} if MASK in rows[READS] else {}
    key |= {"trap": "not in the clean record"} if any(wrong) else {}
    key |= {"": "deleted"} if "" in rows[READS] else {}
    marked = {
        READS: [i for i in changed if steps[i].after],
        WRITES: [place for place, i in enumerate(under) if i in changed],
    }
    key |= {"framed": "damaged"} if any(marked.values()) else {}
    return draw_strips(
        rows,
        title,
        "The decoder reads the encoder too. An arrow leads from each token that it should write "
        "to where it reads it next",
        fills={WRITES: fills},
        marked=marked,
        notes=notes,
        key=key,
        arrows=[((WRITES, i), (KNOWS, i + 1)) for i in range(len(labels) - 1)],
    )


def draw_damaged_visits(
    tokenizer: CodeTokenizer, visit: Sequence[int], damaged: Mapping[str, Sequence[Sequence[int]]]
) -> Picture:
    """Draw one visit and what each kind of corruption makes of it, every code under its own.

    Args:
        tokenizer: of the codes.
        visit: the ids of its codes, without markers.
        damaged: for each kind, the ids of some corrupted visits.
    """
    clean = tokenizer.tokens(list(visit))
    rows: dict[str, Sequence[Token]] = {"clean": clean}
    notes, fills = {"clean": count(len(clean), "token")}, {}
    for kind, some in damaged.items():
        for number, ids in enumerate(some, 1):
            steps = align(clean, tokenizer.tokens(list(ids)))
            name = f"{kind} {number}"
            rows[name], notes[name] = _under(steps), count(len(ids), "token")
            fills[name] = [
                "trap" if step.fate is Fate.REPLACED else token_fill(step.after) for step in steps
            ]
    return draw_strips(
        rows,
        "Which kind of damage says where something is missing?",
        "One visit, damaged in each way. A mask is one token: its width is not told to the model",
        fills=fills,
        notes=notes,
        key={
            "code": "a code",
            "mask": "one mask for a span",
            "": "deleted",
            "trap": "another code in its place",
        },
    )


def _under(steps: Sequence[Step]) -> list[Token]:
    """What is left under each token: "" where it was deleted, None where a mask goes on."""
    return [step.after or (None if step.fate is Fate.HIDDEN else "") for step in steps]


def _steps(tokenizer: CodeTokenizer, clean: Sequence[int], damaged: Sequence[int]) -> list[Step]:
    """What has become of each token of a clean record, markers included."""

    def kept(token_id: int) -> Step:
        token = tokenizer.tokens([token_id])[0]
        return Step(token, token, Fate.KEPT)

    steps = [kept(tokenizer.bos_id)]
    for old, new in zip(_visits(tokenizer, clean), _visits(tokenizer, damaged), strict=True):
        steps += [kept(tokenizer.visit_start_id), *align(old, new), kept(tokenizer.visit_end_id)]
    return [*steps, kept(tokenizer.eos_id)]


def _visits(tokenizer: CodeTokenizer, ids: Sequence[int]) -> list[list[str]]:
    """The codes and masks of each visit."""
    visits: list[list[str]] = []
    for token_id, token in zip(ids, tokenizer.tokens(list(ids)), strict=True):
        if token_id == tokenizer.visit_start_id:
            visits.append([])
        elif token_id == tokenizer.mask_id or token_id >= len(SPECIAL_TOKENS):
            visits[-1].append(token)
    return visits
