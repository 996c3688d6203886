# %% [markdown]
# # 07 · Tokenization
#
# 100 minutes · Prerequisites: 00
#
# You will be able to:
#
# - Show which codes a text tokenizer breaks, and say why this course gives
#   each code one token.
# - Compute the token id of a code from a vocabulary and its seven special
#   tokens.
# - Tell what a moved offset does to a trained model.
# - Encode a patient as one sequence of token ids, visit by visit, and
#   decode it again.
# - Pad a batch of unequal sequences and build its attention mask.

# %% tags=["opened-alone", "hide-input"]
# Opened alone, as on Colab or Kaggle? This cell installs the course.
from importlib.util import find_spec

if not find_spec("ehr_course"):
    from pathlib import Path

    name = "ehr_course-*.whl"
    found = [*Path().glob(name), *Path("/kaggle/input").rglob(name)]
    if not found:
        raise ModuleNotFoundError(
            "The course is missing. In a clone, take the kernel of .venv; "
            "elsewhere, put ehr_course-….whl beside this notebook."
        )
    get_ipython().run_line_magic("pip", f'install "{found[0]}[notebook]"')
    from ehr_course import after_installation

    after_installation()

# %% [markdown]
# ## Does a text tokenizer break every code?
#
# Lesson 00 broke 250.00 into six pieces. Was that fair? Its tokenizer had
# never seen a code. So train one on notes that end in their codes, and look
# again. If the codes stay whole, you need no other tokenizer, and this lesson
# can end here.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up
import math
import random
import re
from collections import Counter, defaultdict
from functools import cache, partial

import torch
from torch import Tensor

from ehr_course import (
    CodeTokenizer, InputError, NoteTokenizer, icd9, make_cohort,
    split_by_patient,
)
from ehr_course.exercises import check, examine, hint, progress
from ehr_course.plots import (
    blank_chart, draw_flow, draw_heat, draw_lattice, draw_strips,
)
from ehr_course.widgets import token_explorer

# %% [markdown]
# The patients come from the embedded hospital of lesson 00. They are
# [split](../course/book/glossary.md) into a training, a validation and a
# test set. A tokenizer learns from the training set alone.

# %%
n_patients = {"tiny": 1_000, "small": 5_000, "full": 46_520}[PROFILE]
cohort = make_cohort(n_patients, seed=SEED)
train, validation, test = split_by_patient(cohort, seed=SEED)
len(train), len(validation), len(test)


# %% [markdown]
# Each visit becomes a note, a sentence that a doctor might write. Three tokenizers will
# read it:
#
# - `fair` is a text tokenizer that has a chance: it learns to cut text into pieces
#   from the notes, each followed by its codes. The library
#   [SentencePiece](../course/book/glossary.md) keeps the 800 most useful pieces.
# - `note_tokenizer`, for comparison, has read notes without any code, as in lesson 00.
# - `tokenizer` is the kind that you will build: it knows codes and nothing else.

# %%
def write_note(record, visit):
    person = "woman" if record.sex == "F" else "man"
    titles = [icd9.title(code).lower() for code in visit.codes]
    problems = "; ".join(titles)
    return f"{record.age} year old {person} with {problems}."


stays = [(r, visit) for r in train for visit in r.visits]
notes = [write_note(*stay) for stay in stays]
with_codes = [
    f"{note} {' '.join(map(icd9.dotted, visit.codes))}"
    for note, (_, visit) in zip(notes, stays)
]
# split_by_number=False: a piece may mix letters and digits: V27.0.
learn_pieces = partial(
    NoteTokenizer.train, character_coverage=1.0, split_by_number=False
)
fair = learn_pieces(with_codes, vocab_size=800)
note_tokenizer = learn_pieces(notes, vocab_size=800)
tokenizer = CodeTokenizer.from_records(train)

# %%
words = fair.pieces("chronic hypertension")
codes = ["42731", "42741", "0389"]
text, atoms, under = [], [], {"id": [], "meaning": []}
for code in codes:
    pieces = fair.pieces(icd9.dotted(code))
    text += pieces
    # None: the token goes on, here over all pieces of the same code.
    goes_on = len(pieces) - 1
    atoms += [icd9.dotted(code)] + [None] * goes_on
    under["id"] += [tokenizer.code_to_id(code)] + [""] * goes_on
    title = icd9.title(code).replace(" ", "\n")
    under["meaning"] += [title] + [""] * goes_on

# %%
of_words, of_codes, of_tokens = [
    "two words\nas text", "three codes\nas text", "three codes\nas tokens"
]
draw_strips(
    {of_words: words + [None] * 4, of_codes: text, of_tokens: atoms},
    "What do two tokenizers make of words and codes?",
    "▁ is the space before a word",
    fills={of_words: ["paper"] * (len(words) + 4),
           of_codes: ["trap"] * len(text)},
    under={of_tokens: under},
    notes={of_words: f"{len(words)} pieces",
           of_codes: f"{len(text)} pieces",
           of_tokens: f"{len(codes)} tokens"},
)  # fmt: skip

# %% [markdown]
# A *token* is what a model reads as one unit; where it may be a part of a word,
# this lesson says [piece](../course/book/glossary.md#subword-piece).
#
# One of the three codes is whole as text. Put all codes in order, the most common
# first: which ones do you expect to be whole? The bars count the pieces of `fair`.
# The dashed line is for a text tokenizer that has never seen a code, as in lesson 00.

# %%
codes = sorted({code for r in train for code in r.codes})
written_codes = [icd9.dotted(code) for code in codes]
pieces_of = {code: fair.pieces(icd9.dotted(code)) for code in codes}
lengths = {code: len(pieces) for code, pieces in pieces_of.items()}
times = Counter(code for r in train for code in r.codes)
never_seen = [len(note_tokenizer.pieces(code)) for code in written_codes]
per_code = sum(never_seen) / len(codes)

# %%
ranked = [lengths[code] for code in sorted(codes, key=lambda c: -times[c])]
ends = [len(ranked) * i // 10 for i in range(11)]  # of ten groups
sizes = [end - start for start, end in zip(ends, ends[1:])]
means = [sum(ranked[end - n : end]) / n for end, n in zip(ends[1:], sizes)]
picture, axes = blank_chart(
    "How many pieces does a code become?",
    f"Means of ten groups, from common to rare: from {means[0]:.1f} to"
    f" {means[-1]:.1f} pieces. Never seen: {per_code:.1f}.",
    f"All {len(ranked)} codes in ten groups; a bar is the mean of one",
)
axes.bar(ends[:-1], means, sizes, align="edge", color="#2d708e", ec="w")
axes.axhline(per_code, color="#b3400e", linestyle="--",
             label=f"a tokenizer that never met a code: {per_code:.1f}")
axes.axhline(1, color="k", label="one code, one token")
axes.set(xlabel="codes by rank, the most common on the left",
         ylabel="pieces per code")
axes.legend(loc="upper left", ncols=2)
axes.set_ylim(0, 7.5)
picture

# %% [markdown]
# Nearly all of the common codes are whole, 427.31 and V27.0 among them. The others,
# two thirds of all, stay broken, and so the lesson goes on.

# %% tags=["hide-input"]
# check: fair breaks the rare codes
ranking = [code for code, _ in times.most_common()]
common, rare = ranking[:50], ranking[-50:]
assert sum(lengths.values()) / len(codes) < per_code
assert 2 * sum(map(lengths.get, common)) < sum(map(lengths.get, rare))
assert sum(lengths[code] == 1 for code in common) > (25 if SEED else 40)
assert all(lengths[code] > 1 for code in rare)
assert lengths["42731"] == lengths["V270"] == 1

# %% [markdown]
# A broken code has to be spelled. What a later digit means depends on everything
# before it, so a model that reads digits has spelling to learn besides medicine.

# %% [markdown]
# ### Codes that do not exist
#
# A model that spells can also misspell. Build the smallest model that writes
# codes: all it knows is how often each piece of `fair` follows another. Let it
# write two thousand codes, and look each up in ICD-9-CM.

# %%
follows = defaultdict(Counter)  # piece -> how often each next one comes
for code in times.elements():  # each code as often as it occurs
    row = ["begin", *pieces_of[code], "end"]
    for piece, after in zip(row, row[1:]):
        follows[piece][after] += 1


def write_code(rng):
    row = ["begin"]
    while row[-1] != "end":
        nexts = follows[row[-1]]
        row += rng.choices(list(nexts), nexts.values())
    return row[1:-1]


# %%
def exists(pieces):
    try:
        return bool(icd9.title("".join(pieces).strip("▁")))
    except InputError:
        return False


rng = random.Random(SEED)
texts = [write_code(rng) for _ in range(2_000)]
invented = [pieces for pieces in texts if not exists(pieces)]
print(f"{len(invented)} of 2,000 codes do not exist")

# %% tags=["hide-input"]
# an invented code of three pieces, with its dot in the right place
three_pieces = [pieces for pieces in invented if len(pieces) == 3]
looks_right = [p for p in three_pieces if "".join(p)[4:5] == "."]
plausible = min(looks_right, key=lambda p: len("".join(p)) > 7)


# %%
def real_code_with(one, other):
    """A real code in which these two pieces follow each other."""
    return next(
        code for code, pieces in pieces_of.items()
        if (one, other) in zip(pieces, pieces[1:])
    )


# %%
first, second, third = plausible
begins = real_code_with(first, second)
ends = real_code_with(second, third)
draw_strips(
    {
        "the model wrote": plausible,
        f"in {icd9.dotted(begins)}": [first, second, "…"],
        f"in {icd9.dotted(ends)}": ["…", second, third],
    },
    f"Does {''.join(plausible).strip('▁')} exist?"
    " Each pair of its pieces does",
    fills={"the model wrote": ["trap"] * 3},
    notes={
        f"in {icd9.dotted(begins)}": icd9.title(begins).lower(),
        f"in {icd9.dotted(ends)}": icd9.title(ends).lower(),
    },
)

# %% tags=["hide-input"]
# check: models that look further back invent fewer codes, and still some
n_invented = [len(invented)]
for back in (2, 3):
    seen, rng, wrong = defaultdict(Counter), random.Random(SEED), 0
    for code in times.elements():
        row = ["begin"] * back + [*pieces_of[code], "end"]
        for i in range(back, len(row)):
            seen[tuple(row[i - back : i])][row[i]] += 1
    for _ in range(2_000):
        row = ["begin"] * back
        while row[-1] != "end":
            nexts = seen[tuple(row[-back:])]
            row += rng.choices(list(nexts), nexts.values())
        wrong += not exists(row[back:-1])
    n_invented.append(wrong)
assert 160 < n_invented[0] < 800
assert n_invented[0] > n_invented[1] > n_invented[2] > 0
print("invented codes of 2,000, by how many pieces the model looks back:")
print("one {}, two {}, three {}".format(*n_invented))

# %% [markdown]
# Models that look further back invent fewer codes, but they still invent some. A
# model chooses by probability, and even a large one can never promise not to invent
# a code. So there are two reasons to treat **codes as atoms**, one code, one token,
# as this course does: there is no spelling to learn, and no code can be written
# that does not exist.

# %% [markdown]
# ### Going further: what does a piece of a broken code mean?
#
# In how many chapters of ICD-9 does it occur?

# %% [markdown]
# Take 427.41, ventricular
# fibrillation, a deadly heart rhythm. It is rare, and `fair` breaks it. In
# which chapters of ICD-9 does each of its pieces occur, this code included?

# %%
found = {}
for piece in dict.fromkeys(pieces_of["42741"]):
    having = [code for code in codes if piece in pieces_of[code]]
    chapters = {icd9.chapter(code).number for code in having}
    n_of = f"codes: {len(having)}, chapters: {len(chapters)}"
    found[f"{piece}  ({n_of})"] = {
        str(n): float(n in chapters) for n in range(1, 20)
    }
draw_heat(
    {row: of for row, of in found.items() if not row.startswith(".")},
    "In which chapters do the pieces of 427.41 occur?",
    "Framed: its own chapter, circulatory diseases",
    form="", across="chapter of ICD-9",
    framed=[(row, "7") for row in found],
)  # fmt: skip

# %% tags=["hide-input"]
# first pieces; check: the digits of 427.41 occur in many chapters
assert lengths["42741"] > 3 and times["42741"] < times["42731"] / 10
start = pieces_of["42741"][0]
sharing = [code for code in codes if start in pieces_of[code]]
assert SEED or sharing == ["42741", "4275"]
for piece in pieces_of["42741"]:
    if piece.isdigit():
        having = [code for code in codes if piece in pieces_of[code]]
        assert len({icd9.chapter(code).number for code in having}) > 5
chapters = defaultdict(set)
for code in codes:
    for piece in pieces_of[code]:
        chapters[piece].add(icd9.chapter(code).number)
of_rare = [piece for code in rare for piece in pieces_of[code]]
assert sum(len(chapters[p]) > 1 for p in of_rare) > 0.7 * len(of_rare)
broken = [code for code in codes if lengths[code] > 1]
vague = [code for code in broken if len(chapters[pieces_of[code][0]]) > 1]
print(f"{len(broken)} codes are broken; the first piece of {len(vague)} of"
      " them occurs in several chapters")
assert len(vague) > 0.2 * len(broken)


# %% [markdown]
# Here the first piece gives the chapter away: only one other code has it, cardiac
# arrest, 427.5. (427.31 is whole, one piece of its own.) In many codes not even the
# first piece does.

# %% [markdown]
# ### Going further: would a larger vocabulary keep all codes whole?
#
# Not by itself, for a reason that is easy to miss.

# %% tags=["hide-input"]
# the largest vocabulary: SentencePiece names it when asked for too many
def learn_largest(texts):
    try:
        return learn_pieces(texts, vocab_size=100_000)
    except InputError as error:
        most = re.search(r"<= (\d+)", str(error))[1]
        return learn_pieces(texts, vocab_size=int(most))


most = len(learn_largest(with_codes))
rarest = [icd9.dotted(code) for code in rare]


def n_whole(text_tokenizer, texts):
    return sum(len(text_tokenizer.pieces(text)) == 1 for text in texts)


# %%
for size in (800, 1_100, most):
    larger = learn_pieces(with_codes, vocab_size=size)
    print(f"{size:,} pieces: {n_whole(larger, written_codes)} of"
          f" {len(codes)} codes are whole,"
          f" {n_whole(larger, rarest)} of the 50 rarest")
print(f"038.9 occurs {times['0389']} times:", larger.pieces("038.9"))

# %% [markdown]
# The last size is the largest that SentencePiece makes of these texts. It still
# breaks two codes in five, even 038.9, which is not rare.
#
# SentencePiece tries as a piece only a string that its texts continue in at
# least two ways. In these texts 038.9 is never the last code of a visit, so a
# space follows it each time. Add one line that ends in 038.9. Then give every
# code both chances: put it once at the end of a line, and once before another
# code.

# %%
all_in_a_row = " ".join(written_codes)
for more in ([], ["038.9"], [*written_codes, all_in_a_row]):
    helped = learn_largest([*with_codes, *more])
    print(f"lines added: {len(more)}; {len(helped):,} pieces;"
          f" codes that are whole: {n_whole(helped, written_codes)};"
          f" 038.9 as {helped.pieces('038.9')}")

# %% tags=["hide-input"]
# check: whole are the codes that the texts continue in two ways, no others
at_the_end = Counter(v.codes[-1] for r in train for v in r.visits)
both_ways = [c for c in codes if 0 < at_the_end[c] < times[c]]
in_one_piece = [
    code
    for code, text in zip(codes, written_codes)
    if len(larger.pieces(text)) == 1
]
n_whole_ones = len(in_one_piece)
n_both = len({*both_ways} & {*in_one_piece})
print("last in some visits, not in all, if no line is added:",
      f"{n_both} of {n_whole_ones} whole codes,",
      f"{len(both_ways) - n_both} of {len(codes) - n_whole_ones} broken")
assert SEED or both_ways == in_one_piece
assert SEED or (times["0389"] and not at_the_end["0389"])
assert SEED or "▁038.9" not in larger.scores()
assert n_whole(helped, written_codes) == len(codes)
assert set("0123456789") < set(helped.scores())
assert n_whole(larger, written_codes) > 1.3 * n_whole(fair, written_codes)
assert 0.3 < 1 - n_whole(larger, written_codes) / len(codes) < 0.5
assert n_whole(larger, rarest) < 0.5 * len(rarest)

# %% [markdown]
# One line cures 038.9, and two chances for each code cure all. So a tokenizer
# for text can be made to keep every code whole, and then its records are no
# longer than those of atoms. But the single digits are still among its pieces, so
# that a model can go on spelling codes, and misspell them.

# %% [markdown]
# ## Every token has a number
#
# To a model, a token is a number: its
# [token id](../course/book/glossary.md). All tokens that a tokenizer knows
# are its [vocabulary](../course/book/glossary.md). Ours begins with seven
# [special tokens](../course/book/glossary.md#special-token), which stand
# for structure, and goes on with the codes in sorted order. So each code
# is moved up by seven places; that seven is the
# [offset](../course/book/glossary.md).

# %%
ids = [*range(10), len(tokenizer) - 1]  # the first ten, and the last
tokens = [tokenizer.id_to_token(i) for i in ids]
tokens = [t if t.startswith("<") else icd9.dotted(t) for t in tokens]
index = [i - 7 if i >= 7 else "" for i in ids]
for line, left_out in ((tokens, "…"), (ids, ""), (index, "")):
    line.insert(-1, left_out)
parts = ["7 special tokens", *[None] * 6,  # None: the one before goes on
         f"{len(tokenizer.codes)} codes, sorted", *[None] * 4]
draw_strips(
    {f"{len(tokenizer)} tokens": parts, "the token": tokens},
    "By how much do the id of a code and its index differ?",
    fills={f"{len(tokenizer)} tokens": ["paper"] * len(parts)},
    under={"the token": {"its id": ids, "index of the code": index}},
)  # fmt: skip

# %% [markdown]
# | id | token | meaning |
# |---|---|---|
# | 0 | `<PAD>` | padding: fills a short row |
# | 1, 2 | `<BOS>`, `<EOS>` | beginning and end of sequence: of a patient |
# | 3, 4 | `<v>`, `<\v>` | a visit begins, a visit ends |
# | 5 | `<END>` | not used; the trap below says why it stays |
# | 6 | `<mask>` | something is hidden here (lesson 09) |
#
# `<v>` and `<\v>` are the
# [visit markers](../course/book/glossary.md). In Python, write the second
# as `"<\\v>"`, because `"\v"` is a vertical tab.

# %%
first, last = 7, len(tokenizer) - 1
print(first, tokenizer.id_to_token(first))
print(last, tokenizer.id_to_token(last))
print(tokenizer.code_to_id("4280"), "is the id of 4280")


# %% [markdown]
# An index counts codes from 0, an id counts tokens from 0. Mixing them up
# usually raises no error, because nearly every id is also the index of
# some other code.
#
# ### 07.1 The token id of a code
#
# Try It Yourself · ★ · 4 minutes
#
# `vocabulary` is a list of codes in the order in which they get their
# ids. Return the token id of `code`. The vocabulary need not be sorted.
#
# Example: `token_id("4280", ["25000", "4280", "0389"])` is `8`.

# %% tags=["exercise:07.1", "nbval-ignore-output"]
def token_id(code: str, vocabulary: list[str]) -> int:
    raise NotImplementedError("07.1: replace this line")


check("07.1", token_id)

# %% [markdown]
# ### A trap: one more special token
#
# Suppose you need an eighth special token, for unknown codes. The obvious
# way is to put it after the seventh and move the codes up in the tokenizer.
# Nothing complains. But a model has learned one vector for each *number*, in a
# table that PyTorch calls `nn.Embedding`, and the vectors stay where they are.

# %%
place = tokenizer.codes.index("42833")
boxes, arrows, words = {}, [], {}
for x, i in enumerate(range(place - 2, place + 4)):
    row, before, now = f"row {7 + i}", f"before {i}", f"now {i - 1}"
    boxes[before], boxes[row] = (x, 0, "code"), (x, 1, "encoder")
    boxes[now] = (x, 2, "trap")
    words[before] = icd9.dotted(tokenizer.codes[i])
    words[now] = icd9.dotted(tokenizer.codes[i - 1])
    arrows += [(before, row), (now, row)]
for name in (f"before {place}", f"now {place}"):
    boxes[name] = (*boxes[name][:2], "special")
draw_flow(
    boxes, arrows,
    "Which vector does a code read after one more special token?",
    "Green: 428.33. Dashed: the vector that it reads",
    words=words, rows=["codes before", "saved vectors", "codes now"],
    dashed=[(f"before {place}", f"row {7 + place}"),
            (f"now {place}", f"row {8 + place}")],
)  # fmt: skip

# %% [markdown]
# 428.33, acute on chronic diastolic heart failure, is now read as 431, intracerebral
# hemorrhage. Every code moves, not this one alone:

# %% tags=["claim:2", "hide-input"]
# which vector each code would read
vocabulary = tokenizer.codes
row_today = {code: 7 + i for i, code in enumerate(vocabulary)}
row_tomorrow = {code: 8 + i for i, code in enumerate(vocabulary)}
owner = {row: code for code, row in row_today.items()}

readers = [owner.get(row_tomorrow[code]) for code in vocabulary]
past_the_end = readers.count(None)
print(f"{len(vocabulary) - past_the_end} of {len(vocabulary)} codes read"
      f" another's vector, {past_the_end} reads past the table's end")
assert past_the_end == 1
assert SEED or readers[vocabulary.index("42833")] == "431"
assert all(reads != code for reads, code in zip(readers, vocabulary))

# %% [markdown]
# Only the last code would raise an error. Ids are part of a trained model:
# keep even unused ones, such as that of `<END>`, and save the tokenizer
# with the model. A new special token goes *after* the last code. Then no id
# moves. The table of vectors gets one more row, and `decode` must know that
# this one id past the codes is special.

# %% [markdown]
# ## A patient is one row of numbers
#
# A visit is its codes between `<v>` and `<\v>`. Their order is kept: the
# first is the main reason for the stay, and the rest follow roughly by
# importance. A patient is `<BOS>`, then the visits in time order, then
# `<EOS>`. Age and sex are not in the row: lesson 12 gives them to a model
# in another way.

# %%
patient = next(
    r for r in train
    if len(r.visits) == 2 and 4 < len(r.codes) < 7 and r.age > 50
)
ids = tokenizer.encode(patient)
tokens = [tokenizer.id_to_token(i) for i in ids]
tokens = [t if t.startswith("<") else icd9.dotted(t) for t in tokens]
first, second = (i for i, token in enumerate(tokens) if token == "<v>")
visits = [None] * (len(ids) - 1)  # None: what begins before goes on
visits[first], visits[second] = "visit 1", "visit 2"
for code in dict.fromkeys(patient.codes):
    print(icd9.dotted(code), icd9.title(code))
draw_strips(
    {"the visits": visits, f"{len(ids)} tokens": tokens},
    f"Two visits with {len(patient.codes)} codes are one row of tokens",
    fills={"the visits": ["paper"] * len(visits)},
    under={f"{len(ids)} tokens": {"their ids": ids}},
    key={"special": "special token", "code": "code"},
)


# %% [markdown]
# The row keeps the order of the visits, but not the time between them: a week and ten
# years look the same. And it holds diagnoses only, no drugs, procedures or laboratory
# values. These are limits of every patient model in this course.
#
# ### 07.2 Encode a patient
#
# Try It Yourself · ★ · 3 minutes
#
# `visits` is a list of visits, each a list of codes. Two visits may have the same
# codes, and a code may occur twice in a visit. `code_ids` is a dictionary from code
# to token id; its ids may have gaps. Return the whole patient as one list of token
# ids.
#
# Example: with `code_ids = {"25000": 8, "4280": 10}` the patient
# `[["4280", "25000"], ["4280"]]` is `[1, 3, 10, 8, 4, 3, 10, 4, 2]`.

# %% tags=["exercise:07.2", "nbval-ignore-output"]
def encode_patient(
    visits: list[list[str]], code_ids: dict[str, int]
) -> list[int]:
    raise NotImplementedError("07.2: replace this line")


check("07.2", encode_patient)

# %% [markdown]
# ### And back again
#
# The ids that a model writes are less tidy than yours: a visit may be
# empty, and padding may follow `<EOS>`.

# %%
written = [1, 3, first, 4, 3, 4, 3, last, 4, 2, 0, 0]
tokenizer.decode(written)

# %% tags=["hide-input"]
# check: decoding undoes encoding for every training patient
for record in train:
    visits = [list(visit.codes) for visit in record.visits]
    assert tokenizer.decode(tokenizer.encode(record)) == visits


# %% [markdown]
# ### 07.3 Decode to a list of visits
#
# Try It Yourself · ★★ · 8 minutes
#
# `ids` is a list of token ids that contains `<EOS>`; ignore anything after
# it. `vocabulary` is the list of codes, the first of which has id 7.
# Return a list of visits, each a list of codes: what stands between a `<v>`
# and the next `<\v>`. Keep empty visits. Skip every other special token,
# `<mask>` too.
#
# Example: with `vocabulary = ["0389", "25000"]` the ids
# `[1, 3, 8, 4, 3, 4, 2]` give `[["25000"], []]`.

# %% tags=["exercise:07.3", "nbval-ignore-output"]
def decode(ids: list[int], vocabulary: list[str]) -> list[list[str]]:
    raise NotImplementedError("07.3: replace this line")


check("07.3", decode)

# %% [markdown]
# ## Many patients at once
#
# A model reads several patients at once, as a
# [batch](../course/book/glossary.md): a rectangle of numbers with one row
# for each patient. Short rows are filled up on the right with `<PAD>`; that
# is [padding](../course/book/glossary.md). A second rectangle, the
# [attention mask](../course/book/glossary.md), tells the model which
# places hold a token (1) and which are only padding (0).

# %%
batch = [tokenizer.encode(r) for r in train if len(r.codes) < 9][:4]
longest = max(map(len, batch))
n_empty = longest * len(batch) - sum(map(len, batch))
rows, fills, beside = {}, {}, {}
for number, ids in enumerate(batch, 1):
    n_pads = longest - len(ids)
    name = f"patient {number}" + "\ninput_ids" * (number == 1)
    beside[name] = f"{len(ids)} tokens"
    rows[name] = [str(i) for i in ids + [0] * n_pads]
    fills[name] = ["special" if i < 7 else "code" for i in ids]
    fills[name] += ["quiet"] * n_pads
for number, ids in enumerate(batch, 1):
    n_pads = longest - len(ids)
    name = f"mask {number}" + "\nattention_mask" * (number == 1)
    rows[name] = ["1"] * len(ids) + ["0"] * n_pads
    fills[name] = ["encoder"] * len(ids) + ["quiet"] * n_pads

# %%
draw_strips(
    rows,
    f"{len(batch)} patients become {len(batch)} × {longest} numbers",
    f"{n_empty} of {longest * len(batch)} places are padding",
    fills=fills, notes=beside,
    key={"special": "special token", "code": "code",
         "encoder": "a token is here", "quiet": "padding"},
)  # fmt: skip

# %% [markdown]
# In a larger batch it is worse: there is nearly always one long patient.
# Lesson 10 gets rid of most of this waste.

# %%
n_tokens = [len(tokenizer.encode(r)) for r in train]
rows = n_tokens[:32]
filling = 1 - sum(rows) / (max(rows) * len(rows))
print(f"shortest {min(n_tokens)}, longest {max(n_tokens)} tokens")
print(f"a batch of the first 32 patients: {filling:.0%} is padding")

# %% tags=["hide-input"]
# check: the larger batch wastes more
short = 1 - sum(map(len, batch)) / (max(map(len, batch)) * len(batch))
assert filling > max(0.2, short)


# %% [markdown]
# ### 07.4 Pad a batch and build the attention mask
#
# Try It Yourself · ★★ · 8 minutes
#
# `sequences` is a list of lists of token ids. Return two tensors, both of
# shape `(batch, longest)`: `input_ids`, integers, padded on the right
# with `<PAD>`, and `attention_mask`, 1 on real tokens and 0 on padding.
#
# Example: `pad_batch([[1, 2], [1, 3, 4, 2]])` gives
# `tensor([[1, 2, 0, 0], [1, 3, 4, 2]])` and
# `tensor([[1, 1, 0, 0], [1, 1, 1, 1]])`.

# %% tags=["exercise:07.4", "nbval-ignore-output"]
def pad_batch(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("07.4: replace this line")


check("07.4", pad_batch)

# %% [markdown]
# ## What atoms save, and what they cost
#
# A model's work grows with the number of tokens. Here are the adults with twelve
# codes, written both ways. Move the slider to the right, from the patient whose codes
# break the most to the one whose codes break the least: the strip of pieces, with a
# gap where a code begins, shrinks, and that of tokens does not change.

# %% tags=["hide-input"]
# adults with twelve codes, those whose codes break the most first
# no suicide, assault or poisoning among patients to leaf through
left_out = ("V6284", "E95", "E96", "96", "97", "98")
some = [
    r for r in train
    if len(r.codes) == 12 and r.age >= 18
    and not any(code.startswith(left_out) for code in r.codes)
]
patients = sorted(some, key=lambda r: -sum(map(lengths.get, r.codes)))

# %% tags=["widget"]
token_explorer(patients, tokenizer, fair)

# %% [markdown]
# Now count them for the validation patients, which no tokenizer has seen, with the
# same special tokens each time.

# %% tags=["hide-input"]
# count the tokens of the validation patients, written in three ways
visits = [visit for r in validation for visit in r.visits]
markers = 2 * len(validation) + 2 * len(visits)
as_codes = markers + sum(len(visit.codes) for visit in visits)
print(f"one token per code: {as_codes:,}")
texts = [" ".join(map(icd9.dotted, visit.codes)) for visit in visits]


def n_tokens_with(text_tokenizer):
    pieces = sum(len(text_tokenizer.pieces(text)) for text in texts)
    return markers + pieces


as_text = {
    "fair": n_tokens_with(fair),
    "note_tokenizer": n_tokens_with(note_tokenizer),
}
for name, n in as_text.items():
    print(f"{name}: {n:,}, {n / as_codes:.1f} times as many")

# %% [markdown]
# Atoms have their price, too. That 427.31 and 427.41 are relatives is written
# in their digits, but two tokens are two numbers: a model must find it out
# from the patients, and a rare code has few. And some codes have no token at
# all:

# %%
of_validation = [code for r in validation for code in r.codes]
unknown = [code for code in of_validation if code not in tokenizer]
print(f"{len(unknown)} of {len(of_validation)} codes have no token")

# %% tags=["hide-input"]
# check: what the two text tokenizers cost, and how many codes are unknown
assert 1.3 * as_codes < as_text["fair"] < 2 * as_codes
assert as_text["note_tokenizer"] > 3 * as_codes
assert n_tokens_with(helped) < 1.05 * as_codes  # all codes are pieces
assert len(unknown) < 0.1 * len(of_validation)

# %% [markdown]
# A code that occurs in no training record has no token, whereas pieces could
# have spelled it. Lesson 08 decides what to do about such codes.

# %% [markdown]
# ### Going further: how does a text tokenizer cut a word?
#
# It compares all ways at once, in one pass. Exercise 07.5 (★★★) is in here.

# %% [markdown]
# Codes are atoms, but the notes of doctors are text, and most text models that you
# can download read it in pieces. Sooner or later you will wonder why one of them
# has cut the name of a drug as it did. Take the word *toxic*. `note_tokenizer` has
# no piece for the whole word, but it could cut it in nine ways. Guess which one it
# chooses.
#
# `note_tokenizer` is a [unigram language model](../course/book/glossary.md): each
# piece has a probability that does not depend on what stands before it, roughly its
# share of all the pieces in the training texts. So the probability of a text is the
# product of those of its pieces:
#
# $$P(x_1, \dots, x_n) = \prod_{i=1}^{n} p(x_i), \qquad
# \log P = \sum_{i=1}^{n} \log p(x_i)$$
#
# A [segmentation](../course/book/glossary.md) is one way of cutting a text into
# pieces, and the tokenizer looks for the most probable one. Here is every piece
# that it could use for *toxic*, in a [lattice](../course/book/glossary.md):

# %%
scores = note_tokenizer.scores()  # piece -> log-probability
word = note_tokenizer.normalize("toxic")
draw_lattice(word, scores, note_tokenizer.pieces("toxic"))


# %% [markdown]
# Read it from left to right. A node sits between two letters, and a line
# is a piece. Each path from the first node to the last is a segmentation,
# and its log-probability is the sum along the path.
#
# You might take the longest piece that fits, again and again. That is the
# dashed path, and its sum is lower. So you have to compare whole paths. A word has
# few, but a note has more than any computer can list:

# %% tags=["hide-input"]
# count the paths through the lattices of three texts
def n_segmentations(text):
    paths = [1] + [0] * len(text)
    for end in range(1, len(text) + 1):
        for start in range(end):
            paths[end] += paths[start] * (text[start:end] in scores)
    return paths[-1]


def all_segmentations(text):
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in scores:
            for rest in all_segmentations(text[end:]):
                yield [text[:end], *rest]


def longest_first(text):
    if not text:
        return []
    piece = max((p for p in scores if text.startswith(p)), key=len)
    return [piece, *longest_first(text[len(piece) :])]


def total(pieces):
    return math.fsum(scores[piece] for piece in pieces)


three = {name: name for name in ("toxic", "chronic kidney disease")}
three["the first note"] = notes[0]
for name, text in three.items():
    n_paths = n_segmentations(note_tokenizer.normalize(text))
    shown = f"{n_paths:,}" if n_paths < 1e6 else f"{n_paths:.0e}"
    print(f"{name}: {shown} segmentations")
assert n_paths > 1e12
every = list(all_segmentations(word))
assert len(every) == n_segmentations(word)
assert max(every, key=total) == note_tokenizer.pieces("toxic")
assert total(longest_first(word)) < total(note_tokenizer.pieces("toxic"))

# %% [markdown]
# The numbers under the nodes help: each is the best sum of any path that
# leads there. The best path to a node ends in some last piece, and what
# comes before that piece is the best path to an earlier node. So the
# [Viterbi algorithm](../course/book/glossary.md) needs one pass, from left
# to right:
#
# $$\text{best}(e) = \max_{s} \; \text{best}(s) +
# \log p(\text{text}[s{:}e]), \qquad \text{best}(0) = 0,$$
#
# where $s$ runs over those places for which $\text{text}[s{:}e]$ is a
# piece of the vocabulary. Remember for each node which $s$ won: from the
# last node, these winners lead back to the first, and that route is the best
# path.
#
# Why logarithms? Multiply the probabilities of the longest note instead:

# %%
long_note = max(notes, key=len)
long_scores = [scores[piece] for piece in note_tokenizer.pieces(long_note)]
product = math.prod(math.exp(score) for score in long_scores)
print(f"{len(long_scores)} pieces")
print("product of probabilities:", product)
print(f"sum of logarithms: {sum(long_scores):.0f}")

# %% tags=["hide-input"]
# check: the product is 0, the sum is not; a probability is a share
assert product == 0.0 and math.isfinite(sum(long_scores))
used = Counter(p for note in notes for p in note_tokenizer.pieces(note))
off = [
    abs(math.log(n / used.total()) - scores[piece])
    for piece, n in used.items()
    if n > 20
]
assert sum(error < 0.2 for error in off) > 0.8 * len(off)


# %% [markdown]
# The product is smaller than the smallest float, and so is the product for
# every other segmentation. Nothing is left to compare.
#
# #### 07.5 The best segmentation by Viterbi
#
# Try It Yourself · ★★★ · 15 minutes
#
# `text` is a string, and `scores` a dictionary from piece to
# log-probability. Return the list of pieces whose scores have the largest
# sum. Every letter of the text is a piece, so there is always an answer.
# Trying every segmentation solves the same remaining text over and
# over, and takes too long: the check stops your function after 20 seconds.
#
# Example: with `scores = {"a": -2, "b": -2, "c": -9, "ab": -3, "bc": -4}`
# the best segmentation of `"abc"` is `["a", "bc"]`: its sum is -6, and
# that of `["ab", "c"]` is -12.

# %% tags=["exercise:07.5", "nbval-ignore-output"]
def segment(text: str, scores: dict[str, float]) -> list[str]:
    raise NotImplementedError("07.5: replace this line")


check("07.5", segment)


# %% [markdown]
# Once you have solved it, try it on a whole note in a new cell:
# `segment(note_tokenizer.normalize(notes[0]), scores)` gives what
# `note_tokenizer.pieces(notes[0])` gives. In lesson 17 each probability
# depends on what stands before it, and one pass no longer finds the best.

# %% [markdown]
# ### Going further: can a rule keep a text model from inventing codes?
#
# Suppose you have to use a text model that somebody else has trained. Its pieces
# come with it, and so do its invented codes, unless a rule runs while it writes.
# Exercise 07.6 (★★★), which uses the lattice of the part before, is in here.

# %% [markdown]
# At each step, allow only pieces that fit what comes next in some code:

# %%
def fitting(written, codes, pieces):
    rests = [c[len(written) :] for c in codes if c.startswith(written)]
    fit = {p for p in pieces if any(rest.startswith(p) for rest in rests)}
    return fit | ({""} if "" in rests else set())  # "": the model may stop


# %% tags=["hide-input"]
# two thousand codes under a rule, with all pieces and without the 9
spelled = sorted("".join(pieces) for pieces in pieces_of.values())
all_pieces = sorted({p for cut in pieces_of.values() for p in cut})
without_9 = [piece for piece in all_pieces if piece != "9"]


def written_under(rule, pieces, n=2_000):
    follows, rng = defaultdict(Counter), random.Random(SEED)
    for code in times.elements():
        if {*pieces_of[code]} <= {*pieces}:
            row = ["begin", *pieces_of[code], ""]
            for one, other in zip(row, row[1:]):
                follows[one][other] += 1
    allowed = cache(lambda text: sorted(rule(text, spelled, pieces)))
    texts = []
    for _ in range(n):
        row = ["begin"]
        while row[-1] != "" and (may := allowed("".join(row[1:]))):
            weights = [follows[row[-1]][piece] for piece in may]
            # Where none of them has been seen, all are equally likely.
            row += rng.choices(may, weights if any(weights) else None)
        texts.append(row[1:])
    return texts


def wrong_under(rule, pieces):
    texts = written_under(rule, pieces)
    return ["".join(pieces) for pieces in texts if not exists(pieces)]


print("under fitting:",
      f"{len(wrong_under(fitting, all_pieces))} of 2,000 do not exist")
stuck = wrong_under(fitting, without_9)
assert not wrong_under(fitting, all_pieces)
assert 0 < len(stuck) < 60

# %% [markdown]
# With every character among the pieces, one always fits, and `fitting` is enough.
# But it looks at the next step alone, and such a rule can run into a dead end.
# Suppose there were no piece "9", but ▁44, 3, 3.9 and the dot. After ▁44 the model
# may write 3, since 443.9 goes on with it, then the dot, and then nothing fits: a
# dead end. The piece 3.9 would have arrived:

# %%
draw_strips(
    {
        "the code": [*"▁443.9"],
        "one way": ["▁44", None, None, "3.9", None, None],
        "another": ["▁44", None, None, "3", ".", ""],
    },
    "Which pieces can go on after ▁44?",
    "Dashed: no piece fits there",
    fills={"another": ["code"] * 3 + ["trap", "trap", "paper"]},
    notes={"one way": "arrives", "another": "a dead end"},
)


# %% [markdown]
# So look ahead. Take each code that begins with what is written: a piece may come
# next if, in the lattice of the rest of one of these codes, it starts a path to
# the last node.
#
# #### 07.6 Pieces that can still become a code
#
# Try It Yourself · ★★★ · 15 minutes
#
# `written` is what the model has written of one code so far. `codes`
# lists the codes that exist, and `pieces` all pieces that the model has.
# Return the set of the pieces that may come next: those after which the
# model can still arrive at a code of the list. Where what is written is
# already a code, the model may also stop; put `""` into the set for that.
# If nothing can follow, the set is empty.
#
# Example: with `codes = ["493", "493.2", "428.0"]` and
# `pieces = ["4", "93", "28", ".2", ".0"]`, after `"493"` the answer is
# `{"", ".2"}`.

# %% tags=["exercise:07.6", "nbval-ignore-output"]
def next_pieces(
    written: str, codes: list[str], pieces: list[str]
) -> set[str]:
    raise NotImplementedError("07.6: replace this line")


check("07.6", next_pieces)

# %% tags=["hide-input"]
# two thousand codes under your function, without the piece 9
if examine("07.6", next_pieces).outcome.is_solved:
    n_wrong = len(wrong_under(next_pieces, without_9))
    print(f"under your function, without the 9: {n_wrong} do not exist")
    assert n_wrong == 0
else:
    print("under your function, without the 9: to see it, solve 07.6")

# %% [markdown]
# ## Recap
#
# - **One token for each code**: then a model has no spelling to learn, and needs no
#   rule to write only codes that exist. A text tokenizer, trained in the usual way,
#   breaks rare codes into pieces.
# - **The token id of a code** is its index in the vocabulary plus seven.
# - **A moved offset** makes nearly every code read another code's vector, without an
#   error.
# - **A patient** is `<BOS>`, then `<v>` codes `<\v>` for each visit, then
#   `<EOS>`. In decoding, a special token is never looked up as a code.
# - **A batch** is filled up with zeros on the right, and its mask is 0 there.
#
# ## Test yourself
#
# 1. A vocabulary has 581 codes. What is the largest token id?
#
# <details><summary>Answer</summary>
# 587. There are 588 tokens, seven special ones and 581 codes, and their
# ids start at 0.
# </details>
#
# 2. A colleague decodes with <code>vocabulary[id - 7]</code> for every
#    token and gets a plausible code at the start of every visit. Where
#    does it come from?
#
# <details><summary>Answer</summary>
# From the end of the vocabulary. The id of &lt;v&gt; is 3, and 3 - 7 is
# -4: the fourth code from the end.
# </details>
#
# 3. Two patients have 5 and 9 tokens. Which shape has their batch, and how many ones
#    has its attention mask?
#
# <details><summary>Answer</summary>
# (2, 9): the short row gets four padding tokens. The mask has 14 ones, one for each
# token.
# </details>
#
# ## What comes next
#
# You can now turn the visits of any patient whose codes are in the
# vocabulary into numbers and back. Try it with codes
# of your own, in upper case and without dots: `CodeTokenizer(codes)` takes
# a list of them, and its `code_to_id` gives their ids.
#
# The patients of this lesson came ready-made. A hospital has tables, with
# dates, duplicates and mistakes in them.
# [Lesson 08](08_data_loading.ipynb) turns such tables into patients.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#07-tokenization)
# says which of its claims hold.
