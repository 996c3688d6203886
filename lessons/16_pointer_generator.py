# %% [markdown]
# # 16 · Pointer-generator
#
# 100 minutes · Prerequisites: 15
#
# You will be able to:
#
# - Compute additive attention over a padded note.
# - Compute the distribution that mixes generating and copying.
# - Give a word outside the vocabulary an id that can be copied.
# - Compute the loss in log space for the target words alone.
# - Tell what an encoder in chunks cannot know.
# - Measure how many unseen names a pointer recovers, over seeds.

# %% [markdown]
# ## Can a model write a name that it has never read?
#
# A program reads clinical notes and writes short summaries of them. It
# was trained on some thousand notes. Today's note names a drug that none
# of them had. What does the summary say? (The lesson goes through the
# source note of such a summariser, a technical description that makes
# claims to be measured. You do not need it.)

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
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

# %% [markdown]
# The notes are invented, one for each patient of the embedded hospital,
# with one drug each. They are split by patient, and the notes of the
# patients kept apart name drugs that no training note has. The names are
# real. (If `EHR_COURSE_NOTES` names a file, its notes are read instead,
# and the names are the words that only new notes have. What the lesson
# says of numbers holds for the invented notes.)

# %%
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
if not real:
    print(new[0].note)
    print("summary:", new[0].summary)

# %% [markdown]
# The vocabulary is made of the words of the training notes alone. So the
# name is outside of it. `encode` turns such a word into `<unk>`, and what
# it was is lost. `encode_note` keeps it: the first word outside the
# vocabulary gets the first id behind it, an *extended id*, for this note.

# %%
texts = [text for pair in pairs for text in (pair.note, pair.summary)]
tokenizer = WordTokenizer.from_texts(texts)
new_data = NoteDataset(new, tokenizer, max_source=200)
names = {
    word
    for pair, oov in zip(new, new_data.oov, strict=True)
    for word in tokenizer.words(pair.summary)
    if word in oov
}  # those that a summary needs, and the vocabulary lacks
if not real:
    assert names <= set(drug_names("unseen"))
print(f"{len(tokenizer)} ids, {len(names)} names outside, such as")
note, oov = tokenizer.encode_note(new[0].note)
print(oov, "with ids", [i for i in note if i >= len(tokenizer)])
assert not names & set(tokenizer.vocabulary)


# %% [markdown]
# Now two models, with the same data, the same seed and the same number of
# steps. The first one can point at a word of the note and copy it. The
# second one cannot: it generates each word from its vocabulary.

# %%
def trained(tokenizer, pointer, steps=200):
    config = PointerGeneratorConfig.for_tokenizer(
        tokenizer, pointer=pointer
    )
    torch.manual_seed(SEED)
    model = PointerGenerator(config)
    data = NoteDataset(pairs, tokenizer, max_source=200)
    options = {"batch_size": 16, "lr": 1e-2, "warmup_steps": 20}
    options |= {"max_grad_norm": 2.0, "seed": SEED, "progress": False}
    options["group_by_length"] = True  # shorter loops; notes differ little
    train(model, data, steps=steps, **options)
    return model.eval()


def written_by(model, tokenizer):
    likeliest = BeamSettings(
        beams=1, no_repeat_ngram_size=0, max_length=40
    )
    notes = [pair.note for pair in new]
    options = {"settings": likeliest, "batch_size": 50}
    return summarize(model, tokenizer, notes, **options, max_source=200)


references = [pair.summary for pair in new]


def recovered(summaries):
    written = [summary.text for summary in summaries]
    return names_recovered(written, references, names)


# %% tags=["nbval-ignore-output"]
pointing = trained(tokenizer, pointer=True)
generating = trained(tokenizer, pointer=False)
by_pointing = written_by(pointing, tokenizer)
by_generating = written_by(generating, tokenizer)
for name, summaries in {
    "pointer": by_pointing,
    "generation only": by_generating,
}.items():
    print(f"{name}: {recovered(summaries):.0%} of the names")
    for summary in summaries[:2]:
        print("  ", summary.text[:75])
assert real or recovered(by_pointing) > 0.9
assert recovered(by_generating) == 0

# %% [markdown]
# The pointer writes nearly all of the names, words that it has never
# seen. The other model writes none. (So it was with each of three seeds.)
# Does it at least leave a gap?

# %% tags=["nbval-ignore-output"]
drugs = set(drug_names("common"))
plausible = [
    bool(drugs & set(tokenizer.words(summary.text)))
    for summary in by_generating
]
share = sum(plausible) / len(plausible)
print(f"{share:.0%} of its summaries name a drug of the training notes")
assert real or share > 0.5

# %% [markdown]
# It does not. It writes a drug that it knows, and nothing in the sentence
# tells that nobody gave it. (Its patients do not fit either: after so few
# steps this model hardly reads the note. The pointer finds its way into
# the note sooner, because to copy is to look.)
#
# Is the comparison fair? The second model has no id for the names, and may
# need more time. So put the names into its vocabulary; no training note
# has them, as before. And in the profiles "small" and "full" give it four
# times as many steps.

# %% tags=["nbval-ignore-output"]
wider = WordTokenizer({*tokenizer.vocabulary, *names})
assert len(wider) == len(tokenizer) + len(names)
steps = 200 if PROFILE == "tiny" else 800
stronger = trained(wider, pointer=False, steps=steps)
by_stronger = written_by(stronger, wider)
could = recovered(by_stronger)
begins = [summary.text.split()[:4] for summary in by_stronger]
should = [reference.split()[:4] for reference in references]
fits = [b == s for b, s in zip(begins, should, strict=True)]
print(f"generation only, with ids for the names: {could:.0%} of them")
print(f"{sum(fits) / len(fits):.0%} of its summaries begin as they should")
assert real or could == 0


# %% [markdown]
# It could write each name, and writes none: in training none of them ever
# was the next word, so it has learned that none ever is. With 800 steps
# most of its summaries begin with the right patient, and some go on with
# the right illness. Then comes a drug of the training notes. (Three seeds.)
# Copying needs no such experience. How does it work?
#
# ## Where to look
#
# An LSTM reads the note in both directions and leaves a *state* $h_i$ at
# each word. Another one, the decoder, writes the summary; its own state
# is the *query* $s$. *Additive attention* compares the query with each
# state, and gives each word a weight:
#
# $$e_i = v \cdot \tanh(W_h h_i + W_d s) \qquad
# a = \text{softmax}(e) \qquad c = \sum_i a_i h_i$$
#
# The weighted sum $c$ is the *context*: what the decoder sees of the note
# at this step.
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
# whatever the scores are: those of a model may be some hundreds, of
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
# The source note gives padding the score -10,000 before the softmax. Take
# two notes, of which the second is empty, and fill in both ways.

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
# With -10,000 the empty note gets even weights: the decoder looks at
# padding, and nobody is told. With minus infinity the row is nan, which
# is at least loud. Both numbers exist in float16. The library uses minus
# infinity and refuses a note without a word before it comes to that.
#
# ## To generate or to copy
#
# At each step the decoder makes two distributions. $P_\text{vocab}$ is
# the usual one: a linear layer and a softmax over the vocabulary.
# $P_\text{copy}$ is the attention itself, read as the probability of
# pointing at a word. A gate between 0 and 1 weights them:
#
# $$P(w) = p_\text{gen}\,P_\text{vocab}(w) + (1 - p_\text{gen})
# \sum_{i:\,x_i = w} a_i$$
#
# The gate is a linear layer with one output and a sigmoid. It reads the
# context, the decoder's state and the embedding of the word just read.
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
#
# (The source note writes the features in two orders, in different places.
# Either works, as long as the weights were trained with it.)

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
# ### A worked step, worked again
#
# The source note computes one step for a sentence about
# thrombocytopenia. Here are its numbers. Its loop over the places of the
# note adds `weights[i]` to the word `ids[i]`. Follow it.

# %% tags=["claim:45"]
sentence = "Patient has thrombocytopenia and requires monitoring."
ids = [1, 245, 89, 12453, 21, 1876, 3421, 2]  # <s> ... </s>
weights = [0.05, 0.12, 0.48, 0.23, 0.08, 0.04]
p_gen, p_vocab = 0.15, 0.0005  # of thrombocytopenia, id 12453
words = WordTokenizer(["patient"]).words(sentence)
print(f"{len(words)} words and signs, {len(ids) - 2} ids between <s> and")
print(f"</s>, {len(ids)} ids in all, {len(weights)} weights")
by_loop = p_gen * p_vocab + (1 - p_gen) * weights[ids.index(12453)]
by_word = p_gen * p_vocab + (1 - p_gen) * weights[ids[1:].index(12453)]
print(f"by its loop {by_loop:.6f}, by its text {by_word:.6f}")
assert round(by_word, 6) == 0.408075 and round(by_loop, 6) == 0.195575
assert (len(words), len(ids), len(weights)) == (7, 8, 6)

# %% [markdown]
# The printed result, 0.408075, follows from the printed formula. But the
# six weights belong to the six words, and the list of ids begins with
# `<s>`. The loop gives the word its neighbour's weight, 0.23, and then
# runs out of weights. One id is missing too: that of the full stop.
#
# So may `<s>` and `</s>` be pointed at? In the list of the source note
# they stand among the words. Take an untrained model and 16 of the new
# notes, and let it point at every place, `<s>` and `</s>` too, or at words
# alone.

# %% tags=["claim:42"]
torch.manual_seed(SEED)
fresh = PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer))
fresh.eval()
batch = new_data.batch(range(min(16, len(new))))
masked = fresh.encode(batch["input_ids"], batch["attention_mask"])
every_place = masked._replace(copyable=batch["attention_mask"].bool())
start = torch.full((len(batch["labels"]), 1), tokenizer.bos_id)
p_end = {}
for name, source in {"words": masked, "everything": every_place}.items():
    step = fresh.step(start, fresh.first_state(source), source)
    p_end[name] = step.log_probs[:, 0, tokenizer.eos_id].exp().mean()
    print(f"copy from {name}: P(</s>) = {p_end[name]:.4f}")
assert p_end["everything"] > 3 * p_end["words"]


# %% [markdown]
# What falls on `</s>` of the note becomes probability of ending the
# summary: here several times as much as before. A model can learn not to
# look there, at the price of learning it. The library masks special
# tokens like padding, and `</s>` can only be generated.
#
# ## Names for words outside
#
# Now to the ids. The vocabulary is closed, and each note brings words of
# its own.
#
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
# The source note cuts words into subwords, with SentencePiece, says that
# there is "no true OOV" (no word out of the vocabulary), and has an
# extended vocabulary all the same. Train such a tokenizer on the training
# notes, and look at the names.

# %% tags=["claim:35", "nbval-ignore-output"]
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
print(f"{never_seen} have two pieces side by side as no training text")
assert real or (unknown == 0 and never_seen > 0.5 * len(names))
assert real or sum(lengths) / len(names) > 3

# %% [markdown]
# It is true: each name can be represented. But as a row of several
# pieces, and most have pieces side by side that were never so in
# training. A model that only generates has to spell what it has never
# seen spelled; one that copies has to follow the note, piece by piece.
# So subwords make extended ids needless, not copying. With a closed
# vocabulary of words, a copy needs extended ids too.
#
# ## The loss
#
# The loss is $-\log P$ of the right word. Only its probability is needed:
# there is no use in a mixed distribution over the whole vocabulary (the
# source note's has 16,000 entries) at each step.
# And there is a trap: the source note computes `log(p.clamp(min=1e-8))`.

# %% tags=["claim:43", "nbval-ignore-output"]
gate, nowhere = torch.tensor(0.0), torch.tensor(-torch.inf)
print(" log P_vocab   clamped: loss, gradient  in log space")
for value in (-5.0, -15.0, -25.0):
    found = []
    for log_space in (False, True):
        log_p = torch.tensor(value, requires_grad=True)
        p = gate.sigmoid() * log_p.exp()
        loss = -p.clamp(min=1e-8).log()
        if log_space:
            loss = -log_mixture(log_p, nowhere, gate)
        loss.backward()
        found += [round(loss.item(), 3), log_p.grad.item()]
    print(f"{value:12}", "".join(f"{x:12}" for x in found))
assert found[1] == 0 and found[3] == -1
half = torch.tensor([1e-8]).half()
print("1e-8 in float16:", half.item(), "and its logarithm:", half.log())
assert half == 0 and half.log().isneginf()


# %% [markdown]
# Below 1e-8 the loss of the source note is a constant: its gradient is 0,
# just where the model is most wrong. In float16 the guard itself is 0, and
# guards nothing. In log space the gradient is the same at every depth.
#
# ### 16.5 The loss in log space
#
# Try It Yourself · ★★★ · 12 minutes
#
# Compute the loss of `n` target words without leaving log space. `logits`
# (n, vocab) belong to $P_\text{vocab}$. `scores` (n, source) are the
# attention scores before the softmax, minus infinity where nothing can be
# copied: on padding and special tokens. `gate` (n,) is the *logit* of
# $p_\text{gen}$. `ids` (n, source) are the ids of the note's words and
# `targets` (n,) those of the right words; both may hold extended ids.
# Return the mean of $-\log P$ over the targets. A target of the
# vocabulary may be missing from the note, or stand only at places that
# cannot be copied. A target outside the vocabulary always stands at a
# place that can be copied. Probabilities may be smaller than any number of
# float32 or float64, from either softmax or from the gate: value and
# gradients must be right there too, and never nan.
#
# `value_and_gradients` is complete: it calls your `pointer_loss`, so that
# the check can compare its value and its gradients. In the messages, [0]
# is the value, and [1], [2] and [3] are the gradients on logits, scores
# and gate.
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
# ## The whole model, counted
#
# The source note gives its model 22,459,137 parameters and then a
# breakdown. Make the model at that size and count.

# %% tags=["claim:34"]
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
# The total is right, to the last one. The breakdown is not: both LSTMs
# have other numbers, some biases are missing, and its parts do not add up
# to the total. (The embeddings are two, attention has no bias and no
# coverage, and nothing lies between the two LSTMs.)
#
# ## A note in chunks
#
# The source note reads long notes in chunks of 128 words, each as if it
# were a note of its own, and calls that hierarchical. All chunks of all
# notes go through the LSTM side by side, as one larger batch.
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
# one has exactly so many. Let `read` read each chunk by itself. Return the
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
# What do chunks know of each other? Take the trained model, and the same
# weights once more with chunks of 8 words. Give both a note of four
# chunks, and the same note with its second and third chunk exchanged.

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
    print(f"read {name}: probabilities change by up to {moved[name]:.4f}")
assert count(chunked) == count(pointing)
assert moved["chunks"] < 1e-4 and moved["whole"] > 1e-3

# %% [markdown]
# To an encoder in chunks the two notes are the same. It knows which chunk
# is the first and which the last, from the ends of its two directions; of
# those between, only that they are there. Nothing lies above the chunks,
# so it is no hierarchy. The LSTM that reads the note whole has the same
# parameters, and does know. So the library's default is to read it whole.
#
# ## What does the gate say?
#
# The source note reads the gate as a decision: common words have a high
# $p_\text{gen}$ and are generated, rare ones a low one and are copied. In
# its example "Patient" has 0.82, "has" 0.89, and the rare word 0.15. Take
# all words that the model has written of the new notes, and sort them by
# two questions: is it one of the names, and does the note have it?

# %% tags=["nbval-ignore-output"]
gates = defaultdict(list)
by_word = defaultdict(list)
for summary in by_pointing:
    gate_of = summary.p_gen.tolist()
    for word, p in zip(summary.pieces, gate_of, strict=True):
        in_note = word in summary.source_pieces[1:-1]
        kind = "name" if word in names else "other word"
        gates[kind, "in the note" if in_note else "not there"].append(p)
        by_word[word].append(p)
for (kind, where), values in gates.items():
    mean = sum(values) / len(values)
    print(f"{kind}, {where}: p_gen {mean:.2f}, {len(values):,} words")
for word in ("treated", "with", "year", "old", "days", "."):
    if by_word[word]:
        mean = sum(by_word[word]) / len(by_word[word])
        print(f"   {word:8} {mean:.2f}")

# %% tags=["nbval-ignore-output"]
means = {key: sum(values) / len(values) for key, values in gates.items()}
assert real or means["name", "in the note"] < 0.1
assert real or means["other word", "in the note"] < 0.4
assert real or means["other word", "not there"] > 0.6
in_note = gates["other word", "in the note"]
mostly = sum(p < 0.5 for p in in_note) / max(1, len(in_note))
print(f"{mostly:.0%} of the other words in the note are copied")
assert real or mostly > 0.5
for word in ("days", "."):
    values = by_word[word]
    assert real or sum(values) / len(values) < 0.5

# %% [markdown]
# The names are copied, as the source note says. But so are most other
# words that stand in the note, common ones like "days" and the full stop.
# What is generated is mostly what the note lacks. So the gate does not
# tell rare from common. (Three seeds agree on the three groups. Single
# words differ: "year" and "old" are copied with two of the seeds and
# generated with the third.) It is a weight that lowers the loss, and
# nothing makes it mean more.
#
# ## See it
#
# Two new notes, word by word. The words of the note are the darker, the
# more attention they get; a dashed frame marks a word outside the
# vocabulary. The bar is the gate, and below are the likeliest words of
# both distributions and of their mixture. Step to the name. What would
# have been generated there? Then choose the model that cannot copy.

# %%
traces = {
    f"{name}, note {n + 1}": trace_summary(
        model, tokenizer, new[n].note, max_length=24
    )
    for n in range(2)
    for name, model in {
        "pointer": pointing,
        "generation only": generating,
    }.items()
}
steps = traces["pointer, note 1"].steps
at_name = [n for n, s in enumerate(steps, start=1) if s.written in names]

# %% tags=["widget", "nbval-ignore-output"]
generation_trace_player(traces, word=(at_name or [1])[0])

# %% [markdown]
# ## Recap
#
# - **Additive attention** is a softmax over $v \cdot \tanh(W_h h_i + W_d
#   s)$, with minus infinity on padding before it. The context is the sum
#   of the states under these weights.
# - **The mixture** gives a word $p_\text{gen}$ times its probability in
#   the vocabulary, and $1 - p_\text{gen}$ times the attention of all its
#   places.
# - **A word outside the vocabulary** gets the next free id behind it, for
#   this note. It cannot be generated, and can be copied.
# - **The loss** needs two logarithms for each target, joined by
#   `logaddexp`. A clamp takes the gradient from the worst words.
# - **An encoder in chunks** does not know in which order the chunks
#   between the first and the last stand.
# - **A pointer** recovers nearly all unseen names. Generation alone
#   recovers none, with or without an id for them.
#
# ## Test yourself
#
# 1. A word stands at three places of the note, with the attention 0.2,
#    0.1 and 0.3. $p_\text{gen}$ is 0.5 and the vocabulary gives it 0.02.
#    What is its probability?
#
# <details><summary>Answer</summary>
# 0.5 * 0.02 + 0.5 * 0.6 = 0.31.
# </details>
#
# 2. Two notes of a batch have each one word outside a vocabulary of 1,000.
#    Both words have the id 1,000. Is that a mistake?
#
# <details><summary>Answer</summary>
# No. An extended id is a name within one note. The decoder reads both as
# `<unk>`, and whoever shows the summary looks the id up in the note it
# belongs to.
# </details>
#
# 3. Somebody plots $p_\text{gen}$ over a summary and says: where it is
#    low, the model found the medical terms. What would you look at?
#
# <details><summary>Answer</summary>
# At the other words of the note. Here "days" and the full stop have a low
# $p_\text{gen}$ too, because the note has them. The gate tells where a
# word may come from, not what kind of word it is.
# </details>
#
# ## What comes next
#
# These notes name one drug each. With lists of ten a model that copies
# begins to repeat itself. [17](17_coverage_and_beam_search.ipynb) teaches
# it where it has been, and searches for better summaries than the
# likeliest word each time.
