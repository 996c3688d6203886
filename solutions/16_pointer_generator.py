# %% [markdown]
# # 16 · Pointer-generator: worked answers
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
import torch
from torch.nn.functional import logsigmoid, one_hot, pad

from ehr_course.exercises import check


# %% [markdown]
# ## 16.1 Additive attention
#
# The states and the query are brought to one width and added, so that the
# tanh sees both. One number comes out for each place. Padding gets minus
# infinity before the softmax: its exponential is exactly 0, and the
# weights of the words sum to 1. The context is made of the states as they
# are; the projection was for the scores alone.

# %% tags=["answer:16.1", "nbval-ignore-output"]
def additive_attention(query, states, mask, w_h, w_d, v):
    keys = states @ w_h.T  # (batch, source, hidden)
    asked = query @ w_d.T  # (batch, hidden)
    energy = torch.tanh(keys + asked[:, None])
    scores = energy @ v  # (batch, source)
    scores = scores.masked_fill(mask == 0, -torch.inf)
    weights = scores.softmax(dim=1)
    context = (weights[:, :, None] * states).sum(dim=1)
    return weights, context


check("16.1", additive_attention)


# %% [markdown]
# The alternative goes from note to note and never touches padding: it
# looks at the words that are there, and fills their weights into zeros.

# %% tags=["alternative:16.1", "nbval-ignore-output"]
def additive_attention(query, states, mask, w_h, w_d, v):
    weights = torch.zeros(mask.shape)
    contexts = []
    for row, words in enumerate(mask.bool()):
        seen = states[row, words]  # (words, width)
        energy = (seen @ w_h.T + w_d @ query[row]).tanh()
        weights[row, words] = (energy @ v).softmax(dim=0)
        contexts.append(weights[row, words] @ seen)
    return weights, torch.stack(contexts)


check("16.1", additive_attention)


# %% [markdown]
# ## 16.2 The generation probability
#
# A linear layer with one output over three things side by side: what the
# decoder sees in the note, where it is, and which word it has just read.
# The order is part of the trained weights.

# %% tags=["answer:16.2", "nbval-ignore-output"]
def generation_probability(context, state, embedded, weight, bias):
    features = torch.cat([context, state, embedded], dim=1)
    logit = features @ weight + bias  # (batch,)
    return torch.sigmoid(logit)


check("16.2", generation_probability)


# %% [markdown]
# A product with joined features is a sum of three products. The fast
# versions of such models use that: each part is computed where it is at
# hand, and nothing is joined.

# %% tags=["alternative:16.2", "nbval-ignore-output"]
def generation_probability(context, state, embedded, weight, bias):
    parts = (context, state, embedded)
    weights = weight.split([part.shape[1] for part in parts])
    products = [part @ w for part, w in zip(parts, weights, strict=True)]
    return 1 / (1 + torch.exp(-(sum(products) + bias)))


check("16.2", generation_probability)


# %% [markdown]
# ## 16.3 Mix the distributions
#
# A word of the note can be written in as many ways as it has places, and
# in one more if the vocabulary has it. They exclude each other, so their
# probabilities add up. `scatter_add` is made for that: where two places
# have the same id, both are added.

# %% tags=["answer:16.3", "nbval-ignore-output"]
def mixed_distribution(p_vocab, attention, p_gen, ids, n_outside):
    gate = p_gen[:, None]  # (batch, 1)
    outside = torch.zeros(len(p_vocab), n_outside)
    generated = torch.cat([gate * p_vocab, outside], dim=1)
    copied = (1 - gate) * attention  # (batch, source)
    return generated.scatter_add(1, ids, copied)


check("16.3", mixed_distribution)


# %% [markdown]
# The alternative writes out which place has which word, as a table of
# zeros and ones, and multiplies. That is the same sum, and a table of
# the size of the whole vocabulary for each place.

# %% tags=["alternative:16.3", "nbval-ignore-output"]
def mixed_distribution(p_vocab, attention, p_gen, ids, n_outside):
    size = p_vocab.shape[1] + n_outside
    table = one_hot(ids, size).float()  # (batch, source, size)
    p_copy = (attention[:, None] @ table)[:, 0]  # (batch, size)
    return torch.lerp(p_copy, pad(p_vocab, (0, n_outside)), p_gen[:, None])


check("16.3", mixed_distribution)


# %% [markdown]
# ## 16.4 An extended vocabulary
#
# The note alone says which extended ids there are: when a summary is to
# be written, nothing else is known. So the note comes first, and the
# summary is looked up in what it left. What neither has is `<unk>`.

# %% tags=["answer:16.4", "nbval-ignore-output"]
def extended_ids(note, summary, vocabulary):
    known = {word: i for i, word in enumerate(vocabulary)}
    outside = []
    for word in note:
        if word not in known and word not in outside:
            outside.append(word)
    first = len(vocabulary)
    extended = {word: first + i for i, word in enumerate(outside)}
    ids = known | extended
    note_ids = [ids[word] for word in note]
    summary_ids = [ids.get(word, 0) for word in summary]
    return note_ids, summary_ids, outside


check("16.4", extended_ids)


# %% [markdown]
# A dictionary keeps the order of what is put into it, and `setdefault`
# leaves what is there: a word gets the next free number when it comes for
# the first time.

# %% tags=["alternative:16.4", "nbval-ignore-output"]
def extended_ids(note, summary, vocabulary):
    ids = {word: i for i, word in enumerate(vocabulary)}
    note_ids = [ids.setdefault(word, len(ids)) for word in note]
    summary_ids = [ids.get(word, 0) for word in summary]
    return note_ids, summary_ids, list(ids)[len(vocabulary) :]


check("16.4", extended_ids)


# %% [markdown]
# ## 16.5 The loss in log space
#
# For each target two logarithms are enough, one for each way to write it,
# and minus infinity where a way is closed. `logsumexp` over the places of
# the target adds up their attention, `logaddexp` the two ways. Nothing
# ever becomes a probability, so nothing underflows. Places that cannot be
# copied from are no places of the target: a sum of minus infinities alone
# has no gradient, unless all of them are masked.

# %% tags=["answer:16.5", "nbval-ignore-output"]
def value_and_gradients(logits, scores, gate, ids, targets):
    given = [x.clone().requires_grad_() for x in (logits, scores, gate)]
    value = torch.as_tensor(pointer_loss(*given, ids, targets))
    if value.requires_grad:
        value.backward()
    nothing = [torch.zeros_like(x) for x in given]
    pairs = zip(given, nothing, strict=True)
    grads = [zero if x.grad is None else x.grad for x, zero in pairs]
    return value.detach(), *grads


def pointer_loss(logits, scores, gate, ids, targets):
    inside = targets < logits.shape[1]
    known = targets.masked_fill(~inside, 0)  # any id: masked below
    log_vocab = logits.log_softmax(dim=1)
    generated = log_vocab.gather(1, known[:, None])[:, 0]
    generated = generated.masked_fill(~inside, -torch.inf)
    here = (ids == targets[:, None]) & scores.isfinite()
    log_attention = scores.log_softmax(dim=1)  # (n, source)
    places = log_attention.masked_fill(~here, -torch.inf)
    copied = places.logsumexp(dim=1)  # (n,)
    ways = logsigmoid(gate) + generated, logsigmoid(-gate) + copied
    log_p = torch.logaddexp(*ways)
    return -log_p.mean()


check("16.5", value_and_gradients)


# %% [markdown]
# The alternative puts all ways side by side, one generated and one for
# each place of the note, and adds them up at once. Nothing is masked:
# ways that do not lead to the target are left out.

# %% tags=["alternative:16.5", "nbval-ignore-output"]
def value_and_gradients(logits, scores, gate, ids, targets):
    given = [x.clone().requires_grad_() for x in (logits, scores, gate)]
    value = torch.as_tensor(pointer_loss(*given, ids, targets))
    if value.requires_grad:
        value.backward()
    nothing = [torch.zeros_like(x) for x in given]
    pairs = zip(given, nothing, strict=True)
    grads = [zero if x.grad is None else x.grad for x, zero in pairs]
    return value.detach(), *grads


def pointer_loss(logits, scores, gate, ids, targets):
    losses = []
    for row, target in enumerate(targets.tolist()):
        ways = []
        if target < logits.shape[1]:
            log_p = logits[row, target] - logits[row].logsumexp(0)
            ways.append(logsigmoid(gate[row]) + log_p)
        for place, word in enumerate(ids[row].tolist()):
            if word == target and scores[row, place].isfinite():
                log_p = scores[row, place] - scores[row].logsumexp(0)
                ways.append(logsigmoid(-gate[row]) + log_p)
        losses.append(-torch.stack(ways).logsumexp(0))
    return torch.stack(losses).mean()


check("16.5", value_and_gradients)


# %% [markdown]
# ## 16.6 Where did this word come from?
#
# Before the word is known, the gate and the attention say how likely each way
# is. Once it is known, the ways that lead to other words are closed, and what
# is left is scaled up to sum to 1 (Bayes' rule). In log space that is one
# softmax over all ways. So the share of the vocabulary is not $p_\text{gen}$:
# a name outside the vocabulary was copied, whatever the gate said.

# %% tags=["answer:16.6", "nbval-ignore-output"]
def word_origins(log_vocab, log_attention, gate, ids, written):
    inside = written < log_vocab.shape[1]
    known = written.masked_fill(~inside, 0)  # any id: masked below
    generated = log_vocab.gather(1, known[:, None])  # (n, 1)
    generated = generated.masked_fill(~inside[:, None], -torch.inf)
    here = ids == written[:, None]  # (n, source)
    copied = log_attention.masked_fill(~here, -torch.inf)
    generated = logsigmoid(gate)[:, None] + generated
    copied = logsigmoid(-gate)[:, None] + copied
    ways = torch.cat([generated, copied], dim=1)
    return ways.softmax(dim=1)


check("16.6", word_origins)


# %% [markdown]
# The alternative asks two questions, one after the other. Generated or
# copied? The logit of that is the gate's, plus how much more the vocabulary
# expected the word than the note offered it. And if it was copied, from which
# of its places? That is the attention among them.

# %% tags=["alternative:16.6", "nbval-ignore-output"]
def word_origins(log_vocab, log_attention, gate, ids, written):
    rows = []
    for step, word in enumerate(written.tolist()):
        here = (ids == word).nonzero()[:, 0]
        offered = log_attention[step, here].logsumexp(0)
        expected = torch.tensor(-torch.inf)
        if word < log_vocab.shape[1]:
            expected = log_vocab[step, word]
        logit = gate[step] + expected - offered
        row = torch.zeros(1 + len(ids))
        row[0] = logit.sigmoid()
        if offered.isfinite():
            among = (log_attention[step, here] - offered).exp()
            row[1 + here] = (-logit).sigmoid() * among
        rows.append(row)
    return torch.stack(rows)


check("16.6", word_origins)


# %% [markdown]
# ## 16.7 Read a note in chunks
#
# A chunk is read as if it were a note, so chunks are put where notes are:
# into the batch. Those without a token stay out. The boolean mask that
# picks the others puts their states back, in the same order. Forwards the
# note ends in its last chunk that has a token, and backwards in its first.

# %% tags=["answer:16.7", "nbval-ignore-output"]
def read_in_chunks(read, tokens, lengths, chunk):
    batch, source = tokens.shape
    n = -(-source // chunk)  # chunks of a note, rounded up
    wide = pad(tokens, (0, n * chunk - source))
    folded = wide.reshape(batch, n, chunk)
    starts = torch.arange(n) * chunk
    inside = (lengths[:, None] - starts).clamp(0, chunk)
    real = inside > 0  # (batch, n)
    states = torch.zeros(batch, n, chunk, 2)
    ends = torch.zeros(batch, n, 2)
    states[real], ends[real] = read(folded[real], inside[real])
    states = states.reshape(batch, n * chunk, 2)
    last = (lengths - 1) // chunk
    forwards = ends[torch.arange(batch), last, 0]
    backwards = ends[:, 0, 1]
    end = torch.stack([forwards, backwards], dim=1)
    return states[:, :source], end


check("16.7", read_in_chunks)


# %% [markdown]
# The alternative reads the first chunk of all notes, then the second of
# those that have one, and so on. It is easier to follow, and it calls
# `read` once a chunk: a graphics card would wait most of the time.

# %% tags=["alternative:16.7", "nbval-ignore-output"]
def read_in_chunks(read, tokens, lengths, chunk):
    states = torch.zeros(*tokens.shape, 2)
    end = torch.zeros(len(tokens), 2)
    for start in range(0, tokens.shape[1], chunk):
        rows = (lengths > start).nonzero()[:, 0]
        if len(rows):
            part = tokens[rows, start : start + chunk]
            left = (lengths[rows] - start).clamp(max=part.shape[1])
            made, ended = read(part, left)
            states[rows, start : start + chunk] = made
            end[rows, 0] = ended[:, 0]
            if start == 0:
                end[:, 1] = ended[:, 1]
    return states, end


check("16.7", read_in_chunks)
