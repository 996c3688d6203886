# %% [markdown]
# # 07 · Tokenization: worked answers
#
# One answer and one alternative for each exercise, with the reason.
# Compare them with your own after you have tried.

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

# %%
import math

import torch

from ehr_course.exercises import check


# %% [markdown]
# ## 07.1 The token id of a code
#
# The special tokens own the ids 0 to 6. A code's id is its place in the
# vocabulary, moved up by those seven.

# %% tags=["answer:07.1", "nbval-ignore-output"]
def token_id(code, vocabulary):
    return 7 + vocabulary.index(code)


check("07.1", token_id)


# %% [markdown]
# `list.index` searches the whole list on every call. A tokenizer builds
# the dictionary once and looks codes up in constant time.

# %% tags=["alternative:07.1", "nbval-ignore-output"]
def token_id(code, vocabulary):
    ids = {known: number for number, known in enumerate(vocabulary, 7)}
    return ids[code]


check("07.1", token_id)


# %% [markdown]
# ## 07.2 Encode a patient
#
# `<BOS>` and `<EOS>` belong to the patient and occur once. The visit
# markers belong to the visits and occur once for each.

# %% tags=["answer:07.2", "nbval-ignore-output"]
def encode_patient(visits, code_ids):
    ids = [1]
    for visit in visits:
        ids += [3]
        ids += [code_ids[code] for code in visit]
        ids += [4]
    ids += [2]
    return ids


check("07.2", encode_patient)


# %% [markdown]
# The alternative writes one visit with a function of its own.

# %% tags=["alternative:07.2", "nbval-ignore-output"]
def encode_patient(visits, code_ids):
    def visit_ids(visit):
        return [3, *map(code_ids.get, visit), 4]

    return [1, *(i for visit in visits for i in visit_ids(visit)), 2]


check("07.2", encode_patient)


# %% [markdown]
# ## 07.3 Decode to a list of visits
#
# Every `<v>` opens a new list, every code goes to the last one, `<EOS>`
# ends the record. All other special tokens are passed over: looking them
# up would give negative indices, which Python accepts.

# %% tags=["answer:07.3", "nbval-ignore-output"]
def decode(ids, vocabulary):
    visits = []
    for token in ids:
        if token == 2:
            break
        if token == 3:
            visits.append([])
        elif token >= 7:
            visits[-1].append(vocabulary[token - 7])
    return visits


check("07.3", decode)


# %% [markdown]
# The alternative collects a visit and files it when `<\v>` closes it.

# %% tags=["alternative:07.3", "nbval-ignore-output"]
def decode(ids, vocabulary):
    visits, visit = [], []
    for token in ids[: ids.index(2)]:
        if token >= 7:
            visit.append(vocabulary[token - 7])
        elif token == 4:
            visits.append(visit)
            visit = []
    return visits


check("07.3", decode)


# %% [markdown]
# ## 07.4 Pad a batch and build the attention mask
#
# Every row grows to the length of the longest. The mask says which
# tokens were there before.

# %% tags=["answer:07.4", "nbval-ignore-output"]
def pad_batch(sequences):
    longest = max(len(ids) for ids in sequences)
    rows, masks = [], []
    for ids in sequences:
        padding = longest - len(ids)
        rows.append(ids + [0] * padding)
        masks.append([1] * len(ids) + [0] * padding)
    return torch.tensor(rows), torch.tensor(masks)


check("07.4", pad_batch)


# %% [markdown]
# No real token has id 0, so the mask can be read off the padded ids. The
# alternative relies on that, and on PyTorch's own padding.

# %% tags=["alternative:07.4", "nbval-ignore-output"]
def pad_batch(sequences):
    rows = [torch.tensor(ids) for ids in sequences]
    input_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return input_ids, input_ids != 0


check("07.4", pad_batch)


# %% [markdown]
# ## 07.5 The best segmentation by Viterbi
#
# The best segmentation of a prefix ends in some last piece, and what
# comes before that piece is the best segmentation of a shorter prefix.
# So one pass from left to right finds the best score of every prefix,
# and the remembered starts lead back through the pieces. Sums of
# logarithms stay finite where products of probabilities reach zero.

# %% tags=["answer:07.5", "nbval-ignore-output"]
def segment(text, scores):
    best = [0.0] + [-math.inf] * len(text)
    start_of = [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for start in range(end):
            piece = text[start:end]
            if piece not in scores:
                continue
            score = best[start] + scores[piece]
            if score > best[end]:
                best[end] = score
                start_of[end] = start
    pieces, end = [], len(text)
    while end > 0:
        pieces.append(text[start_of[end] : end])
        end = start_of[end]
    return pieces[::-1]


check("07.5", segment)


# %% [markdown]
# The alternative runs from the right and needs no walk back: it keeps
# the best segmentation of every suffix.

# %% tags=["alternative:07.5", "nbval-ignore-output"]
def segment(text, scores):
    best = {len(text): (0.0, [])}
    for start in reversed(range(len(text))):
        found = [
            (scores[text[start:end]] + best[end][0], end)
            for end in range(start + 1, len(text) + 1)
            if text[start:end] in scores and end in best
        ]
        if found:
            score, end = max(found)
            best[start] = (score, [text[start:end], *best[end][1]])
    return best[0][1]


check("07.5", segment)


# %% [markdown]
# ## 07.6 Pieces that can still become a code
#
# A piece may come next if some code goes on with it, and if pieces can
# make up the rest of that code. The second condition is the one that is
# easily forgotten: without it a model walks into a dead end. It is the
# lattice of 07.5 again, without scores: a place is reached if a piece
# leads to it from a place that is reached.

# %% tags=["answer:07.6", "nbval-ignore-output"]
def next_pieces(written, codes, pieces):
    def spelled(text):
        reached = [True] + [False] * len(text)
        for end in range(1, len(text) + 1):
            for start in range(end):
                if reached[start] and text[start:end] in pieces:
                    reached[end] = True
        return reached[-1]

    found = set()
    for code in codes:
        if not code.startswith(written):
            continue
        rest = code[len(written) :]
        if not rest:
            found.add("")
        for piece in pieces:
            if rest.startswith(piece) and spelled(rest[len(piece) :]):
                found.add(piece)
    return found


check("07.6", next_pieces)


# %% [markdown]
# The alternative starts from the end. Every code of the list is alive.
# Take a last piece off a text that is alive, and what remains is alive
# too. It computes the texts once, and can then serve every step of the
# model.

# %% tags=["alternative:07.6", "nbval-ignore-output"]
def next_pieces(written, codes, pieces):
    alive = set(codes)
    new = alive
    while new:
        shorter = {
            text[: -len(piece)]
            for text in new
            for piece in pieces
            if text.endswith(piece)
        }
        new = shorter - alive
        alive = alive | new
    allowed = {piece for piece in pieces if written + piece in alive}
    return allowed | ({""} if written in codes else set())


check("07.6", next_pieces)
