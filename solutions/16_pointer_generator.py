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
from torch import nn
from torch.nn.functional import logsigmoid, one_hot, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ehr_course.exercises import check, mine


# %% [markdown]
# ## 16.1 Additive attention
#
# The states and the query are brought to one width and added, so that the
# tanh sees both. One score comes out for each place. Padding gets minus
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
    return scores, context


check("16.1", additive_attention)


# %% [markdown]
# The alternative goes from note to note and never touches padding: it
# looks at the words that are there, and fills in their scores.

# %% tags=["alternative:16.1", "nbval-ignore-output"]
def additive_attention(query, states, mask, w_h, w_d, v):
    scores = torch.full(mask.shape, -torch.inf)
    contexts = []
    for row, words in enumerate(mask.bool()):
        seen = states[row, words]  # (words, width)
        energy = (seen @ w_h.T + w_d @ query[row]).tanh()
        scores[row, words] = energy @ v
        contexts.append((energy @ v).softmax(dim=0) @ seen)
    return scores, torch.stack(contexts)


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
# ## 16.6 Read the note
#
# Packing leaves the padding out, so the LSTM that reads backwards begins at
# the last word of each note and not in the padding behind it. `hidden` and
# `cell` hold the end of each direction, (2, batch, d_state); their mean is
# where the decoder begins.

# %% tags=["answer:16.6", "nbval-ignore-output"]
class NoteReader(nn.Module):
    def __init__(self, n_words, d_word, d_state):
        super().__init__()
        self.embedding = nn.Embedding(n_words, d_word)
        self.lstm = nn.LSTM(
            d_word, d_state, batch_first=True, bidirectional=True
        )

    def forward(self, note, mask):
        outside = note >= self.embedding.num_embeddings
        known = note.masked_fill(outside, 0)  # <unk>
        packed = pack_padded_sequence(
            self.embedding(known),
            mask.sum(dim=1),
            batch_first=True,
            enforce_sorted=False,
        )
        packed, (hidden, cell) = self.lstm(packed)
        states, _ = pad_packed_sequence(
            packed, batch_first=True, total_length=note.shape[1]
        )
        return states, hidden.mean(dim=0), cell.mean(dim=0)


check("16.6", NoteReader)


# %% [markdown]
# The alternative reads one note after the other, so nothing has to be packed.
# It is as right, and slow: a batch of 16 takes 16 calls.

# %% tags=["alternative:16.6", "nbval-ignore-output"]
class NoteReader(nn.Module):
    def __init__(self, n_words, d_word, d_state):
        super().__init__()
        self.embedding = nn.Embedding(n_words, d_word)
        self.lstm = nn.LSTM(d_word, d_state, bidirectional=True)

    def forward(self, note, mask):
        known = note.where(note < self.embedding.num_embeddings, 0)
        rows, hidden, cell = [], [], []
        lengths = mask.sum(dim=1).tolist()
        for row, length in zip(known, lengths, strict=True):
            states, ends = self.lstm(self.embedding(row[:length]))
            rows.append(pad(states, (0, 0, 0, len(row) - length)))
            hidden.append((ends[0][0] + ends[0][1]) / 2)
            cell.append((ends[1][0] + ends[1][1]) / 2)
        return torch.stack(rows), torch.stack(hidden), torch.stack(cell)


check("16.6", NoteReader)

# %% [markdown]
# ## 16.7 The pointer-generator
#
# Each step is four lines: the LSTM reads the last word and the context of
# the step before; attention looks with the new state; context, state and
# word stand side by side; vocabulary and gate read all three. What a step
# hands to the next one is `hidden`, `cell` and `context`.

# %% tags=["answer:16.7", "nbval-ignore-output"]
NoteReader = mine("16.6")
additive_attention = mine("16.1")


class Pointer(nn.Module):
    def __init__(self, n_words, d_word, d_state):
        super().__init__()
        n_features = 3 * d_state + d_word
        self.reader = NoteReader(n_words, d_word, d_state)
        self.embedding = nn.Embedding(n_words, d_word)
        self.lstm = nn.LSTMCell(d_word + 2 * d_state, d_state)
        self.w_h = nn.Linear(2 * d_state, d_state, bias=False)
        self.w_d = nn.Linear(d_state, d_state, bias=False)
        self.v = nn.Parameter(torch.rand(d_state) - 0.5)
        self.vocabulary = nn.Linear(n_features, n_words)
        self.gate = nn.Linear(n_features, 1)

    def forward(self, note, mask, summary):
        states, hidden, cell = self.reader(note, mask)
        context = torch.zeros_like(states[:, 0])
        outside = summary >= self.embedding.num_embeddings
        words = self.embedding(summary.masked_fill(outside, 0))
        weights = self.w_h.weight, self.w_d.weight, self.v
        logits, scores, gates = [], [], []
        for last in words.unbind(dim=1):
            read = torch.cat([last, context], dim=1)
            hidden, cell = self.lstm(read, (hidden, cell))
            looked = additive_attention(hidden, states, mask, *weights)
            score, context = looked
            features = torch.cat([context, hidden, last], dim=1)
            logits.append(self.vocabulary(features))
            scores.append(score)
            gates.append(self.gate(features)[:, 0])
        made = logits, scores, gates
        return tuple(torch.stack(each, dim=1) for each in made)


check("16.7", Pointer)

# %% [markdown]
# The alternative keeps the loop for what needs it. A step's vocabulary and
# gate are read by no later step, so both are computed once, after the loop,
# for all steps: a few large products are faster than many small ones.

# %% tags=["alternative:16.7", "nbval-ignore-output"]
NoteReader = mine("16.6")
additive_attention = mine("16.1")


class Pointer(nn.Module):
    def __init__(self, n_words, d_word, d_state):
        super().__init__()
        self.reader = NoteReader(n_words, d_word, d_state)
        self.embedding = nn.Embedding(n_words, d_word)
        self.lstm = nn.LSTMCell(2 * d_state + d_word, d_state)
        self.w_h = nn.Linear(2 * d_state, d_state, bias=False)
        self.w_d = nn.Linear(d_state, d_state, bias=False)
        self.v = nn.Parameter(torch.empty(d_state).uniform_(-0.1, 0.1))
        self.vocabulary = nn.Linear(3 * d_state + d_word, n_words)
        self.gate = nn.Linear(3 * d_state + d_word, 1)

    def forward(self, note, mask, summary):
        states, *memory = self.reader(note, mask)
        read = summary.where(summary < self.embedding.num_embeddings, 0)
        words = self.embedding(read)  # (batch, target, d_word)
        context = states.new_zeros(len(note), states.shape[2])
        contexts, hiddens, scores = [], [], []
        for t in range(summary.shape[1]):
            given = torch.cat([words[:, t], context], dim=1)
            memory = self.lstm(given, tuple(memory))
            of_step, context = additive_attention(
                memory[0],
                states,
                mask,
                self.w_h.weight,
                self.w_d.weight,
                self.v,
            )
            contexts.append(context)
            hiddens.append(memory[0])
            scores.append(of_step)
        seen, made = torch.stack(contexts, 1), torch.stack(hiddens, 1)
        features = torch.cat([seen, made, words], dim=2)
        gate = self.gate(features).squeeze(dim=2)
        return self.vocabulary(features), torch.stack(scores, 1), gate


check("16.7", Pointer)


# %% [markdown]
# ## 16.8 Where did this word come from?
#
# Before the word is known, the gate and the attention say how likely each way
# is. Once it is known, the ways that lead to other words are closed, and what
# is left is scaled up to sum to 1 (Bayes' rule). In log space that is one
# softmax over all ways. So the share of the vocabulary is not $p_\text{gen}$:
# a name outside the vocabulary was copied, whatever the gate said.

# %% tags=["answer:16.8", "nbval-ignore-output"]
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


check("16.8", word_origins)


# %% [markdown]
# The alternative asks two questions, one after the other. Generated or
# copied? The logit of that is the gate's, plus how much more the vocabulary
# expected the word than the note offered it. And if it was copied, from which
# of its places? That is the attention among them.

# %% tags=["alternative:16.8", "nbval-ignore-output"]
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


check("16.8", word_origins)
