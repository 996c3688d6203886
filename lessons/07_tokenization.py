# %% [markdown]
# # 07 · Tokenization
#
# 75 minutes · Prerequisites: 00
#
# You will be able to:
#
# - Compute the token id of a code from a vocabulary and its seven special
#   tokens.
# - Encode a patient as one sequence of token ids, visit by visit, and
#   decode it again.
# - Pad a batch of unequal sequences and build its attention mask.
# - Count the pieces into which a subword model breaks a code, and say why.
# - Compute the best segmentation of a word under a unigram language model.
# - Show what a moved offset does to saved token ids.

# %% [markdown]
# ## Why not simply write the record down as text?
#
# A language model reads text. A health record can be written as text:
# `428.0`, `427.31`, `250.00`. So why build a tokenizer for codes at all?
# Every language model brings one for text.
#
# Let us try. You train a text tokenizer on clinical sentences, hand it a
# patient's codes, and count what comes out. (The lesson follows a
# chapter of a tutorial, and corrects it where it does not hold. You do
# not need the tutorial.)

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import math
from collections import Counter

import torch
from torch import Tensor
from transformers import BartConfig

from ehr_course import icd9
from ehr_course.exercises import check, hint, progress
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.widgets.tokens import token_explorer

# %% [markdown]
# The patients come from the embedded hospital: synthetic people with
# real ICD-9-CM codes. Lesson 08 shows how to load real ones. A tokenizer
# learns from the training split alone.

# %%
n_patients = {"tiny": 1_000, "small": 5_000, "full": 46_520}[PROFILE]
cohort = make_cohort(n_patients, seed=SEED)
train, validation, test = split_by_patient(cohort, seed=SEED)
len(train), len(validation), len(test)


# %% [markdown]
# Each visit becomes a sentence that a doctor might write. The text
# tokenizer learns its pieces from these sentences. It is SentencePiece's
# unigram model; the second half of this lesson opens it. A `▁` in a
# piece stands for the space before a word.

# %%
def write_note(record, visit):
    person = "woman" if record.sex == "F" else "man"
    titles = [icd9.title(code).lower() for code in visit.codes]
    problems = "; ".join(titles)
    return f"{record.age} year old {person} with {problems}."


notes = [write_note(r, visit) for r in train for visit in r.visits]
note_tokenizer = NoteTokenizer.train(
    notes, vocab_size=800, character_coverage=1.0
)
print(notes[0][:75])
print(note_tokenizer.pieces("chronic hypertension"))
print(note_tokenizer.pieces("acute hypotension"))

# %% [markdown]
# Many common words are one piece. Others are several, and some of those
# still say something: `▁hypo` is Greek for "under". Now the codes.

# %%
codes = sorted({code for r in train for code in r.codes})
shattered = {
    code: note_tokenizer.pieces(icd9.dotted(code)) for code in codes
}
for code in ("4280", "42731", "25000", "V3001"):
    print(f"{icd9.dotted(code):>7}  {shattered[code]}")

words = [word for note in notes for word in note.split()]
per_word = sum(len(note_tokenizer.pieces(w)) for w in words) / len(words)
per_code = sum(map(len, shattered.values())) / len(codes)
print(f"{per_word:.1f} pieces a word, {per_code:.1f} pieces a code")
assert per_code > 2 * per_word

# %% [markdown]
# Every code falls into several pieces. That was no fair test: the notes
# hold no codes, so the tokenizer never met one. Train another on notes
# that do.

# %%
with_codes = [
    f"{write_note(r, visit)} {' '.join(map(icd9.dotted, visit.codes))}"
    for r in train
    for visit in r.visits
]
fair = NoteTokenizer.train(
    with_codes, vocab_size=800, character_coverage=1.0
)
lengths = {code: len(fair.pieces(icd9.dotted(code))) for code in codes}
whole = sum(length == 1 for length in lengths.values())
mean = sum(lengths.values()) / len(codes)
print(f"{mean:.1f} pieces a code; {whole} of {len(codes)} codes are whole")
for code in ("4280", "V3001", max(lengths, key=lengths.get)):
    print(f"{icd9.dotted(code):>7}  {fair.pieces(icd9.dotted(code))}")
assert 0 < whole < len(codes) and mean < per_code

# %%
times = Counter(code for r in train for code in r.codes)
ranking = [lengths[code] for code, _ in times.most_common()]
print(f"the 50 most common codes: {sum(ranking[:50]) / 50:.1f} pieces")
print(f"the 50 rarest codes:      {sum(ranking[-50:]) / 50:.1f} pieces")
assert 2 * sum(ranking[:50]) < sum(ranking[-50:])

# %% [markdown]
# Better, and still not good. The common codes have become one piece, the
# rare ones stay broken: how long a code is now depends on how common it
# is. And a model that writes pieces can join them to codes that do not
# exist.
#
# What does a piece of a broken code mean? Take those of 428.0, heart
# failure, and ask in how many of ICD-9's chapters each occurs.

# %%
for piece in shattered["4280"]:
    having = [code for code in codes if piece in shattered[code]]
    chapters = {icd9.chapter(code).number for code in having}
    print(f"{piece:>3}  {len(having):3} codes, {len(chapters):2} chapters")
    if piece.isdigit():
        assert len(chapters) > 5

# %% [markdown]
# The first piece narrows the chapter down. What a later digit means
# depends on everything before it: the same digit stands in heart disease,
# in injuries and in diseases of the newborn. A model that reads digits
# must learn to spell before it can learn medicine. So: **codes are
# atoms**. One code, one token. Notes are not: no list of all words
# exists, and pieces are what makes an unknown word readable. This lesson
# builds a tokenizer for each.

# %% [markdown]
# ## Codes are atoms
#
# To a model, a token is a number. The course numbers them like this: seven
# *special tokens* first, then the codes.
#
# | id | token | meaning |
# |---|---|---|
# | 0 | `<PAD>` | fills a short row of a batch |
# | 1 | `<BOS>` | a patient begins |
# | 2 | `<EOS>` | the patient ends |
# | 3 | `<v>` | a visit begins |
# | 4 | `<\v>` | the visit ends |
# | 5 | `<END>` | kept from the tutorial, not used |
# | 6 | `<mask>` | something is hidden here (chapter 09) |
# | 7 ... | | the codes of the vocabulary, in sorted order |
#
# The backslash in `<\v>` is the tutorial's. In Python write `"<\\v>"`, for
# `"\v"` is a vertical tab.

# %%
tokenizer = CodeTokenizer.from_records(train)
first, last = 7, len(tokenizer) - 1
print(f"{len(tokenizer)} tokens = 7 special + {len(tokenizer) - 7} codes")
print(first, tokenizer.id_to_token(first))
print(last, tokenizer.id_to_token(last))
assert tokenizer.code_to_id(tokenizer.id_to_token(last)) == last


# %% [markdown]
# A vocabulary index counts codes from 0. A token id counts tokens from
# 0. The two differ by the seven special tokens, and mixing them up
# raises no error: every index is also a valid id of something else.
#
# ### 07.1 The token id of a code
#
# Try It Yourself · ★ · 4 minutes
#
# `vocabulary` is a list of codes in the order in which they get their
# ids. Return the token id of `code`. The vocabulary need not be sorted.
#
# Example: `token_id("4280", ["25000", "4280", "0389"])` is `8`.
#
# Run `hint("07.1")` in a new cell if you are stuck.

# %% tags=["exercise:07.1", "nbval-ignore-output"]
def token_id(code: str, vocabulary: list[str]) -> int:
    raise NotImplementedError("07.1: replace this line")


check("07.1", token_id)

# %% [markdown]
# ### Do these ids match BART's?
#
# The course's models are BART models. The tutorial says that ids 0 to 2
# "match BART conventions". The configuration of the published BART
# answers that.

# %% tags=["claim:1"]
bart = BartConfig()
ours = {"bos": 1, "pad": 0, "eos": 2, "mask": 6}
barts = {
    "bos": bart.bos_token_id,
    "pad": bart.pad_token_id,
    "eos": bart.eos_token_id,
    "mask": bart.vocab_size - 1,  # the last of the published vocabulary
}
for name in ours:
    print(f"{name:>5}  ours {ours[name]}  BART {barts[name]}")
agree = [name for name in ours if ours[name] == barts[name]]
assert agree == ["eos"]

# %% [markdown]
# Only `<EOS>` agrees. Whoever builds a BART with this vocabulary must
# set the other ids in its configuration: with BART's defaults, our
# `<BOS>` (1) is its padding, whose vector is never trained.

# %% [markdown]
# ### May special tokens be added later?
#
# The tutorial calls the offset "future-proof": add a special token, and
# the codes simply move up. They do. But a trained model has learned one
# vector for each *number*. Here is a table of vectors for today's ids.
# Tomorrow an eighth special token arrives. Which vector does each code
# now read?

# %% tags=["claim:2"]
codes_today = [tokenizer.id_to_token(i) for i in range(7, len(tokenizer))]
row_today = {code: 7 + i for i, code in enumerate(codes_today)}
row_tomorrow = {code: 8 + i for i, code in enumerate(codes_today)}
owner = {row: code for code, row in row_today.items()}

for code in ("4280", "42731"):
    reads = owner[row_tomorrow[code]]
    print(f"{icd9.dotted(code)} reads the vector trained for {reads}:"
          f" {icd9.title(reads)}")
readers = [owner.get(row_tomorrow[code]) for code in codes_today]
past_the_end = readers.count(None)
print(f"{len(codes_today) - past_the_end} of {len(codes_today)} codes"
      f" read another's vector, {past_the_end} reads past the end")
assert past_the_end == 1
assert all(r != code for r, code in zip(readers, codes_today))

# %% [markdown]
# Every code reads its neighbour's vector, and only the last, past the end
# of the table, would raise. Ids are part of a trained model: choose them
# once, and save the tokenizer with the model. If you need an eighth
# special token, append it after the last code: then no id moves.

# %% [markdown]
# ## A visit, a patient
#
# A visit is its codes between `<v>` and `<\v>`. Their order is kept: the
# first is the main reason for the admission, and the rest follow roughly
# by importance. A patient is `<BOS>`, the visits in time order, `<EOS>`.

# %%
patient = next(r for r in train if len(r.visits) == 2 and len(r.codes) < 9)
ids = tokenizer.encode(patient)
print(ids)
print(" ".join(tokenizer.tokens(ids)))


# %% [markdown]
# ### 07.2 Encode a visit
#
# Try It Yourself · ★ · 4 minutes
#
# `codes` is a list of codes, of which one may stand there twice, and
# `code_ids` a dictionary from code to token id, perhaps with gaps. Return
# the visit as a list of token ids.
#
# Example: `encode_visit(["4280", "25000"], {"25000": 8, "4280": 10})` is
# `[3, 10, 8, 4]`.

# %% tags=["exercise:07.2", "nbval-ignore-output"]
def encode_visit(
    codes: list[str], code_ids: dict[str, int]
) -> list[int]:
    raise NotImplementedError("07.2: replace this line")


check("07.2", encode_visit)


# %% [markdown]
# ### 07.3 Encode a patient
#
# Try It Yourself · ★ · 5 minutes
#
# `visits` is a list of visits, each a list of codes; two visits may have
# the same codes. Return the whole patient as one list of token ids.
#
# Example: with `code_ids = {"25000": 8, "4280": 10}` the patient
# `[["4280", "25000"], ["4280"]]` is `[1, 3, 10, 8, 4, 3, 10, 4, 2]`.

# %% tags=["exercise:07.3", "nbval-ignore-output"]
def encode_patient(
    visits: list[list[str]], code_ids: dict[str, int]
) -> list[int]:
    raise NotImplementedError("07.3: replace this line")


check("07.3", encode_patient)

# %% [markdown]
# ### One convention, please
#
# The tutorial ends a sequence in `<END>` in one place and in `<EOS>` in
# others, and a second document about the same system numbers the special
# tokens differently. What does a reader with the second table make of
# your patient?

# %% tags=["claim:3"]
second_table = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>",
                4: "<v>", 5: "<\\v>"}
for number in (1, 3, 4, 2):
    print(f"{tokenizer.id_to_token(number):>6} is read as"
          f" {second_table[number]}")
assert second_table[3] == "<unk>" and second_table[4] == "<v>"

every_id = Counter(i for r in train for i in tokenizer.encode(r))
assert every_id[5] == 0
assert all(tokenizer.encode(r)[-1] == 2 for r in train)

# %% [markdown]
# The start of a patient turns into padding, every `<v>` becomes unknown,
# and the end of a visit becomes its beginning. The course keeps the
# seven ids of the tutorial, ends every patient in `<EOS>`, and never
# writes `<END>`: the last two lines check that on all training patients.

# %% [markdown]
# ## And back again
#
# A model generates token ids. To read them as a patient you go the other
# way. A generated sequence is not as tidy as an encoded one: a visit may
# be empty, and padding may follow `<EOS>`.

# %%
print(tokenizer.decode([1, 3, first, 4, 3, 4, 3, last, 4, 2, 0, 0]))
for record in train:
    visits = [list(visit.codes) for visit in record.visits]
    assert tokenizer.decode(tokenizer.encode(record)) == visits


# %% [markdown]
# ### 07.4 Decode to a list of visits
#
# Try It Yourself · ★★ · 8 minutes
#
# `ids` is a list of token ids that contains `<EOS>`; what stands behind
# it does not count. `vocabulary` is the list of codes, the first of which
# has id 7. Return a list of visits, each a list of codes. Keep empty
# visits. Pass over every other special token, `<mask>` too.
#
# Example: with `vocabulary = ["0389", "25000"]` the ids
# `[1, 3, 8, 4, 3, 4, 2]` give `[["25000"], []]`.

# %% tags=["exercise:07.4", "nbval-ignore-output"]
def decode(ids: list[int], vocabulary: list[str]) -> list[list[str]]:
    raise NotImplementedError("07.4: replace this line")


check("07.4", decode)

# %% [markdown]
# ## Many patients at once
#
# A model reads a *batch*: a rectangle of numbers, one row a patient. The
# rows have different lengths, so the short ones are filled with `<PAD>`
# on the right. A second rectangle, the *attention mask*, says which
# positions are real (1) and which are filling (0).

# %%
n_tokens = [len(tokenizer.encode(r)) for r in train]
batch = n_tokens[:32]
filling = 1 - sum(batch) / (max(batch) * len(batch))
print(f"shortest {min(n_tokens)}, longest {max(n_tokens)} tokens")
print(f"a batch of the first 32 patients: {filling:.0%} is padding")
assert filling > 0.2


# %% [markdown]
# ### 07.5 Pad a batch and build the attention mask
#
# Try It Yourself · ★★ · 8 minutes
#
# `sequences` is a list of lists of token ids. Return two tensors, both of
# shape `(batch, longest)`: `input_ids`, whole numbers, padded on the right
# with `<PAD>`, and `attention_mask`, 1 on real tokens and 0 on padding.
#
# Example: `pad_batch([[1, 2], [1, 3, 4, 2]])` gives
# `tensor([[1, 2, 0, 0], [1, 3, 4, 2]])` and
# `tensor([[1, 1, 0, 0], [1, 1, 1, 1]])`.

# %% tags=["exercise:07.5", "nbval-ignore-output"]
def pad_batch(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("07.5: replace this line")


check("07.5", pad_batch)

# %% [markdown]
# ## Notes are not atoms
#
# A note has words that no vocabulary foresaw: names of drugs, spelling
# mistakes, numbers. A *unigram language model* has a vocabulary of
# pieces, each with a probability, and can build any text from them:
#
# $$P(x_1, \dots, x_n) = \prod_{i=1}^{n} p(x_i), \qquad
# \log P = \sum_{i=1}^{n} \log p(x_i)$$
#
# One text has many segmentations. Here are the best of one word's.

# %%
scores = note_tokenizer.scores()  # piece -> log-probability


def all_segmentations(text):
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in scores:
            for rest in all_segmentations(text[end:]):
                yield [text[:end], *rest]


# %%
word = note_tokenizer.normalize("hypotensive")
ranked = sorted(
    (math.fsum(scores[piece] for piece in pieces), pieces)
    for pieces in all_segmentations(word)
)[::-1]
print(len(ranked), "segmentations")
for score, pieces in ranked[:3]:
    print(f"{score:8.2f}  {pieces}")
assert ranked[0][1] == note_tokenizer.pieces("hypotensive")

text = note_tokenizer.normalize("chronic kidney disease")
many = sum(1 for _ in all_segmentations(text))
print(f"and {many:,} of three words")
assert many > 1_000

# %% [markdown]
# SentencePiece gives the first of them. It did not list them all: their
# number grows exponentially with the length of the text. The *Viterbi
# algorithm* finds the best in one pass. The best segmentation of a text
# ends in some last piece, and what stands before it is the best
# segmentation of a shorter text. So keep, for every position, the best
# score up to there and where its last piece began:
#
# $$\text{best}(e) = \max_{s} \; \text{best}(s) +
# \log p(\text{text}[s{:}e]), \qquad \text{best}(0) = 0,$$
#
# where $s$ runs over those starts for which $\text{text}[s{:}e]$ is a
# piece of the vocabulary.
#
# Why logarithms? Multiply the probabilities of one long note instead:

# %%
long_note = " ".join(notes[:10])
long_scores = [scores[piece] for piece in note_tokenizer.pieces(long_note)]
product = math.prod(math.exp(score) for score in long_scores)
print(f"{len(long_scores)} pieces")
print("product of probabilities:", product)
print("finite sum of logarithms:", math.isfinite(sum(long_scores)))
assert product == 0.0


# %% [markdown]
# The product is smaller than the smallest float, so it is exactly 0, and
# so is the product of every other segmentation.
#
# ### 07.6 The best segmentation by Viterbi
#
# Try It Yourself · ★★★ · 15 minutes
#
# `text` is a string, and `scores` a dictionary from piece to
# log-probability. Return the list of pieces whose scores have the largest
# sum. Every letter of the text is a piece, so there is always an answer.
# Trying every segmentation takes too long: a check stops your function
# after 20 seconds.
#
# Example: with `scores = {"a": -2, "b": -2, "c": -9, "ab": -3, "bc": -4}`
# the best segmentation of `"abc"` is `["a", "bc"]`: its sum is -6, and
# that of `["ab", "c"]` is -12.

# %% tags=["exercise:07.6", "nbval-ignore-output"]
def segment(text: str, scores: dict[str, float]) -> list[str]:
    raise NotImplementedError("07.6: replace this line")


check("07.6", segment)

# %% [markdown]
# When your answer is solved, try it on a whole note in a new cell:
# `segment(note_tokenizer.normalize(notes[0]), scores)` gives what
# `note_tokenizer.pieces(notes[0])` gives.

# %% [markdown]
# ## See it
#
# The explorer draws one patient twice: above as codes, below through the
# first subword model, without their dots. Move the slider to another
# patient. Count the boxes of one code, and ask what each of them says.

# %% tags=["widget"]
token_explorer(train[:30], tokenizer, note_tokenizer)

# %% [markdown]
# ## What this costs
#
# A model's work grows with the number of tokens. Count both ways over
# patients that neither tokenizer has seen. As codes, a patient takes one
# token a code, two markers a visit, `<BOS>` and `<EOS>`.

# %%
as_codes = sum(2 + 2 * len(r.visits) + len(r.codes) for r in validation)
as_text = sum(
    len(note_tokenizer.pieces(" ".join(map(icd9.dotted, visit.codes))))
    for r in validation
    for visit in r.visits
)
print(f"{as_codes:,} tokens as codes, {as_text:,} pieces as text")
print(f"{as_text / as_codes:.1f} times as many")
assert as_text > 1.5 * as_codes

# %% [markdown]
# ## Recap
#
# - **The token id of a code** is its index in the vocabulary plus seven.
# - **A patient** is `<BOS>`, then `<v>` codes `<\v>` for each visit, then
#   `<EOS>`. Going back, a special token is never looked up as a code.
# - **A batch** has zeros on the right; its mask is 1 where a token is
#   real.
# - **A subword model** breaks every code that it has not met often into
#   pieces of digits, which codes from unrelated chapters share.
# - **The best segmentation** comes from Viterbi: one pass, sums of
#   logarithms, and a walk back.
# - **A moved offset** makes every code read another code's vector,
#   without an error.
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
# 3. Why does a greedy longest match not always give the most likely
#    segmentation?
#
# <details><summary>Answer</summary>
# A long first piece can leave a rest that only unlikely pieces can
# cover. The sum over all pieces decides, and greed looks at one.
# </details>
#
# ## What comes next
#
# [Lesson 08](08_data_loading.ipynb) loads patients from MIMIC's own
# files and finds out how old they are. `progress()` shows where you
# stand; [lesson 00](00_start_here.ipynb) has the map of the course.
