# %% [markdown]
# # 16 · Pointer-generator
#
# 130 minutes · Prerequisites: 15
#
# You will be able to:
#
# - Tell how many unseen names a pointer recovers, over seeds.
# - Compute additive attention over a padded note.
# - Compute the distribution that mixes generating and copying.
# - Give a word outside the vocabulary an id that can be copied.
# - Compute the loss in log space for the target words alone.
# - Tell what an encoder in chunks cannot know, and what a gate does not say.

# %% [markdown]
# ## Can a model write a name that it has never read?
#
# A program reads clinical notes and writes short summaries of them. It was
# trained on nearly two thousand notes. Today's note names a drug that none of
# them mentions. What will the summary say?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: what this lesson uses
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from ehr_course.batches.notes import NoteDataset
from ehr_course.errors import InputError
from ehr_course.evaluation.summaries import names_recovered
from ehr_course.exercises import check, hint, progress
from ehr_course.generation.search_settings import BeamSettings
from ehr_course.generation.summaries import summarize
from ehr_course.generation.summary_trace import trace_summary
from ehr_course.losses import log_mixture
from ehr_course.models.pointer_generator import (
    PointerGenerator,
    PointerGeneratorConfig,
)
from ehr_course.plots.drawings.copy_gate import draw_clamp, draw_gates
from ehr_course.plots.drawings.note_readers import draw_chunks, draw_lstm
from ehr_course.plots.drawings.pointer_generator import (
    draw_mixture,
    draw_step,
)
from ehr_course.plots.drawings.unseen_names import (
    draw_extended_ids,
    draw_recovered,
)
from ehr_course.sources.notes import choose_notes, real_notes, split_notes
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import (
    drug_names,
    make_cohort,
    make_notes,
)
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.generation_trace import generation_trace_player

torch.set_num_threads(1)  # such small steps are faster on one core

# %% tags=["hide-input"]
# set-up: the notes, split by patient; real ones if a file is named
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
# The notes are invented, one for each patient of the embedded hospital, with
# one drug each. The new notes name drugs that no training note has; the names
# are real. (If `EHR_COURSE_NOTES` names a file, its notes are read instead.)

# %%
if not real:
    print(new[0].note)
    print("summary:", new[0].summary)

# %% [markdown]
# The vocabulary consists of the words of the training notes, so the new names
# stand outside it.

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

# %% tags=["hide-input"]
# check: no name is in the vocabulary
assert not names & set(tokenizer.vocabulary)
assert real or names <= set(drug_names("unseen"))

# %% [markdown]
# Two kinds of model learn from the same notes. A *pointer* can point at a word
# of the note and copy it. *Generation only* picks each word from its
# vocabulary. To be fair, it gets the new names as additional words of its
# vocabulary, and at least twice as many steps. Training takes a minute or two.

# %% tags=["hide-input"]
# set-up: train a model, let it write, count the names
wider = WordTokenizer({*tokenizer.vocabulary, *names})
assert len(wider) == len(tokenizer) + len(names)


def trained(tokenizer, pointer, seed, steps):
    config = PointerGeneratorConfig.for_tokenizer(
        tokenizer, pointer=pointer
    )
    torch.manual_seed(seed)
    model = PointerGenerator(config)
    data = NoteDataset(pairs, tokenizer, max_source=200)
    train(
        model,
        data,
        steps=steps,
        batch_size=16,
        lr=1e-2,
        warmup_steps=20,
        max_grad_norm=2.0,
        group_by_length=True,  # shorter loops; notes differ little
        seed=seed,
        progress=False,
    )
    return model.eval()


def written_by(model, tokenizer, notes=None):
    likeliest = BeamSettings(
        beams=1, no_repeat_ngram_size=0, max_length=40
    )
    notes = notes or [pair.note for pair in new]
    return summarize(
        model,
        tokenizer,
        notes,
        settings=likeliest,
        batch_size=50,
        max_source=200,
    )


references = [pair.summary for pair in new]


def recovered(summaries):
    written = [summary.text for summary in summaries]
    return names_recovered(written, references, names)


# %% tags=["nbval-ignore-output"]
longer = 400 if PROFILE == "tiny" else 800
n_seeds = 1 if real else 3  # real notes take longer
by_pointer, by_generating = [], []
for seed in range(SEED, SEED + n_seeds):
    pointer = trained(tokenizer, True, seed, steps=200)
    generator = trained(wider, False, seed, steps=longer)
    by_pointer.append(written_by(pointer, tokenizer))
    by_generating.append(written_by(generator, wider))
    if seed == SEED:
        pointing, generating = pointer, generator  # used below
shares = {
    "pointer": [recovered(run) for run in by_pointer],
    "generation only": [recovered(run) for run in by_generating],
}

# %% tags=["nbval-ignore-output"]
draw_recovered(shares, len(names))

# %% tags=["hide-input"]
# check: with each seed the pointer finds nearly all names, generation none
assert real or min(shares["pointer"]) > 0.9
assert real or max(shares["generation only"]) == 0


# %% [markdown]
# The pointer writes words that it has never seen. The other model has an id
# for each of them and writes none: in training, none of them was ever the
# right next word. Does it at least leave a gap?

# %% tags=["nbval-ignore-output"]
def begins_right(summaries):
    written = [summary.text.split()[:4] for summary in summaries]
    right = [reference.split()[:4] for reference in references]
    return sum(a == b for a, b in zip(written, right)) / len(right)


for name, runs in zip(shares, (by_pointer, by_generating)):
    begins = [f"{begins_right(summaries):.0%}" for summaries in runs]
    print(f"{name}: begin with the right patient:", *begins)
    print("   ", runs[0][0].text[:70])
drugs = set(drug_names("common"))
invented = []
for summaries in by_generating:
    used = [drugs & set(tokenizer.words(s.text)) for s in summaries]
    invented.append(sum(map(bool, used)) / len(new))
print("generation only: with a drug of the training notes:", end=" ")
print(*(f"{share:.0%}" for share in invented))

# %% tags=["hide-input"]
# check: it writes drugs that it knows
assert real or min(invented) > 0.5

# %% [markdown]
# It does not. It writes a drug that it knows, and nothing in the sentence
# shows that nobody gave it. Its patients are mostly wrong too. Longer training
# mends most of that, but not the drugs: try `longer = 800`. How can the pointer
# write what it has never seen?
#
# ## One drawing of everything
#
# Let the pointer write a summary. `step` reads the last word and says what
# could come next; the loop takes the likeliest word each time.

# %% tags=["nbval-ignore-output"]
ids, oov = tokenizer.encode_note(new[0].note)
source = pointing.encode(torch.tensor([ids]))
state = pointing.first_state(source)
written, heard = [tokenizer.bos_id], []
while written[-1] != tokenizer.eos_id and len(heard) < 30:
    said = pointing.step(torch.tensor([[written[-1]]]), state, source)
    state = said.state
    heard.append(said)
    written.append(int(said.log_probs.argmax()))
every_id = range(len(tokenizer) + len(oov))
words = [tokenizer.piece(i, oov) for i in every_id]
print(" ".join(words[i] for i in written))

# %% [markdown]
# Here is the step in which it writes the name:

# %% tags=["nbval-ignore-output"]
outside = [n for n, i in enumerate(written) if i >= len(tokenizer)]
t = outside[0] if outside else 1
note_words, so_far = ([words[i] for i in x] for x in (ids, written[:t]))
draw_step(pointing, note_words, ids, so_far, heard[t - 1], words)

# %% [markdown]
# Read it from the bottom up.
#
# - **Reading.** One network reads the note and leaves a state $h_i$, a row of
#   numbers, at each place $i$.
# - **Writing.** A second one, the decoder, makes a step $t$ for each word of
#   the summary. It reads the last word and $c_{t-1}$, what the step before took
#   from the note ([input feeding](../course/book/glossary.md)). Its state is
#   $s_t$.
# - **Looking.** Attention compares $s_t$ with each $h_i$ and spreads the
#   weights $a_t$ over the note. The states under these weights add up to the
#   [context](../course/book/glossary.md) $c_t$.
# - **Saying.** One distribution is over the vocabulary, one over the words of
#   the note. The gate [p_gen](../course/book/glossary.md) weights them.
#
# $P_\text{vocab}$ looks broken: after "with" it would write "with" again. But
# its weight here is nearly 0, so it hardly affects the loss, and training
# hardly corrects it.
#
# ## Two LSTMs
#
# An [LSTM](../course/book/glossary.md) reads one word after the other and
# carries a memory along, the *cell state*. At each word three gates, made of
# numbers between 0 and 1, decide how much of it is kept, how much is added and
# how much is shown. What is shown is the *state*.
#
# One LSTM reads the note forwards and one backwards. To see what each of them
# knows, replace one word and see which states change.

# %% tags=["nbval-ignore-output"]
line = ids[1:8]
changed = list(line)
changed[3] = 10 if line[3] != 10 else 11  # any other word
before, after = (
    pointing.encode(torch.tensor([row])).states[0].detach()
    for row in (line, changed)
)  # (source, 2 hidden)
halves = (before - after).abs().unflatten(1, (2, -1))
moved = halves.amax(dim=2).T  # (2, source): forwards, backwards
draw_lstm(pointing.encoder.lstm, [words[i] for i in line], 3, moved)

# %% tags=["hide-input"]
# check: only states that come after the word, in reading order, move
assert (moved[0, :3] == 0).all() and (moved[0, 3:] > 0).all()
assert (moved[1, 4:] == 0).all() and (moved[1, :4] > 0).all()


# %% [markdown]
# $h_i$ is both halves side by side: the word *in its place*, with what comes
# before it and after it. So a pointer need not know a word to find it. Put
# nonsense in place of each name, and then words that it knows:

# %% tags=["nbval-ignore-output"]
def believed(word):  # how many summaries say: treated with this word
    notes = []
    for pair in new:
        found = [w for w in tokenizer.words(pair.note) if w in names]
        notes.append(pair.note.replace(found[0] if found else word, word))
    summaries = written_by(pointing, tokenizer, notes)
    print(summaries[0].text[:75])
    return sum(f"treated with {word}" in s.text for s in summaries)


nonsense = "xyzzy"
times = {word: believed(word) for word in (nonsense, "chest", "weight")}
print(times, "of", len(new))

# %% tags=["hide-input"]
# check: a word that nobody knows is copied from the place of the drug
assert real or nonsense in tokenizer.vocabulary or times[nonsense] > 80


# %% [markdown]
# A word that nobody knows is copied from the place of a drug, drug or not.
# Known words differ: here "chest" is copied every time, "weight" never. A
# known word brings its own meaning into the state; an unknown one brings none.
#
# ## Where to look
#
# [Additive attention](../course/book/glossary.md) gives each place a score,
# and a softmax turns the scores into weights:
#
# $$e_{t,i} = v \cdot \tanh(W_h h_i + W_d s_t) \qquad
# a_t = \text{softmax}(e_t) \qquad c_t = \sum_i a_{t,i} h_i$$
#
# In lesson 11 the score was a product of two vectors. Here they are added, and
# $\tanh$ and $v$ make one number of the sum. In the drawing, the weights are
# the bars over the note.
#
# ### 16.1 Additive attention
#
# Try It Yourself · ★★ · 9 minutes
#
# `query` has the shape (batch, hidden), `states` (batch, source, width),
# `mask` (batch, source): 1 on words and 0 on padding, each row with at
# least one word. `w_h`, the $W_h$ above, has the shape (hidden, width),
# `w_d` (hidden, hidden) and `v` (hidden,); like the weights of
# `nn.Linear` they are (output, input). Return the pair `weights` (batch,
# source) and `context` (batch, width). Padding gets the weight 0,
# whatever the scores are: a model's scores can be several hundred, of
# either sign.
#
# Example: for `query = [[0.0]]`, `states = [[[1.0], [1.0], [5.0]]]`,
# `mask = [[1, 1, 0]]`, `w_h = [[1.0]]`, `w_d = [[1.0]]` and `v = [1.0]`,
# as tensors, the result is `[[0.5, 0.5, 0.0]]` and `[[1.0]]`.

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
# ### A note with nothing to look at
#
# Why not give padding the score -10,000 before the softmax? That is far below
# any other score, and still a number. Take two notes, the second of them empty,
# and try -10,000 and minus infinity.

# %% tags=["claim:44"]
scores = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
mask = torch.tensor([[1, 1, 0], [0, 0, 0]])  # the second note is empty
filled = {}
for number in (torch.float32, torch.float16):
    for fill in (-1e4, -torch.inf):
        some = scores.to(number).masked_fill(mask == 0, fill)
        filled[number, fill] = some.softmax(dim=1)
        rows = filled[number, fill].tolist()
        print(number, fill, [[round(x, 3) for x in row] for row in rows])
    even = filled[number, -1e4][1]
    assert (even == even[0]).all() and abs(even[0] - 1 / 3) < 1e-3
    assert filled[number, -torch.inf][1].isnan().all()
    assert filled[number, -torch.inf][0, 2] == 0
try:
    pointing.encode(torch.tensor([[1, 2, 3]]))  # <s>, </s>, <pad>
except InputError as error:
    print(error)

# %% [markdown]
# With -10,000 the empty note gets even weights: the decoder looks at padding,
# and nobody is told. With minus infinity the row is nan, which at least shows.
# The library uses minus infinity and refuses a note without a word.
#
# ## To generate or to copy
#
# $P_\text{vocab}$ is the usual distribution: a linear layer and a softmax over
# the vocabulary. The
# [copy distribution](../course/book/glossary.md) $P_\text{copy}$ is the
# attention, added up for each word over all places where the note has it. The
# gate weights them:
#
# $$P(w) = p_\text{gen}\,P_\text{vocab}(w) + (1 - p_\text{gen})
# \sum_{i:\,x_i = w} a_{t,i}$$
#
# In the step of the drawing the gate is nearly closed. Here is the step of the
# same summary in which it is nearest to one half:

# %% tags=["nbval-ignore-output"]
halfway = min(heard, key=lambda said: abs(said.p_gen.item() - 0.5))
draw_mixture(ids, halfway, words)

# %% [markdown]
# The vocabulary bets on `</s>`, the note on "home". One bet is wrong: ended
# here, the summary would not say where the patient went. A few points decide.
#
# Now see all steps. The darker a word of the note, the more attention it gets;
# a dashed frame marks a word outside the vocabulary. The bar is the gate: empty
# for copying, full for generating. Move the slider back by one word: "with" is
# not in the note, and the bar is full. Then choose the model that cannot copy:
# at its drug the attention is spread over the note.

# %% tags=["hide-input"]
# set-up: the summaries of two notes, word by word, by two models
traces = {
    f"{name}, note {n + 1}": trace_summary(
        model, its_words, new[n].note, max_length=24
    )
    for n in range(2)
    for name, model, its_words in (
        ("pointer", pointing, tokenizer),
        ("generation only", generating, wider),
    )
}
steps = traces["pointer, note 1"].steps
at_name = [n for n, s in enumerate(steps, start=1) if s.written in names]

# %% tags=["widget", "nbval-ignore-output"]
generation_trace_player(traces, word=(at_name or [1])[0])


# %% [markdown]
# The gate is a linear layer with one output and a sigmoid. It reads what the
# dashed frame of the first drawing holds: the context, the decoder's state and
# the embedding of the last word.
#
# ### 16.2 The generation probability
#
# Try It Yourself · ★ · 6 minutes
#
# `context` has the shape (batch, width), `state` (batch, hidden),
# `embedded` (batch, embedding). `weight` is a vector as long as the three
# together, for the features in the order context, state, embedding;
# `bias` is a number. Return `p_gen`, of the shape (batch,).
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
# ### 16.3 Mix the distributions
#
# Try It Yourself · ★★ · 8 minutes
#
# `p_vocab` has the shape (batch, vocab), `attention` (batch, source),
# `p_gen` (batch,). `ids` (batch, source) says which word stands at each
# place of the note; ids from vocab on are extended ids, and `n_outside` is
# the largest number of them that a note of the batch has. Return the mixed
# distribution, of the shape (batch, vocab + n_outside). Leave the
# arguments as they are.
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
# ### May everything be copied?
#
# The simplest model may point at every place of the note, `<s>` and `</s>`
# included. Take an untrained model and 16 of the new notes, and compare
# with pointing at words alone, at the first word of the summary.

# %% tags=["claim:42", "hide-input"]
# the probability of an end, with and without special tokens to copy from
torch.manual_seed(SEED)
fresh = PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer))
fresh.eval()
batch = new_data.batch(range(min(16, len(new))))
masked = fresh.encode(batch["input_ids"], batch["attention_mask"])
every_place = masked._replace(copyable=batch["attention_mask"].bool())
start = torch.full((len(batch["labels"]), 1), tokenizer.bos_id)
p_end = {}
for name, places in {"words": masked, "everything": every_place}.items():
    step = fresh.step(start, fresh.first_state(places), places)
    p_end[name] = step.log_probs[:, 0, tokenizer.eos_id].exp().mean()
    print(f"copy from {name}: P(</s>) = {p_end[name]:.4f}")
assert p_end["everything"] > 3 * p_end["words"]

# %% [markdown]
# Attention on `</s>` of the note becomes probability of ending the summary:
# here one place of about fifty, times a gate of about one half. A model has to
# learn not to look there. The library masks special tokens as it masks padding.
#
# ## Names for words outside
#
# To copy a word, the mixture needs an id for it. `encode` turns a word outside
# the vocabulary into `<unk>`, and what it was is lost. `encode_note` gives the
# first such word of a note the first id behind the vocabulary, the next one
# the next. This [extended id](../course/book/glossary.md) counts for one note
# only. The picture shows notes with up to three new drugs. ("added" and "had"
# are new too: only notes with several drugs use them.)

# %%
more = [pair.note for pair in new[:3]]
if not real:
    options = {"drugs": "unseen", "medications": (1, 3), "seed": SEED}
    more = [pair.note for pair in make_notes(others[:3], **options)]
vocabulary = [tokenizer.piece(i) for i in range(len(tokenizer))]
draw_extended_ids(vocabulary, [tokenizer.encode_note(t) for t in more])


# %% [markdown]
# ### 16.4 An extended vocabulary
#
# Try It Yourself · ★★ · 9 minutes
#
# `note` and `summary` are lists of words, `vocabulary` is the list of the
# known ones: the place of a word is its id, and `<unk>` has id 0. Return
# three lists: the ids of the note, the ids of the summary, and the words
# of the note outside the vocabulary, each once, in the order in which the
# note has them first. The first of these has the id `len(vocabulary)`,
# the next one more, and so on. A word of the summary that neither the
# vocabulary nor the note has is `<unk>`. Add no `<s>` and no `</s>`.
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

# %% [markdown]
# ### Or no word outside at all
#
# You could cut words into subwords instead, as in lesson 07: no word is
# outside then. Train such a tokenizer on the training notes, and look at the
# names.

# %% tags=["claim:35", "hide-input", "nbval-ignore-output"]
# the names in subwords
subwords = NoteTokenizer.train(texts[:4_000], vocab_size=500)
neighbours = {
    pair for text in texts for pair in pairwise(subwords.pieces(text))
}
unknown, lengths, never_seen = 0, [], 0
for name in sorted(names):
    pieces = subwords.pieces(name)
    unknown += subwords.unk_id in subwords.encode(name)
    lengths.append(len(pieces))
    never_seen += not set(pairwise(pieces)) <= neighbours
print(f"{len(names)} names: {unknown} with an unknown piece,")
print(f"{sum(lengths) / len(names):.1f} pieces each on average;")
print(f"{never_seen} have a pair of pieces that no training text has")
assert real or (unknown == 0 and never_seen > 0.5 * len(names))
assert real or sum(lengths) / len(names) > 3

# %% [markdown]
# Each name can be represented, as a row of several pieces, so extended ids are
# no longer needed. But each row has pieces that never stood side by side in
# training: to generate it is to spell what was never seen spelled. Copying
# follows the note. (Neither is tried here.)

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - A pointer recovers names that it never met; generation alone invents drugs.
# - Attention, added up by word, is a distribution to copy from. The gate mixes
#   it with the one over the vocabulary.
# - A word outside the vocabulary gets an extended id, for one note.
#
# The second half trains the mixture without losing its gradient, reads a note
# in parts, and asks what the gate says. To come back, choose the next cell and
# *Run > Run All Above Selected Cell*; it takes two or three minutes.

# %% [markdown]
# ## The loss
#
# The loss is $-\log P$ of the right word. Only the probability of this one
# word is needed, not the mixed distribution over the whole vocabulary. Many
# programs keep its logarithm finite by `log(p.clamp(min=1e-8))`. Here is
# a word that can only be generated, with a `p_gen` of one half:

# %% tags=["claim:43", "hide-input"]
# both losses and their gradients; and the clamp in float16
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
half = torch.tensor([1e-8]).half()
print("1e-8 in float16:", half.item(), "and its logarithm:", half.log())
assert half == 0 and half.log().isneginf()

# %%
draw_clamp((-torch.tensor(ways["in log space"])).tolist(), ways, slopes)


# %% [markdown]
# Below 1e-8, whose logarithm is about -18, the clamped loss is a constant. Its
# gradient is 0 just where the model is most wrong. In float16 the guard itself
# becomes 0 and guards nothing. In log space the gradient is the same at every
# depth.
#
# ### 16.5 The loss in log space
#
# Try It Yourself · ★★★ · 12 minutes
#
# Compute the loss of `n` target words without leaving log space. `logits`
# (n, vocab) belong to $P_\text{vocab}$. `scores` (n, source) are the
# attention scores before the softmax, minus infinity on padding and special
# tokens. `gate` (n,) is the *logit* of $p_\text{gen}$. `ids` (n, source) are
# the ids of the note's words and `targets` (n,) those of the right words; both
# may hold extended ids. Return the mean of $-\log P$ over the targets.
#
# A target can be
#
# - in the vocabulary, and at one place of the note or several;
# - in the vocabulary alone: the note lacks it, or has it only where the score
#   is minus infinity;
# - outside the vocabulary: then it has a place with a finite score.
#
# Probabilities may be smaller than any number of float32 or float64, from
# either softmax or from the gate: value and gradients must be right there too,
# and never nan. Write `pointer_loss` only. The check calls
# `value_and_gradients`, and its messages count: [0] is the loss, [1] to [3] are
# the gradients on logits, scores and gate.
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
# ## A note in chunks
#
# An LSTM reads one word after the other, so a long note takes long. You
# might cut it into [chunks](../course/book/glossary.md#chunk) and read each
# one as a note of its own, all of them side by side in a larger batch. Give the
# trained pointer the first four chunks of 8 words of a note, and the same words
# with the two inner chunks swapped. Then let the same weights read both in
# chunks. (They never trained that way: this is about what a reader can know.)

# %% tags=["claim:41", "nbval-ignore-output"]
fields = pointing.config.to_dict() | {"chunk_length": 8}
chunked = PointerGenerator(PointerGeneratorConfig.from_dict(fields))
chunked.load_state_dict(pointing.state_dict())  # the same parameters
longest = int(new_data.lengths.argmax())
batch = new_data.batch([longest])
note = batch["input_ids"][:, 1:33]  # (1, 32), without <s>
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

# %% tags=["nbval-ignore-output"]
its_oov = new_data.oov[longest]
text = [tokenizer.piece(i, its_oov) for i in note[0].tolist()]
chunks = [text[start : start + 8] for start in range(0, 32, 8)]
draw_chunks(chunks, (0, 2, 1, 3), moved)


# %% [markdown]
# Reading in chunks, the model knows which chunk is the first and which is the
# last, because the decoder starts from where the two directions end. Of the
# chunks in between it knows the words, but not in which order the chunks come.
# If "no history of" ends
# one chunk and "heart failure" begins the next, no state of the encoder has
# read both. Reading the note whole needs the same parameters, and the library
# does so unless you ask for chunks.
#
# ### 16.6 Read a note in chunks
#
# Try It Yourself · ★★★ · 12 minutes
#
# `read` is a small bidirectional reader. `read(rows, lengths)` takes
# `rows` (n, length) and `lengths` (n,), the number of tokens in each row;
# it refuses a row without a token. It returns the states (n, length, 2),
# forwards and backwards, 0 on padding, and the state in which each
# direction ends, (n, 2). `tokens` (batch, source) are notes of `lengths`
# (batch,) tokens; on padding they may be any number. `chunk` is the number
# of tokens in a chunk; the last one of a note may have fewer, every other
# one has exactly that many. Let `read` read each chunk by itself. Return the
# states (batch, source, 2), 0 on padding, even where every note is shorter
# than source, and the end of each note (batch, 2): forwards that of its
# last chunk, backwards that of its first. Not every note has a token in
# every chunk.
#
# Example: a reader that keeps half of its state makes of the tokens
# `[[1.0, 2.0, 3.0]]`, in chunks of 2, the forward states 1, 2.5 and 3,
# the backward states 2, 2 and 3, and the end `[[3.0, 2.0]]`.

# %% tags=["exercise:16.6", "nbval-ignore-output"]
def read_in_chunks(
    read: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    tokens: Tensor,
    lengths: Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("16.6: replace this line")


check("16.6", read_in_chunks)

# %% [markdown]
# ## What does the gate say?
#
# The gate looks like a decision: common words are generated, rare ones copied.
# Take all words that the pointer wrote for the new notes, and sort them by kind.
# $p_\text{gen}$ (left) is the chance of generating *before* the word is known.
# The right panel shows how much of the written word's probability was generated.

# %% tags=["hide-input", "nbval-ignore-output"]
# set-up: p_gen and the generated share of each written word, by kind
goes, generated = ("home", "rehabilitation"), ("with", "treated")


def kind_of(word, note):
    place = "note has them" if word in note else "note lacks them"
    kinds = dict.fromkeys(("days", "."), "“days”, full stops")
    kinds |= dict.fromkeys(goes, "“home”, “rehabilitation”")
    kinds |= dict.fromkeys(generated, f"“with”, “treated”: {place}")
    kinds["</s>"] = "the end, </s>"
    if word in names:
        return "unseen names"
    return kinds.get(word, f"other words: {place}")


before, after = defaultdict(list), defaultdict(list)
for pair in new:
    trace = trace_summary(pointing, tokenizer, pair.note)
    for step in trace.steps:
        kind = kind_of(step.written, set(trace.note[1:-1]))
        before[kind].append(step.p_gen)
        after[kind].append(1 - step.from_copying)
order = ("unseen names", "“days”, full stops", *sorted(before))
before = {kind: before[kind] for kind in order}

# %% tags=["nbval-ignore-output"]
draw_gates(before, after)

# %% [markdown]
# "days" and "with" are in every summary. "days" is copied, "with" generated, even
# if this note has it: most training notes lack it. (A name outside the
# vocabulary can only be copied, whatever $p_\text{gen}$ is.) At "home" the gate
# is half open, yet the word was copied: the vocabulary would have ended the
# summary. Do other seeds agree?

# %% tags=["hide-input", "nbval-ignore-output"]
# by seed: p_gen where the summary says where the patient went
for seed, summaries in enumerate(by_pointer, start=SEED):
    pieces = [zip(s.pieces, s.p_gen.tolist()) for s in summaries]
    there = [p for row in pieces for word, p in row if word in goes]
    wrong = sum(
        (goes[1] in reference) != (goes[1] in summary.text)
        for summary, reference in zip(summaries, references)
    )
    mean = sum(there) / max(len(there), 1)
    print(f"seed {seed}: p_gen {mean:.2f}; wrong place: {wrong} notes")

# %% tags=["hide-input", "nbval-ignore-output"]
# check: with each seed, by kind of word
lacking = [not set(generated) & set(p.note.split()) for p in pairs]
share = sum(lacking) / len(pairs)
print(f"training notes without “with” and “treated”: {share:.0%}")
for summaries in by_pointer:
    gates = defaultdict(list)
    for summary in summaries:
        note = set(summary.source_pieces[1:-1])
        for word, p in zip(summary.pieces, summary.p_gen.tolist()):
            gates[kind_of(word, note)].append(p)
    means = {kind: sum(v) / len(v) for kind, v in gates.items()}
    print({kind: round(mean, 2) for kind, mean in means.items()})
    assert real or means["unseen names"] < 0.1
    assert real or means["“days”, full stops"] < 0.5
    for which in ("has", "lacks"):
        kind = f"“with”, “treated”: note {which} them"
        assert real or means[kind] > 0.5
assert real or share > 0.5


# %% [markdown]
# Not at "home". One of these pointers generates there, and sends home all
# patients who went to rehabilitation. The gate is a weight that lowers the
# loss. Nothing makes it tell rare from common, or true from likely.
#
# ### 16.7 Where did this word come from?
#
# Try It Yourself · ★★★ · 15 minutes
#
# A physician checks a summary and wants to see where each word came from: the
# model's own vocabulary, or which place of the note. You have what the model
# said in each step, and the words that were written.
#
# Return the shares of each word, of the shape (n, 1 + source): first that of
# the vocabulary, then that of each place of the note. They sum to 1. A share is
# the probability that the word was written in this way, for somebody who knows
# which word it is.
#
# `log_vocab` (n, vocab) is the logarithm of $P_\text{vocab}$ in each step.
# `log_attention` (n, source) is that of the attention, minus infinity where
# nothing can be copied. `gate` (n,) is the *logit* of $p_\text{gen}$. `ids`
# (source,) are the ids of the note, and `written` (n,) those of the words
# written; both may hold extended ids. Each word can be written in at least
# one way. As in 16.5, probabilities may be smaller than any number of float32
# or float64.
#
# Example: two words are in the vocabulary, `ids = [0, 1]`, and in two steps
# `log_vocab` is the logarithm of `[[0.5, 0.5], [0.8, 0.2]]`, `log_attention`
# that of `[[0.5, 0.5], [0.2, 0.8]]`, and `gate = [0.0, 0.0]`. For
# `written = [1, 1]` the result is `[[0.5, 0.0, 0.5], [0.2, 0.0, 0.8]]`.

# %% tags=["exercise:16.7", "nbval-ignore-output"]
def word_origins(
    log_vocab: Tensor,
    log_attention: Tensor,
    gate: Tensor,
    ids: Tensor,
    written: Tensor,
) -> Tensor:
    raise NotImplementedError("16.7: replace this line")


check("16.7", word_origins)

# %% [markdown]
# ## Recap
#
# - **A pointer** recovers nearly all unseen names with each seed. Generation
#   alone recovers none and invents drugs.
# - **Additive attention** is a softmax over $v \cdot \tanh(W_h h_i + W_d
#   s_t)$, with minus infinity on padding before it.
# - **The mixture** gives a word $p_\text{gen}$ times its probability in the
#   vocabulary, and $1 - p_\text{gen}$ times the attention of all its places.
# - **A word outside the vocabulary** gets the next free id behind it, for this
#   note. It can only be copied.
# - **The loss** needs two logarithms for each target, joined by `logaddexp`. A
#   clamp takes the gradient away where it is needed most.
# - **An encoder in chunks** does not know the order of its inner chunks. **The
#   gate** does not tell rare words from common ones.
#
# ## Test yourself
#
# 1. A word stands at three places of the note, with the attention 0.2, 0.1
#    and 0.3. $p_\text{gen}$ is 0.5 and the vocabulary gives it 0.02. What is
#    its probability?
#
# <details><summary>Answer</summary>
# 0.5 * 0.02 + 0.5 * 0.6 = 0.31.
# </details>
#
# 2. Two notes of a batch each have one word outside a vocabulary of 1,000.
#    Both words have the id 1,000. Is that a mistake?
#
# <details><summary>Answer</summary>
# No. An extended id is a name within one note. The decoder reads both as
# `<unk>`, and whoever shows the summary looks the id up in the note it
# belongs to.
# </details>
#
# 3. Somebody plots $p_\text{gen}$ over a summary and says: where it is low,
#    the model found the medical terms. What would you look at?
#
# <details><summary>Answer</summary>
# At the other words: "days" and the full stop have a low $p_\text{gen}$ too. And
# at the shares of 16.7: $p_\text{gen}$ is set before the word is known.
# </details>
#
# ## What comes next
#
# You can now build a summariser that writes names it has never read, and show
# for each word where it came from. On your own notes, count the words of the
# summaries that the vocabulary lacks and the note has: that is what a pointer
# could gain.
#
# These notes name one drug each. With lists of ten, a model that copies begins
# to repeat itself. [17](17_coverage_and_beam_search.ipynb) tells it where it
# has been, and searches for better summaries than the likeliest word each time.

# %% [markdown]
# ## If you come from the tutorial
#
# What the source note of the summariser says of its sizes and of a worked
# example, measured.

# %% [markdown]
# **A worked step, worked again.** The source note computes one step for a
# sentence about thrombocytopenia. Its loop over the places of the note adds
# `weights[i]` to the word `ids[i]`. Follow it.

# %% tags=["claim:45", "hide-input"]
# a worked step: eight ids, six weights
sentence = "Patient has thrombocytopenia and requires monitoring."
ids = [1, 245, 89, 12453, 21, 1876, 3421, 2]  # <s> ... </s>
weights = [0.05, 0.12, 0.48, 0.23, 0.08, 0.04]
p_gen, p_vocab = 0.15, 0.0005  # of thrombocytopenia, id 12453
words = WordTokenizer(["patient"]).words(sentence)
print(f"{len(words)} words and marks, {len(ids) - 2} ids between <s> and")
print(f"</s>, {len(ids)} ids in all, {len(weights)} weights")
by_loop = p_gen * p_vocab + (1 - p_gen) * weights[ids.index(12453)]
by_word = p_gen * p_vocab + (1 - p_gen) * weights[ids[1:].index(12453)]
print(f"by its loop {by_loop:.6f}, by its text {by_word:.6f}")
assert round(by_word, 6) == 0.408075 and round(by_loop, 6) == 0.195575
assert (len(words), len(ids), len(weights)) == (7, 8, 6)


# %% [markdown]
# The printed result, 0.408075, follows from the printed formula. But the six
# weights belong to the six words, and the list of ids begins with `<s>`. The
# loop gives the word its neighbour's weight, 0.23, and then runs out of
# weights. One id is missing too: that of the full stop. (In the same list
# `<s>` and `</s>` stand among the words that can be copied.)
#
# **The parameters.** The source note gives its model 22,459,137 parameters and
# then a breakdown. Make the model at that size and count.

# %% tags=["claim:34", "hide-input"]
# the parameters, part by part
def count(part):
    return sum(weights.numel() for weights in part.parameters())


large = PointerGenerator(PointerGeneratorConfig())
encoder, decoder = large.encoder, large.decoder
rows = {
    "encoder's embedding": (encoder.embedding, 2_048_000),
    "encoder's LSTM": (encoder.lstm, 1_574_912),
    "decoder's embedding": (decoder.embedding, 2_048_000),
    "decoder's LSTM": (decoder.cells, 1_835_008),
    "attention": (decoder.attention, 197_120),
    "vocabulary": (decoder.vocabulary, 14_336_000),
    "p_gen": (decoder.p_gen, 896),
}
counted = {name: count(part) for name, (part, _) in rows.items()}
for name, (_, says) in rows.items():
    print(f"{name:20} {counted[name]:12,}   source note {says:12,}")
total, sum_of_parts = count(large), sum(says for _, says in rows.values())
print(f"{'together':20} {total:12,}   its parts    {sum_of_parts:12,}")
assert total == sum(counted.values()) == 22_459_137 != sum_of_parts
assert counted["encoder's LSTM"] == 2_367_488
assert counted["decoder's LSTM"] == 1_445_888
assert (counted["vocabulary"], counted["p_gen"]) == (14_352_000, 897)

# %% [markdown]
# The total is right, to the last one. The breakdown is not: both LSTMs have
# other numbers, some biases are missing, and its parts do not add up to the
# total. (There are two embeddings, attention has no bias and no coverage, and
# nothing lies between the two LSTMs.)
#
# **Five traps of the body are its statements.** Scores of padding are -10,000.
# Every place can be copied from. Subwords leave "no true OOV", and there is an
# extended vocabulary all the same. The loss is `log(p.clamp(min=1e-8))`. Notes
# are read in chunks of 128 words, which it calls hierarchical; nothing lies
# above the chunks.
#
# **The gate.** In its example "Patient" has a `p_gen` of 0.82, "has" 0.89 and
# the rare word 0.15, and it reads the gate as a decision between common and
# rare. It writes the features of the gate in two orders, in different places.
# Either works, as long as the weights were trained with it.
