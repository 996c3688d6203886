# %% [markdown]
# # 16 · Pointer-generator
#
# 145 minutes · Prerequisites: 15
#
# You will be able to:
#
# - Compute additive attention over a padded note.
# - Compute the distribution that mixes generating and copying.
# - Give a word outside the vocabulary an id that can be copied.
# - Compute the loss in log space for the target words alone.
# - Assemble and train a pointer-generator from these parts.
# - Judge a race of two models of one size, and say where copying matters.

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
# ## Can a model write a name that it never met in training?
#
# A program reads clinical notes and writes short summaries. It was trained on more
# than 1,700 notes. Today's note names a drug that none of them mentions. What will
# the summary say?
#
# Lessons 16 and 17 leave the patients' codes for their notes, and what you build
# returns: in lesson 19 the patient model gets a
# [copy head](../course/book/glossary.md), the gate and the mixture of this lesson,
# to repeat the codes that a patient has had before.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: what this lesson uses
import random
import textwrap
import warnings
from collections.abc import Callable
from itertools import pairwise
from statistics import mean

import polars as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pad_packed_sequence,
    pad_sequence,
)

from ehr_course import (
    BeamSettings, NoteDataset, NoteTokenizer,
    PointerGenerator, PointerGeneratorConfig, WordTokenizer,
    checkpoint_folder, choose_notes, drug_names, log_mixture, make_cohort,
    make_notes, names_recovered, real_notes, split_by_patient,
    split_notes, summarize, trace_summary, train,
)
from ehr_course.exercises import check, hint, mine, progress
from ehr_course.plots import (
    blank_chart, draw_dots, draw_flow, draw_heat, draw_strips,
)
from ehr_course.widgets import generation_trace_player

# %% tags=["hide-input"]
# set-up: the notes, split by patient; real ones if a file is named
torch.set_num_threads(1)  # such small steps are faster on one core
warnings.filterwarnings("ignore", "enable_nested_tensor")
real = real_notes() is not None
size = {"tiny": 2_200, "small": 6_000, "full": 46_520}[PROFILE]
if real:
    split = split_notes(choose_notes(size, seed=SEED), seed=SEED)
    pairs, new = split.train, split.test[:100]
else:
    patients = make_cohort(size, seed=SEED)
    learned_from, _, others = split_by_patient(patients, seed=SEED)
    one_drug = {"seed": SEED, "medications": (1, 1)}
    pairs = make_notes(learned_from, **one_drug)
    new = make_notes(others[:100], drugs="unseen", **one_drug)
print(f"{len(pairs):,} notes to learn from, {len(new):,} new ones")

# %% [markdown]
# The notes are invented, one for each patient, with one drug each. The drugs of
# the new notes do not occur in any training note. The vocabulary is the list of all
# words of the training notes, so the new names are outside it; in code they are
# `oov`, *out of vocabulary*.

# %%
texts = [text for pair in pairs for text in (pair.note, pair.summary)]
tokenizer = WordTokenizer.from_texts(texts)
new_data = NoteDataset(new, tokenizer, max_source=200)
names = {
    word
    for pair, oov in zip(new, new_data.oov, strict=True)
    for word in tokenizer.words(pair.summary)
    if word in oov
}  # a summary needs them, and the vocabulary lacks them
print(f"{len(tokenizer)} words in the vocabulary, {len(names)} new names:")
print(", ".join(sorted(names)[:6]), "...")
if not real:
    print("\nnote:", new[0].note)
    print("summary:", new[0].summary)

# %% tags=["hide-input"]
# check: no name is in the vocabulary
assert not names & set(tokenizer.vocabulary)
assert real or names <= set(drug_names("unseen"))

# %% [markdown]
# The course's library has a [pointer-generator](../course/book/glossary.md), the model
# that you will build. Train it for 200 steps and let it write.

# %%
torch.manual_seed(SEED)
config = PointerGeneratorConfig.for_tokenizer(tokenizer)
pointing = PointerGenerator(config)
options = {"batch_size": 16, "lr": 1e-2, "warmup_steps": 20}
options |= {"max_grad_norm": 2.0, "group_by_length": True}
data = NoteDataset(pairs, tokenizer, max_source=200)
train(pointing, data, steps=200, seed=SEED, progress=False, **options)
pointing.eval()
greedy = BeamSettings(beams=1, no_repeat_ngram_size=0, max_length=40)


def write(notes):
    options = {"settings": greedy, "batch_size": 50, "max_source": 200}
    return summarize(pointing, tokenizer, notes, **options)


summaries = write([pair.note for pair in new])
references = [pair.summary for pair in new]
texts_of = [summary.text for summary in summaries]
found = names_recovered(texts_of, references, names)
print(texts_of[0], f"\nnew names found: {found:.0%}")

# %% tags=["hide-input"]
# check: nearly all names are found
assert real or SEED or found > 0.9

# %% [markdown]
# It writes nearly all of them. The same model without the pointer would write none, which
# is no discovery: a word that was never a target in training is never written, even if
# you add it to the list. Its 0% is guaranteed. So the rival that your model races later
# spells names from pieces.
#
# ## Two ways to the next word
#
# The pointer can choose its next word from a list, like every model so far, or point at
# a place of the note and write the word it finds there. Follow the first summary:
# `encode` reads the note; `step` reads the last word and says how likely each next word
# is.

# %% tags=["nbval-ignore-output"]
ids, oov = tokenizer.encode_note(new[0].note)
source = pointing.encode(torch.tensor([ids]))
state = pointing.first_state(source)
written, heard = [tokenizer.bos_id], []  # heard: what each step says
while written[-1] != tokenizer.eos_id and len(heard) < 30:
    said = pointing.step(torch.tensor([[written[-1]]]), state, source)
    state = said.state
    heard.append(said)
    written.append(int(said.log_probs.argmax()))
every_id = range(len(tokenizer) + len(oov))
words = [tokenizer.piece(i, oov) for i in every_id]
print(" ".join(words[i] for i in written))

# %% [markdown]
# (`<s>` and `</s>` begin and end a note.) Stop it after "treated with", before it writes
# the name:

# %% tags=["hide-input"]
# set-up: t is the step that writes a word from outside the vocabulary
outside = [n for n, i in enumerate(written) if i >= len(tokenizer)]
in_note = [n for n, i in enumerate(written) if n and i in ids]
t = (outside or in_note)[0]
vocabulary = [tokenizer.piece(i) for i in range(len(tokenizer))]
note_words, so_far = ([words[i] for i in x] for x in (ids, written[:t]))
name = words[written[t]]
place = note_words.index(name)
near = note_words[max(place - 2, 0) : place + 3]
two_ways = {
    "the note": "copy: point at a place",
    "the vocabulary": f"generate: choose from {len(vocabulary)} words",
}

# %% tags=["nbval-ignore-output"]
draw_strips(
    {
        "the note": near,
        "the summary": ["…", *so_far[-2:], "?"],
        "the vocabulary": ["…", *vocabulary[200:500:100], "…"],
    },
    "Where can the next word come from?",
    f"The summary needs its next word. {name} is not on the list.",
    fills={
        "the note": ["code" if w == name else "paper" for w in near],
        "the summary": ["paper", "paper", "paper", "prompt"],
        "the vocabulary": ["decoder"] * 5,
    },
    notes=two_ways,
    arrows=[
        (("the summary", 3), ("the note", near.index(name))),
        (("the summary", 3), ("the vocabulary", 3)),
    ],
)

# %% [markdown]
# If it really copies, it should copy nonsense too. Put a word that nobody knows,
# xyzzy, in place of each name:

# %% tags=["nbval-ignore-output"]
nonsense, changed = "xyzzy", []
for pair in new:
    drug = [w for w in tokenizer.words(pair.note) if w in names]
    changed.append(pair.note.replace((drug or [nonsense])[0], nonsense))
told = [summary.text for summary in write(changed)]
copied = sum(f"treated with {nonsense}" in text for text in told)
print(told[0])
print(f"treated with {nonsense}: {copied} of {len(told)} summaries")
assert real or SEED or nonsense in vocabulary or copied > 80

# %% [markdown]
# It does. The model reads all these words as one token, `<unk>`, unknown. How,
# then, does it know where to point?
#
# ## Reading: a state for each place
#
# It goes by the words around it. After Abigail See et al. (2017,
# [1704.04368](https://arxiv.org/abs/1704.04368)), an
# [LSTM](../course/book/glossary.md), small and quick to train, reads one word after the
# other. At each word it updates a memory and shows a part of it: its *state*, a row of
# numbers. One LSTM reads the note forwards, another backwards.
# Replace one word and see which states change.

# %%
line = ids[1:8]
changed = list(line)
changed[3] = 10 if line[3] != 10 else 11  # any other word
before, after = (
    pointing.encode(torch.tensor([row])).states[0].detach()
    for row in (line, changed)
)  # (source, 2 hidden)
halves = (before - after).abs().unflatten(1, (2, -1))
moved = halves.amax(dim=2).T  # (2, source): forwards, backwards

# %% tags=["nbval-ignore-output"]
at = [f"{n} {words[token]}" for n, token in enumerate(line, start=1)]
draw_heat(
    {
        "forwards →": dict(zip(at, moved[0].tolist())),
        "← backwards": dict(zip(at, moved[1].tolist())),
    },
    f"Which states move when “{words[line[3]]}” is replaced?",
    f"A cell: the largest change of one of a state's {halves.shape[2]}"
    " numbers. Framed: at the replaced word.",
    form="{:.2f}",
    largest=moved.max().item(),
    across="the words, in the order of the note",
    framed={("forwards →", at[3]), ("← backwards", at[3])},
)

# %% tags=["hide-input"]
# check: only states that come after the word, in reading order, move
assert (moved[0, :3] == 0).all() and (moved[0, 3:] > 0).all()
assert (moved[1, 4:] == 0).all() and (moved[1, :4] > 0).all()

# %% [markdown]
# The two states of a place, side by side, are $h_i$. The vector of `<unk>` says
# nothing, but $h_i$ also depends on the "he received" before the word.
#
# ## Where to look
#
# A second LSTM, the decoder, writes the summary. It begins with the two states
# where reading ended. In step $t$ it reads the last word, and its state becomes
# $s_t$. Attention compares $s_t$ with every $h_i$:

# %% tags=["hide-input"]
# set-up: the scores of the step that writes the name
layer, naming = pointing.decoder.attention, heard[t - 1]
asked = layer.query(naming.state.hidden[:, :, -1])
scores = layer.score((source.keys + asked).tanh())[0, :, 0].detach()
attention = naming.log_attention[0, 0].exp()
again = scores.masked_fill(~source.copyable[0], -torch.inf).softmax(0)
assert torch.allclose(again, attention, atol=1e-5)

# %% tags=["hide-input"]
# set-up: the five places with the largest weights, in boxes
most = attention.topk(5).indices.sort().values.tolist()
context, asks = "context cₜ: the sum of weight times state", "state sₜ"
boxes = {context: ((1, 5), 0, "encoder"), asks: (0, 2, "decoder")}
words_in, arrows = {}, [(asks, f"score {most[0]}")]
for column, i in enumerate(most, start=1):
    weight, score, read = f"weight {i}", f"score {i}", f"state {i}"
    dark = attention[i] == attention.max()
    boxes[weight] = column, 1, "code" if dark else "paper"
    boxes[score] = column, 2, "paper"
    boxes[read] = column, 3, "encoder"
    words_in[weight] = f"{attention[i]:.1%}"
    words_in[score] = f"{scores[i]:.1f}"
    words_in[read] = f"hᵢ of {i}\n{note_words[i]}"
    arrows += [(read, score), (score, weight), (weight, context)]

# %% tags=["nbval-ignore-output"]
draw_flow(
    boxes,
    arrows,
    f"Where does the decoder look after “{so_far[-1]}”?",
    "From the bottom up, at the five places with the largest weights.",
    words=words_in,
    rows=["", "weight aₜ", "score eₜ", "state hᵢ"],
)


# %% [markdown]
# In formulas, this [additive attention](../course/book/glossary.md) is
#
# $$e_{t,i} = v \cdot \tanh(W_h h_i + W_d s_t) \qquad
# a_t = \text{softmax}(e_t) \qquad c_t = \sum_i a_{t,i} h_i$$
#
# In lesson 11 the score was a dot product; here it is a small network, and
# $W_h$, $W_d$ and $v$ are learned. $c_t$ is the
# [context](../course/book/glossary.md): what the step takes from the note.
#
# ### 16.1 Additive attention
#
# Try It Yourself · ★★ · 10 minutes
#
# For each note of a batch, `query` (batch, hidden) is $s_t$ and `states`
# (batch, source, width) are the $h_i$. `mask` (batch, source) is 1 on words
# and 0 on padding, with at least one word in each row. `w_h` (hidden, width)
# and `w_d` (hidden, hidden) are (output, input), like the weights of
# `nn.Linear`; `v` is (hidden,). Return a pair: the scores $e_t$ (batch, source),
# minus infinity on padding, and the context $c_t$ (batch, width). Padding gets
# no attention, even if scores are several hundred, of either sign.
#
# Example: for `query = [[0.0]]`, `states = [[[1.0], [1.0], [5.0]]]`,
# `mask = [[1, 1, 0]]`, `w_h = [[1.0]]`, `w_d = [[1.0]]` and `v = [2.0]`,
# as tensors, the result is `[[1.5232, 1.5232, -inf]]` and `[[1.0]]`.

# %% tags=["exercise:16.1", "nbval-ignore-output"]
def additive_attention(
    query: Tensor,
    states: Tensor,
    mask: Tensor,
    w_h: Tensor,
    w_d: Tensor,
    v: Tensor,
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("16.1: replace this line")


check("16.1", additive_attention)

# %% [markdown]
# ## To generate or to copy
#
# Attention says where to copy from, but not whether to copy. That is up to the
# gate, [p_gen](../course/book/glossary.md): open, at 1, it generates; closed, at 0, it
# copies. It is a linear layer and a sigmoid, and reads $c_t$, $s_t$ and the last word.
# Generating gives $P_\text{vocab}$, a softmax over the vocabulary: one linear layer on
# the same three. (The paper's has two, on $c_t$ and $s_t$ alone.)
# Copying gives the [copy distribution](../course/book/glossary.md)
# $P_\text{copy}$: for each word, the attention on all its places, added up. With
# $x_i$ for the word at place $i$, the gate mixes the two:
#
# $$P_\text{copy}(w) = \sum_{i:\,x_i = w} a_{t,i} \qquad
# P(w) = p_\text{gen}\,P_\text{vocab}(w)
# + (1 - p_\text{gen})\,P_\text{copy}(w)$$
#
# In small numbers: the vocabulary is "home", with a probability of 0.3, and "pain",
# with 0.7. The note is "pain mesna pain", and its places get the attention 0.3, 0.5 and
# 0.2. How likely is each word, and how much of that is copied?

# %%
p_gen = 0.4
p_vocab = {"pain": 0.7, "mesna": 0.0, "home": 0.3}
p_copy = {"pain": 0.3 + 0.2, "mesna": 0.5, "home": 0.0}
generated = {w: p_gen * p for w, p in p_vocab.items()}
copied = {w: (1 - p_gen) * p for w, p in p_copy.items()}
p = {w: generated[w] + copied[w] for w in p_vocab}
assert abs(sum(p.values()) - 1) < 1e-9

# %%
picture, axes = blank_chart(
    "How likely is each word, and by which way?",
    ", ".join(f"{w} {p[w]:.0%}, of it {copied[w]:.0%} copied" for w in p),
    "Light: 0.4 × P_vocab. Dark: 0.6 × P_copy. Together they are P.",
    height=2.0,
)
bars = axes.barh(list(p), generated.values(), color="#cfe3b4")
axes.bar_label(bars, ["0.4 × 0.7", "", "0.4 × 0.3"], label_type="center")
bars = axes.barh(list(p), copied.values(), left=list(generated.values()))
said = [f"  {p[w]:.0%}" for w in p]
axes.bar_label(bars, said)
axes.set(xlim=(0, 0.75), xticks=[])
axes.invert_yaxis()
picture

# %% [markdown]
# Now see the steps of a real summary: the darker a word, the more attention it
# gets. At the name the gate is closed. Move the slider back by one word: "with" is not in
# the note, and the gate is open.

# %% tags=["widget", "nbval-ignore-output"]
traces = {
    f"note {n + 1}": trace_summary(
        pointing, tokenizer, new[n].note, max_length=24
    )
    for n in range(3)
}
steps = traces["note 1"].steps
at_name = [n for n, s in enumerate(steps, start=1) if s.written in names]
generation_trace_player(traces, word=(at_name or [1])[0])

# %% [markdown]
# In training every drug is in the vocabulary, so the model could generate them all.
# How has it learned to copy? Here is the gate at the drugs of training notes:

# %% tags=["nbval-ignore-output"]
drugs = set(drug_names("common")) & set(tokenizer.vocabulary)
at_drugs = [
    p
    for summary in write([pair.note for pair in pairs[:100]])
    for word, p in zip(summary.pieces, summary.p_gen.tolist())
    if word in drugs
]
mean_gate = mean(at_drugs or [0.0])
print(f"{len(drugs)} drugs in the training notes")
print(f"mean p_gen where one of them is written: {mean_gate:.3f}")
assert real or mean_gate < 0.1
assert real or PROFILE != "tiny" or 150 < len(drugs) < 250


# %% [markdown]
# It is closed there as well. To generate a drug, the model has to know which one it
# is; to copy it, only where it stands.

# %% [markdown]
# ### Going further: the gate in code
#
# The gate is one line of code. Exercise 16.2 is in here.

# %% [markdown]
# #### 16.2 The generation probability
#
# Try It Yourself · ★ · 6 minutes
#
# The gate is a linear layer with one output, and a sigmoid. It reads the
# context, the decoder's state and the embedding of the last word.
#
# `context` is (batch, width), `state` (batch, hidden), `embedded` (batch,
# embedding). `weight` is a vector as long as the three together, in this
# order; `bias` is a number. Return `p_gen`, (batch,).
#
# Example: for `context = [[1.0, 0.0]]`, `state = [[2.0]]`,
# `embedded = [[1.0]]`, `weight = [0.5, 1.0, -0.5, 1.0]`, as tensors, and
# `bias = -0.5` the logit is 0.5 - 1 + 1 - 0.5 = 0 and the result `[0.5]`.

# %% tags=["exercise:16.2", "nbval-ignore-output"]
def generation_probability(
    context: Tensor,
    state: Tensor,
    embedded: Tensor,
    weight: Tensor,
    bias: float,
) -> Tensor:
    raise NotImplementedError("16.2: replace this line")


check("16.2", generation_probability)

# %% [markdown]
# ## IDs for out-of-vocabulary words
#
# The mixture adds up by id, but a word outside the vocabulary has none. So
# `encode_note` gives the first such word of a note the first id after the end of
# the vocabulary, and so on: an [extended id](../course/book/glossary.md),
# valid for one note only. Here are three notes with several new drugs each:

# %%
more = [tokenizer.encode_note(pair.note) for pair in new[:3]]
if not real:
    options = {"drugs": "unseen", "medications": (2, 3), "seed": SEED}
    several = make_notes(others[:100], **options)
    more = [tokenizer.encode_note(pair.note) for pair in several]
    unseen = set(drug_names("unseen"))
    more = [x for x in more if len(x[1]) > 1 and set(x[1]) <= unseen]
    more = list({x[1][0]: x for x in more}.values())[:3]

# %%
size = len(vocabulary)
rows = {"the vocabulary": [*vocabulary[:5], "…", vocabulary[-1]]}
below = {"the vocabulary": [*range(5), "", size - 1]}
for n, (_, its_words) in enumerate(more, start=1):
    rows[f"note {n}"] = its_words
    below[f"note {n}"] = [size + i for i in range(len(its_words))]
fills = {name: ["trap"] * len(of) for name, of in rows.items()}
fills["the vocabulary"] = [*["special"] * 4, "paper", "paper", "paper"]
draw_strips(
    rows,
    f"Which word has the id {size}?",
    f"Both LSTMs read a word from outside as {vocabulary[0]}. Its extended"
    " id serves to copy it, and to name it in the loss.",
    fills=fills,
    under=below,
    key={"trap": "a word from outside the vocabulary"},
)


# %% [markdown]
# ### 16.3 Mix the distributions
#
# Try It Yourself · ★★ · 8 minutes
#
# `p_vocab` is (batch, vocab), `attention` (batch, source), `p_gen` (batch,).
# `ids` (batch, source) are the words of the note, with extended ids;
# `n_outside` is the largest number of words outside the vocabulary in one note
# of the batch. Return the mixed distribution, (batch, vocab + n_outside). Do
# not change the arguments.
#
# Example: for `p_vocab = [[0.5, 0.5]]`, `attention = [[0.2, 0.3, 0.5]]`,
# `p_gen = [0.5]`, `ids = [[2, 1, 2]]`, as tensors, and `n_outside = 1`
# the result is `[[0.25, 0.4, 0.35]]`: word 2 stands at two places.

# %% tags=["exercise:16.3", "nbval-ignore-output"]
def mixed_distribution(
    p_vocab: Tensor,
    attention: Tensor,
    p_gen: Tensor,
    ids: Tensor,
    n_outside: int,
) -> Tensor:
    raise NotImplementedError("16.3: replace this line")


check("16.3", mixed_distribution)


# %% [markdown]
# ### 16.4 An extended vocabulary
#
# Try It Yourself · ★★ · 9 minutes
#
# `note` and `summary` are lists of words, and so is `vocabulary`: the place of
# a word is its id, and `<unk>` has id 0. Return three lists: the ids of the
# note, the ids of the summary, and the words of the note outside the
# vocabulary, each once, in the order in which the note has them first. The
# first of these has the id `len(vocabulary)`. A word of the summary that
# neither vocabulary nor note has is `<unk>`. Add no `<s>` and no `</s>`.
#
# Example: for `note = ["given", "senna", "and", "mesna"]`, `summary =
# ["mesna", "given", "twice"]` and a vocabulary of `<unk>`, `<s>`, `</s>`,
# `<pad>`, `given` and `and`, the result is `[4, 6, 5, 7]`, `[7, 4, 0]`
# and `["senna", "mesna"]`.

# %% tags=["exercise:16.4", "nbval-ignore-output"]
def extended_ids(
    note: list[str], summary: list[str], vocabulary: list[str]
) -> tuple[list[int], list[int], list[str]]:
    raise NotImplementedError("16.4: replace this line")


check("16.4", extended_ids)

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - A pointer writes names that it never met, and copies nonsense as well.
# - The gate mixes the vocabulary with the attention, added up by word.
# - A word outside the vocabulary gets an extended id, for one note.
#
# In the second half you train a model of your own. To come back, choose the next cell
# and *Run > Run All Above Selected Cell*; it takes a minute.

# %% [markdown]
# ## How does it learn?
#
# The loss is $-\log P$ of the right next word. $P$ can be a product of two tiny numbers
# and round to 0, whose logarithm is minus infinity. It is tempting to write
# `log(p.clamp(min=1e-8))`. See what it does to a word that can only be generated:

# %% tags=["claim:43"]
gate, nowhere = torch.tensor(0.0), torch.tensor(-torch.inf)
log_p = torch.linspace(-30, 0, 121, requires_grad=True)
mixed = log_mixture(log_p, nowhere.expand(121), gate.expand(121))
ways = {
    "clamped": -(gate.sigmoid() * log_p.exp()).clamp(min=1e-8).log(),
    "in log space": -mixed,
}
slopes = {}
for way, losses in ways.items():
    (gradient,) = torch.autograd.grad(losses.sum(), log_p)
    slopes[way] = gradient.abs().tolist()
    ways[way] = losses.tolist()
assert slopes["clamped"][0] == 0 and min(slopes["in log space"]) > 0.999
x = [-loss for loss in ways["in log space"]]  # the logarithm of P
flat = max(p for p, slope in zip(x, slopes["clamped"]) if slope == 0)
stops, rises = max(ways["clamped"]), max(ways["in log space"])
half = torch.tensor([1e-8]).half()
assert half == 0 and half.log().isneginf()

# %%
picture, (left, right) = blank_chart(
    "The loss of one word, and its slope",
    f"Clamped, the loss stops at {stops:.1f}, and below {flat:.0f} nats"
    f" its slope is 0. In log space it rises to {rises:.1f}, with slope"
    " -1.",
    "The further left, the more wrong the model. A step of training goes"
    " down the slope.",
    columns=2,
)
for way, dashes in (("clamped", "--"), ("in log space", "-")):
    left.plot(x, ways[way], dashes, label=way)
    right.plot(x, [-slope for slope in slopes[way]], dashes)
left.set(xlabel="log P of the right word, in nats", ylabel="loss, nats")
right.set(xlabel="log P of the right word, in nats", ylabel="slope")
for axes, low, label in ((left, 0, "P = 1e-8"), (right, -0.5, "no step")):
    axes.axvline(flat, color="black", linestyle=":")
    axes.text(flat - 0.7, low, label, ha="right")
left.legend()
picture


# %% [markdown]
# The clamp takes the slope away where the model is most wrong. Keep logarithms
# throughout: that of a product is a sum; that of a sum is `logsumexp`, or `logaddexp` for
# two. In code, `gate` is the logit of $p_\text{gen}$, before the sigmoid:
# `logsigmoid(gate)` is $\log p_\text{gen}$, and `logsigmoid(-gate)` is
# $\log(1 - p_\text{gen})$.

# %% [markdown]
# ### 16.5 The loss in log space
#
# Try It Yourself · ★★★ · 12 minutes
#
# Write `pointer_loss`, the mean of $-\log P$ over `n` target words, without
# leaving log space. `logits` (n, vocab) belong to $P_\text{vocab}$. `scores`
# (n, source) are the attention scores of 16.1, minus infinity where nothing can be
# copied. `gate` (n,) is the *logit* of $p_\text{gen}$. `ids`
# (n, source) are the words of the notes and `targets` (n,) the right words;
# both may hold extended ids. There are three kinds of targets:
#
# | the target stands | generated | copied |
# |---|---|---|
# | in the vocabulary, but not in the note | yes | no |
# | in both, at one place or several | yes | yes, unless all its scores are minus infinity |
# | in the note alone | no | yes, and one of its scores is finite |
#
# Each row of `scores` has a finite one.
#
# Probabilities may be too small for float32 or float64, from either softmax or from
# the gate. Value and gradients must be right there too, and never nan. (If a gradient
# is, the third hint says why.)
#
# The check calls `value_and_gradients`: in its messages, [0] is the loss, and
# [1] to [3] are the gradients on logits, scores and gate.
#
# Example: for `logits = [[0.0, 0.0]]`, `scores = [[0.0, 0.0]]`,
# `gate = [0.0]`, `ids = [[1, 2]]` and `targets = [1]`, as tensors, both
# ways give one half, and the loss is 0.6931, the logarithm of 2.

# %% tags=["exercise:16.5", "nbval-ignore-output"]
def value_and_gradients(logits, scores, gate, ids, targets):
    given = [x.clone().requires_grad_() for x in (logits, scores, gate)]
    value = torch.as_tensor(pointer_loss(*given, ids, targets))
    if value.requires_grad:
        value.backward()
    nothing = [torch.zeros_like(x) for x in given]
    pairs = zip(given, nothing, strict=True)
    grads = [zero if x.grad is None else x.grad for x, zero in pairs]
    return value.detach(), *grads


def pointer_loss(
    logits: Tensor,
    scores: Tensor,
    gate: Tensor,
    ids: Tensor,
    targets: Tensor,
) -> Tensor:
    raise NotImplementedError("16.5: replace this line")


check("16.5", value_and_gradients)

# %% [markdown]
# ## Assemble the model
#
# Every part is there. This is the whole model, from the bottom up:

# %%
features = "[cₜ; sₜ; last word]"
boxes = {
    "P, the mixture": ((0, 2), 0, "paper"),
    "P_copy": (0, 1, "code"),
    "gate\np_gen": (1, 1, "prompt"),
    "vocabulary\nP_vocab": (2, 1, "decoder"),
    "attention aₜ\nw_h, w_d, v": (0, 2, "code"),
    features: ((1, 2), 2, "paper"),
    "reader\nstates hᵢ": (0, 3, "encoder"),
    "lstm\nstate sₜ": (2, 3, "decoder"),
    "note": (0, 4, "paper"),
    "last word, cₜ₋₁": (2, 4, "paper"),
}
up = list(boxes)
arrows = [(up[i], up[0]) for i in (1, 2, 3)] + [(up[4], up[1])]
arrows += [(up[5], up[2]), (up[5], up[3]), (up[4], up[5], "cₜ")]
arrows += [(up[6], up[4]), (up[7], up[5]), (up[7], up[4], "asks")]
arrows += [(up[8], up[6]), (up[9], up[7])]

# %%
draw_flow(
    boxes,
    arrows,
    "What reads what?",
    "One step, from the bottom up. In 16.7 the parts have these names.",
)


# %% [markdown]
# New is $c_{t-1}$: the decoder also reads what it took from the note the step before
# ([input feeding](../course/book/glossary.md)), and can know where it looked last.
#
# ### 16.6 Read the note
#
# Try It Yourself · ★★ · 12 minutes
#
# Write the reader as a module. `NoteReader(n_words, d_word, d_state)` has an
# `embedding` (n_words, d_word) and an `lstm`, one layer of `nn.LSTM` that reads in both
# directions. `forward(note, mask)` gets `note` (batch, source), which may hold extended
# ids, and `mask` as in 16.1; behind the last word of a note, `note` may hold anything.
# Return three tensors:
#
# - the states (batch, source, 2 d_state), 0 on padding;
# - `hidden` and `cell`, (batch, d_state) each: where reading ended, as the mean of both
#   directions.
#
# An extended id is read as `<unk>`, id 0. Padding is never read.
#
# Example: with `n_words = 6`, the notes `[[1, 2, 9]]` and `[[1, 2, 0, 4]]` with the
# masks `[[1, 1, 1]]` and `[[1, 1, 1, 0]]` have the same three states, `hidden` and
# `cell`.

# %% tags=["exercise:16.6", "nbval-ignore-output"]
class NoteReader(nn.Module):
    def __init__(self, n_words: int, d_word: int, d_state: int) -> None:
        raise NotImplementedError("16.6: replace this line")

    def forward(
        self, note: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError("16.6: replace this line")


check("16.6", NoteReader)

# %% [markdown]
# ### 16.7 The pointer-generator
#
# Try It Yourself · ★★★ · 25 minutes
#
# Join the parts. `mine` takes your 16.6 and 16.1, or the worked answers where you have
# not solved them. `Pointer(n_words, d_word, d_state)` has these parts:
#
# | name | what it is | it reads |
# |---|---|---|
# | `reader` | `NoteReader` | the note |
# | `embedding` | `nn.Embedding` | the summary's words, extended ids as `<unk>` |
# | `lstm` | `nn.LSTMCell` | [last word; $c_{t-1}$] |
# | `w_h`, `w_d` | `nn.Linear` without bias | their weights go to 16.1 |
# | `v` | `nn.Parameter` (d_state,) | |
# | `vocabulary`, `gate` | `nn.Linear` | [$c_t$; $s_t$; last word] |
#
# Square brackets: side by side, in this order. `forward(note, mask, summary)` gets the
# summary from `<s>` on, (batch, target), and reads one word of it in each step, whatever
# it would have written itself. The first step begins with the reader's `hidden` and
# `cell`, and a context of 0. Return three tensors: the logits of $P_\text{vocab}$
# (batch, target, n_words), the scores (batch, target, source), and the *logit* of
# $p_\text{gen}$ (batch, target).
#
# Example: a note of 5 words and a summary of `<s>` and 3 words give shapes of
# (1, 4, n_words), (1, 4, 5) and (1, 4).

# %% tags=["exercise:16.7", "nbval-ignore-output"]
NoteReader = mine("16.6")
additive_attention = mine("16.1")


class Pointer(nn.Module):
    def __init__(self, n_words: int, d_word: int, d_state: int) -> None:
        raise NotImplementedError("16.7: replace this line")

    def forward(
        self, note: Tensor, mask: Tensor, summary: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError("16.7: replace this line")


check("16.7", Pointer)

# %% [markdown]
# ### Train it
#
# Your 16.4 turns texts into ids, and the words of a batch are padded:

# %%
extended_ids = mine("16.4")


def rows_of(pairs):
    rows = []
    for pair in pairs:
        note = tokenizer.words(pair.note)[:200]
        summary = tokenizer.words(pair.summary)
        note, summary, oov = extended_ids(note, summary, vocabulary)
        summary = [tokenizer.bos_id, *summary, tokenizer.eos_id]
        rows.append((torch.tensor(note), torch.tensor(summary), oov))
    return rows


def batch_of(rows):
    notes, summaries, _ = zip(*rows)
    note = pad_sequence(notes, True, tokenizer.pad_id)
    summary = pad_sequence(summaries, True, -100)
    read, targets = summary[:, :-1].clamp(min=0), summary[:, 1:]
    return note, (note != tokenizer.pad_id).long(), read, targets


# %% [markdown]
# And this is all that training takes: your 16.7 predicts, your 16.5 judges.

# %% tags=["nbval-ignore-output"]
Pointer, pointer_loss = mine("16.7"), mine("16.5", "pointer_loss")
torch.manual_seed(SEED)
own = Pointer(len(vocabulary), d_word=32, d_state=64)
optimizer = torch.optim.Adam(own.parameters(), lr=1e-2)
rows, draw, losses = rows_of(pairs), random.Random(SEED), []
for _ in range(120):
    note, mask, read, targets = batch_of(draw.sample(rows, 16))
    logits, scores, gate = own(note, mask, read)
    scored = targets >= 0  # (batch, target): no padding
    places = note[:, None].expand(scores.shape)
    said = [x[scored] for x in (logits, scores, gate, places, targets)]
    loss = pointer_loss(*said)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(own.parameters(), 2.0)
    optimizer.step()
    losses.append(loss.item())

# %% tags=["nbval-ignore-output"]
picture, axes = blank_chart(
    "Does your model learn?",
    f"The loss falls from {losses[0]:.1f} to {losses[-1]:.2f}.",
    height=2.2,
)
axes.plot(losses)
axes.set(xlabel="step", ylabel="loss, nats a word", yscale="log")
picture

# %% tags=["hide-input"]
# check: the loss falls
assert real or (losses[0] > 4 and mean(losses[-20:]) < 0.3)

# %% [markdown]
# Now let it write. Your 16.3 mixes the two distributions, and the next step reads the
# likeliest word.

# %% tags=["nbval-ignore-output"]
mixed_distribution = mine("16.3")


@torch.no_grad()
def write_own(pairs):
    rows = rows_of(pairs)
    note, mask, _, _ = batch_of(rows)
    n_outside = max(len(oov) for _, _, oov in rows)
    summary = torch.full((len(rows), 1), tokenizer.bos_id)
    for _ in range(30):
        logits, scores, gate = (x[:, -1] for x in own(note, mask, summary))
        p_vocab, attention = logits.softmax(dim=1), scores.softmax(dim=1)
        given = p_vocab, attention, gate.sigmoid(), note, n_outside
        likeliest = mixed_distribution(*given).argmax(dim=1)
        summary = torch.cat([summary, likeliest[:, None]], dim=1)
    return summary.tolist(), [oov for _, _, oov in rows]


# %% tags=["nbval-ignore-output"]
by_own = []
for row, oov in zip(*write_own(new)):
    end = row.index(tokenizer.eos_id) if tokenizer.eos_id in row else None
    by_own.append(tokenizer.decode(row[:end], oov))
for pair, text in list(zip(new, by_own))[:3]:
    print(text, "\n   right:", pair.summary)
own_share = names_recovered(by_own, references, names)
print(f"\nnew names found by your model: {own_share:.0%}")
assert real or own_share > 0.8


# %% [markdown]
# ## The race
#
# The rival reads and writes subwords, as in lesson 07, so it can spell any name. It is a
# Transformer with an encoder and a decoder, about as large as your model:

# %%
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


# %% tags=["nbval-ignore-output"]
torch.manual_seed(SEED)
subwords = NoteTokenizer.train(texts[:4_000], vocab_size=600)
rival = Rival(len(subwords))
for table in (rival.pieces, rival.places):
    nn.init.normal_(table.weight, std=0.125)
for who, model in {"yours": own, "the rival": rival}.items():
    size = sum(weights.numel() for weights in model.parameters())
    print(f"{who}: {size:,} parameters")
print("a new name, in pieces:", *subwords.pieces(name))

# %% tags=["nbval-ignore-output"]
pieces, losses = NoteDataset(pairs, subwords, max_source=200), []
optimizer = torch.optim.AdamW(rival.parameters(), lr=2e-3)
for _ in range(20):
    batch = pieces.batch(draw.sample(range(len(pairs)), 16))
    logits = rival(batch["input_ids"], batch["decoder_input_ids"])
    guesses, labels = logits.flatten(0, 1), batch["labels"].flatten()
    loss = nn.functional.cross_entropy(guesses, labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(rival.parameters(), 2.0)
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.1f}, after 20 steps {losses[-1]:.1f}")
assert losses[-1] < losses[0]

# %% [markdown]
# It needs a thousand such steps, eight times as many as yours. So
# `benchmarks/copying_race.py` trained both beforehand, with three seeds each, on these
# notes. Who writes the drugs of the training notes, and who the new ones?

# %%
race = pl.read_csv(checkpoint_folder("copying_race") / "race.csv")
race = race.filter(pl.col("step") == pl.col("step").max().over("model"))
panels = {"known_names": "drugs of the training notes"}
panels["new_names"] = "new drugs"
shares = {
    panel: {
        model: race.filter(model=model)[column].to_list()
        for model in ("pointer", "Transformer")
    }
    for column, panel in panels.items()
}

# %%
said = [
    f"{panel}: {model} " + ", ".join(f"{share:.0%}" for share in of)
    for panel, rows in shares.items()
    for model, of in rows.items()
]

# %%
picture, both = blank_chart(
    "Who writes which names?",
    "; ".join(said) + ".",
    "The share of 100 summaries that name the right drug. A dot a seed.",
    height=2.0,
    columns=2,
    sharey=True,
)
for axes, (panel, rows) in zip(both, shares.items()):
    for y, (model, of) in enumerate(rows.items()):
        axes.plot(of, [y - 0.15, y, y + 0.15], "o", label=model)
        axes.text(1.08, y, f"mean {mean(of):.0%}", va="center")
    axes.set(title=panel, xlim=(-0.05, 1.4), ylim=(1.5, -0.5))
    axes.set(xticks=(0, 0.5, 1), yticks=(0, 1), yticklabels=rows)
    axes.xaxis.set_major_formatter("{x:.0%}")
picture

# %% tags=["hide-input"]
# check: what the text says of the race
known, fresh = shares.values()
assert min(known["pointer"]) > 0.9 and min(known["Transformer"]) > 0.5
assert min(fresh["pointer"]) > 0.9 and max(fresh["Transformer"]) < 0.1
else_right = race.filter(model="Transformer")["new_all_else"]
assert else_right.min() > 0.6 and else_right.max() < 0.75

# %% [markdown]
# The Transformer has learned its task: it writes most of the drugs that it knows. For a
# new drug it writes another name, and in two summaries of three all else is right, so
# nothing gives the error away. It could spell the name, but its training notes name some
# 200 drugs, and to know them by heart is easier than to copy them piece by piece. The
# pointer copies a word with one look.
#
# This does not show that Transformers cannot copy. Attention can, and large models, which
# have read more names than they can know by heart, copy without a pointer. A pointer pays
# where there are few notes to learn from, where names are rare, and where each word
# should be traced to its place in the note.

# %% [markdown]
# ## Copied or generated?
#
# Which words come from the note? The gate looks like the answer: does it open for common
# words, and close for rare ones? Left is $p_\text{gen}$; right, how much of the word's
# probability was generated.

# %%
goes = ("home", "rehabilitation")
kinds = dict.fromkeys(names, "new names")
kinds |= dict.fromkeys(("days", "."), "“days” and full stops")
kinds |= dict.fromkeys(goes, "“home” or “rehabilitation”")
kinds |= dict.fromkeys(("with", "treated"), "“with” and “treated”")
kinds |= {"</s>": "the end, </s>"}
groups = [*dict.fromkeys(kinds.values()), "other words"]
before, after = {g: [] for g in groups}, {g: [] for g in groups}
for pair in new:
    for step in trace_summary(pointing, tokenizer, pair.note).steps:
        kind = kinds.get(step.written, "other words")
        before[kind].append(step.p_gen)
        after[kind].append(1 - step.from_copying)

# %% tags=["nbval-ignore-output"]
counted = {
    panel: {f"{kind} ({len(of)})": of for kind, of in rows.items() if of}
    for panel, rows in (
        ("p_gen, before the word is known", before),
        ("share generated, once it is known", after),
    )
}
draw_dots(
    counted,
    "For which words does the gate open?",
    "A dot for each word that the pointer wrote for a new note",
    form="{:.2f}",
    mark="mean",
    notes={
        (panel, row): f"mean {mean(of):.2f}"
        for panel, rows in counted.items()
        for row, of in rows.items()
    },
)

# %% tags=["hide-input"]
# check: the gate, by kind of word
if not real:
    gates = {kind: mean(of) for kind, of in before.items() if of}
    assert gates["new names"] < 0.1
    assert gates["“days” and full stops"] < 0.5
    assert gates["“with” and “treated”"] > 0.5
    share = mean(after["“home” or “rehabilitation”"])
    assert SEED or share < 0.1 < gates["“home” or “rehabilitation”"]

# %% [markdown]
# Both "days" and "with" are in nearly every summary, yet "days" is copied and "with" is
# generated. The gate opens where the note lacks the next word.
#
# One row breaks this rule. "home" stands in every note that it is written for, and yet
# the gate is half open: two words compete there, "home", which only copying offers, and
# the end of the summary, which only generating offers. Once "home" is written, its
# generated share is 0. So ask where a word came from only after it is written.

# %% [markdown]
# ### Going further: where did the wrong word come from?
#
# Exercise 16.8 is in here: the shares of the vocabulary and of each place of the note.

# %% [markdown]
# Here another word stands where the name should be. Where did the pointer get it?

# %% tags=["nbval-ignore-output"]
lost = [
    (pair, summary)
    for pair, summary in zip(new, summaries, strict=True)
    if names & set(tokenizer.words(pair.summary)) - set(summary.pieces)
]
asked_pair, its_summary = (lost or list(zip(new, summaries)))[0]
print(its_summary.text, "\nright:", asked_pair.summary)


# %% [markdown]
# #### 16.8 Where did this word come from?
#
# Try It Yourself · ★★ · 15 minutes
#
# Compute for each written word the shares of the vocabulary and of each place of the
# note, in this order, (n, 1 + source): given that this word was written, the probability
# that it came from there.
#
# `log_vocab` (n, vocab) is the logarithm of $P_\text{vocab}$ in each step, and
# `log_attention` (n, source) that of the attention, minus infinity where
# nothing can be copied. `gate` (n,) is the *logit* of $p_\text{gen}$. `ids`
# (source,) are the words of the note, and `written` (n,) those of the summary;
# both may hold extended ids. Each word can be written in at least one way.
# Probabilities may be as small as in 16.5.
#
# Example: two words are in the vocabulary, `ids = [0, 1]`, and in two steps
# `log_vocab` is the logarithm of `[[0.5, 0.5], [0.8, 0.2]]`, `log_attention`
# that of `[[0.5, 0.5], [0.2, 0.8]]`, and `gate = [0.0, 0.0]`. For
# `written = [1, 1]` the result is `[[0.5, 0.0, 0.5], [0.2, 0.0, 0.8]]`.

# %% tags=["exercise:16.8", "nbval-ignore-output"]
def word_origins(
    log_vocab: Tensor,
    log_attention: Tensor,
    gate: Tensor,
    ids: Tensor,
    written: Tensor,
) -> Tensor:
    raise NotImplementedError("16.8: replace this line")


check("16.8", word_origins)

# %% [markdown]
# Yours, or the worked answer, on this summary:

# %% tags=["nbval-ignore-output"]
its_ids, its_oov = tokenizer.encode_note(asked_pair.note)
of_note = pointing.encode(torch.tensor([its_ids]))
state, said = pointing.first_state(of_note), []
for token in (tokenizer.bos_id, *its_summary.ids[:-1]):
    said.append(pointing.step(torch.tensor([[token]]), state, of_note))
    state = said[-1].state
shares = mine("16.8")(
    torch.cat([step.log_vocabulary[0] for step in said]),
    torch.cat([step.log_attention[0] for step in said]),
    torch.cat([step.p_gen[0] for step in said]).logit(),
    torch.tensor(its_ids),
    torch.tensor(its_summary.ids),
)
for word, row in zip(its_summary.pieces, shares):
    place = int(row[1:].argmax())
    near = its_summary.source_pieces[max(place - 2, 0) : place + 1]
    from_where = "" if row[0] > 0.5 else f"copied from “{' '.join(near)}”"
    print(f"{word:15} generated {row[0]:4.0%} {from_where}")

# %% [markdown]
# The wrong word was copied from another place. A copied word can be wrong, but you can
# look it up.

# %% [markdown]
# ### Going further: a note in chunks
#
# A model that reads pieces of a note side by side loses their order.

# %% [markdown]
# To save time, it is tempting to read long notes in
# [chunks](../course/book/glossary.md#chunk), side by side. Take a note in which a
# patient bleeds and then receives heparin, and exchange the two. How far does the
# probability of a next word move?

# %% tags=["claim:41", "hide-input", "nbval-ignore-output"]
# how much the answer changes when two chunks change places
fields = pointing.config.to_dict() | {"chunk_length": 5}
chunked = PointerGenerator(PointerGeneratorConfig.from_dict(fields))
chunked.load_state_dict(pointing.state_dict())  # the same parameters
told = (
    "woman with chest pain. bleeding was found. later she received "
    "heparin. later she was discharged home."
)
of_it, its_oov = tokenizer.encode_note(told)
note = torch.tensor([of_it[1:21]])  # (1, 20), without <s>
batch = new_data.batch([0])
first, second, third, fourth = note.chunk(4, dim=1)
exchanged = torch.cat([first, third, second, fourth], dim=1)
moved = {}
for name, model in {"whole": pointing, "chunks": chunked.eval()}.items():
    p, q = (
        model(ids, None, batch["decoder_input_ids"]).log_probs.exp()
        for ids in (note, exchanged)
    )  # (1, target, vocab + n_oov)
    moved[name] = (p - q).abs().max().item()
sizes = [m.num_parameters() for m in (pointing, chunked)]
assert sizes[0] == sizes[1]
assert moved["chunks"] < 1e-4 and moved["whole"] > 1e-3
text = [tokenizer.piece(i, its_oov) for i in note[0].tolist()]
chunks = [text[start : start + 5] for start in range(0, 20, 5)]

# %% tags=["hide-input"]
# set-up: the chunks of both notes, in boxes
boxes, text_in, whole = {}, {}, []
for row, order in enumerate(("ABCD", "ACBD")):
    names_of = [f"{n} of note {row + 1}" for n in order]
    for column, (box, n) in enumerate(zip(names_of, order)):
        boxes[box] = column, row, "trap" if n in "BC" else "encoder"
        text = " ".join(chunks["ABCD".index(n)])
        text_in[box] = f"{n}\n{textwrap.fill(text, 14)}"
    whole += pairwise(names_of)

# %% tags=["nbval-ignore-output"]
draw_flow(
    boxes,
    whole,
    "Which reader can tell these two notes apart?",
    "Arrows: what a reader of the whole note remembers; in chunks, each"
    " begins without a memory.",
    words=text_in,
    rows=["note 1", "note 2"],
    frames={
        f"a next word's probability moves by up to {moved['whole']:.2f}"
        f" read whole, {moved['chunks']:.2f} read in chunks": list(boxes)
    },
)

# %% [markdown]
# Did she bleed before the heparin or after it? A model that reads in chunks cannot
# tell: it has the same $h_i$ for both notes, the sum
# $c_t = \sum_i a_{t,i} h_i$ does not depend on their order, and the decoder begins
# with the ends of the outer chunks, which stay where they are.

# %% [markdown]
# ## Recap
#
# - **Additive attention** is a softmax over $v \cdot \tanh(W_h h_i + W_d
#   s_t)$, with minus infinity on padding.
# - **The mixture** is $p_\text{gen}$ times the vocabulary's distribution, plus
#   $1 - p_\text{gen}$ times the attention, added up by word.
# - **A word outside the vocabulary** gets an id after its end, for this note.
# - **The loss** joins two logarithms by `logaddexp`. A clamp takes its gradient
#   away where it is needed most.
# - **Your model** hands state, cell and context from step to step.
# - **In the race** the Transformer can spell new names and does not write them: its
#   training never made it copy.
#
# ## Test yourself
#
# 1. A word has the attention 0.2, 0.1 and 0.3 at three places of the note.
#    $p_\text{gen}$ is 0.5 and the vocabulary gives it 0.02. What is its
#    probability?
#
# <details><summary>Answer</summary>
# 0.5 * 0.02 + 0.5 * 0.6 = 0.31.
# </details>
#
# 2. Two notes of a batch each have one word outside a vocabulary of 1,000.
#    Both have the id 1,000. Is that a mistake?
#
# <details><summary>Answer</summary>
# No. An extended id is valid for one note only.
# </details>
#
# 3. Somebody gives the model without a pointer the new names as extra words of its
#    vocabulary, and reports that it writes 0% of them. What did the experiment show?
#
# <details><summary>Answer</summary>
# Nothing: a word that is never a target is never written. A rival must be able to win.
# </details>
#
# ## What comes next
#
# In your own summaries, count the words that the note has and the vocabulary lacks.
#
# With lists of ten drugs, a model that copies begins to repeat itself.
# [Lesson 17](17_coverage_and_beam_search.ipynb) tells it where it has been, and
# searches for better summaries.
#
# If you know the document that this lesson follows,
# [What holds](../course/book/what_holds.md#16-pointer-generator)
# says which of its claims hold.
