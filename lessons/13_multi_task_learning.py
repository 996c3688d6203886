# %% [markdown]
# # 13 · Multi-task learning
#
# 85 minutes · Prerequisites: 12
#
# You will be able to:
#
# - Show that a head can read its answer from the prompt.
# - Compute a loss at each token that skips prompts and padding.
# - Build a head that cannot see the prompt.
# - Measure what auxiliary weights change, over several seeds.
# - Compute the highest accuracy that the codes allow.

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
# ## Does the model know who it is writing about?
#
# You tell a model to write the record of a woman of 30. Does it understand
# that a delivery fits her, and an enlarged prostate does not? Lesson 12
# counted its slips. Would it not be simpler to ask the model itself? Train it
# to answer a second question at each token: does this record belong to a man
# or to a woman?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: what this lesson uses
import random
import statistics
from collections.abc import Callable
from types import SimpleNamespace

import polars as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ehr_course import (
    AGE_BRACKETS, CodeTokenizer, Corruption, PromptBart,
    PromptBartConfig, RecordDataset, TokenSex, age_bracket,
    checkpoint_folder, choose_patients, classification_loss, icd9,
    impossible_share, last_real, real_data, split_by_patient, system_of,
    train,
)
from ehr_course.exercises import (
    check, examine, find_exercise, hint, mine, progress,
)
from ehr_course.plots import (
    blank_chart, draw_flow, draw_heat, draw_lines, draw_strips,
)
from ehr_course.widgets import runs_of, weight_explorer

# %% tags=["hide-input"]
# set-up: patients to learn from, and one batch of all that are held out
real = real_data() is not None
sizes = {"tiny": 4_000, "small": 10_000, "full": 46_520}
cohort = choose_patients(sizes[PROFILE], seed=SEED)
learned_from, _, unseen = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(learned_from)
known = CodeTokenizer(tokenizer.codes, unseen="skip")


def dataset(patients, p_empty):
    return RecordDataset(
        patients,
        known,
        corruption=Corruption(p_empty=p_empty),
        seed=SEED,
        max_tokens=200,
        too_long="cut",
    )


# The test: the encoder knows nothing, all codes come through the decoder.
held_out = dataset(unseen, p_empty=1.0)
batch = held_out.batch(range(len(held_out)))
ids = batch["decoder_input_ids"]  # (batch, length)
scored = batch["labels"] != -100  # (batch, length)
sexes, ages = batch["x_cat"], batch["x_num"]  # (batch, 1) each
print(f"{len(learned_from):,} patients to learn from", end="")
print(f", {len(unseen):,} held out")


# %% [markdown]
# Train a small model on both tasks, as in lesson 12: half of the time its encoder
# reads a damaged record, half of the time only age and sex. Then ask it about new
# patients, with age and sex alone in the encoder: their codes reach the model
# through the decoder. `ids` holds these patients' tokens, `scored` marks the tokens
# that have a label, and `sexes` is 0 for a man and 1 for a woman.

# %%
def small_model(**changes):
    fields = {"dropout": 0.0, "age_weight": 0.3, "sex_weight": 0.2}
    fields |= changes
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow", **fields)
    torch.manual_seed(SEED)
    return PromptBart(config)


def trained(model, steps=300):
    data = dataset(learned_from, p_empty=0.5)
    train(model, data, steps=steps, lr=6e-3, seed=SEED)
    return model.eval()


# %%
@torch.no_grad()
def sex_logits(model, **changes):
    return model(**(batch | changes)).answers["sex"]  # (batch, length, 2)


def judged(logits, truth, where=scored):
    truth = truth.expand(where.shape)[where]  # (answers,)
    total, count = classification_loss(logits[where], truth)
    right = (logits[where].argmax(-1) == truth).float().mean()
    return (total / count).item(), right.item()


# %% tags=["nbval-ignore-output"]
model = trained(small_model())
loss, right = judged(sex_logits(model), sexes)
print(f"right at {right:.1%} of all tokens, loss {loss:.3f} nats")


# %% [markdown]
# It is almost never wrong. Could you do that? Some codes, such as a
# delivery, tell you the sex. How many patients have one?

# %% tags=["hide-input"]
# count the patients with a code that only one sex can have
def tells_sex(record):
    codes = [code for code in record.codes if icd9.is_code(code)]
    rules = [icd9.who_can_have(code) for code in codes]
    return any(rule is not None and rule.sex for rule in rules)


telling = torch.tensor([[tells_sex(r)] for r in held_out.records])
share = telling.float().mean().item()
print(f"{share:.0%} of the held-out patients have a code of one sex only")
assert real or (loss < 0.1 and right > 0.95 and share < 0.6)

# %% [markdown]
# For more than half of the patients no single code settles it. Yet the
# model is right about them too. Where did it get the answer from?
#
# ## One drawing of everything
#
# Training one model for several losses at once is called
# [multi-task learning](../course/book/glossary.md). The hope is that a model which
# is asked who the patient is also writes codes that fit. A *head*, a small network of
# its own, answers each additional question. Here two heads read the decoder's state:
# one names the sex, the other one of six
# [age brackets](../course/book/glossary.md#age-bracket). The loss of each is
# multiplied by an [auxiliary weight](../course/book/glossary.md) and added to the
# loss of the language model.

# %%
n = [sum(p.numel() for p in m.parameters()) for m in (model.heads, model)]
state = f"decoder:\n{model.config.d_model} numbers\nat each token"
heads = {
    "next token?": f"{len(tokenizer)} scores, weight 1",
    "age bracket?": "6 scores, weight 0.3",
    "man or woman?": "2 scores, weight 0.2",
}
boxes = {
    "age, sex, a record\nor nothing": (0, 0, "prompt"),
    "age, sex,\ntokens so far": (0, 2, "prompt"),
    "encoder": (1, 0, "encoder"),
    state: (2, (0, 2), "decoder"),
    "total\nloss": (4, (0, 2), "paper"),
}
boxes |= {head: (3, row, "quiet") for row, head in enumerate(heads)}
first, second, *_ = boxes
arrows = [(first, "encoder"), ("encoder", state), (second, state)]
arrows += [(state, head) for head in heads]
arrows += [(head, "total\nloss") for head in heads]

# %%
draw_flow(
    boxes, arrows, "What can help a head to answer?",
    "All three are asked at each token, not at the two prompts. The two"
    f" heads have {n[0]:,} of {n[1]:,} parameters.", notes=heads,
)  # fmt: skip

# %% [markdown]
# Start at the box "man or woman?" and go back along the arrows. Everything
# you reach can help the head to answer, the codes and the prompts alike. How
# can you tell which of them it listens to?
#
# ## Where did the head get it from?
#
# Lie to the model. Tell it that every patient is a man, then that every
# patient is a woman, and leave the codes as they are. A head that reads
# codes does not care. Then take the codes away too: put random ones in
# their place, or ask before the first code.

# %%
generator = torch.Generator().manual_seed(SEED)
first = tokenizer.mask_id + 1  # the first code
any_code = torch.randint(
    first, len(tokenizer), ids.shape, generator=generator
)
random_codes = torch.where(ids > tokenizer.mask_id, any_code, ids)


# %% tags=["hide-input"]
# lie_to(model): how often its head says woman, by what it is told
def says_woman(model, told):  # how often, by what the head has read
    lie = {"x_cat": torch.full_like(sexes, told)}
    own = sex_logits(model, **lie).argmax(-1).float()
    lie["decoder_input_ids"] = random_codes
    other = sex_logits(model, **lie).argmax(-1).float()
    answers = {
        "codes of men": own[scored & (sexes == 0)],
        "codes of women": own[scored & (sexes == 1)],
        "random codes": other[scored],
        "no code yet": own[:, 0],
    }
    return {read: said.mean().item() for read, said in answers.items()}


def lie_to(model):
    man, woman = says_woman(model, told=0), says_woman(model, told=1)
    return {read: (man[read], woman[read]) for read in man}


lies = {"head on states": lie_to(model)}


# %% tags=["nbval-ignore-output"]
def by_prompt(shares):
    told = "“man”", "“woman”"
    return {
        row: dict(zip(told, of, strict=True)) for row, of in shares.items()
    }


draw_heat(
    by_prompt(lies["head on states"]),
    "Does the head say what the prompt says?",
    "How often it answers “woman”: the darker, the more often.",
    across="the prompt says",
)

# %% tags=["hide-input"]
# check: the answers follow the prompt over any codes
for man, woman in lies["head on states"].values():
    assert real or (man < 0.2 and woman > 0.8)


# %% [markdown]
# The rows are alike and the columns are opposite: the head says what the
# prompt says, even before a single code. Every state has read the prompts,
# and the head reads them off the state. The answer is in the question.

# %% [markdown]
# ### Going further: does the head of the age do the same?
#
# It does. To see it, ask that head once per record, after all codes. Exercises 13.1
# and 13.2 are in here: take the last real token of each row, and find age brackets.

# %% [markdown]
# The head has read everything at the last token that has a label. Is that the last
# column of the batch?
#
# #### 13.1 The last real token
#
# Try It Yourself · ★ · 6 minutes
#
# `states` has the shape (batch, length, d_model). `real` has the shape
# (batch, length) and is `True` for the real tokens and `False` for all that
# stands behind them. A row can also be full, and each row has a real token.
# Return the state of each row's last real token, (batch, d_model).
#
# Example: for `states = [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]`
# and `real = [[True, True, False], [True, True, True]]`, as tensors, the
# result is `[[2.0], [6.0]]`.

# %% tags=["exercise:13.1", "nbval-ignore-output"]
def last_states(states: Tensor, real: Tensor) -> Tensor:
    raise NotImplementedError("13.1: replace this line")


check("13.1", last_states)


# %% [markdown]
# Which bracket is right? Records hold 90 for everybody above 89, so the last
# bracket needs no upper end.
#
# #### 13.2 Age brackets
#
# Try It Yourself · ★ · 6 minutes
#
# `ages` has the shape (n,): years, 0.0 to 90.0, not always whole ones.
# `bounds` is an ascending list of whole numbers, and at each of them a new
# bracket begins. Bracket 0 holds the ages below the first bound. Return the
# number of each age's bracket, a tensor of whole numbers (n,).
#
# Example: for `ages = [5.0, 40.0, 90.0]`, as a tensor, and
# `bounds = [18, 65]` the result is `[0, 1, 2]`.

# %% tags=["exercise:13.2", "nbval-ignore-output"]
def age_brackets(ages: Tensor, bounds: list[int]) -> Tensor:
    raise NotImplementedError("13.2: replace this line")


check("13.2", age_brackets)

# %% [markdown]
# Now lie about the age. Tell the model that forty patients of all ages are
# newborn, then that they are 1, then 2, and so on up to 90. Which bracket does
# the head name?

# %% tags=["nbval-ignore-output"]
few = {name: rows[:40] for name, rows in batch.items()}
told = torch.arange(0.0, 91.0)  # (91,)
named = []
for age in told:
    lie = few | {"x_num": torch.full_like(few["x_num"], age.item())}
    with torch.no_grad():
        answers = model(**lie).answers["age"]  # (40, length, 6)
    named.append(last_real(answers, scored[:40]).argmax(-1))
named = torch.stack(named)  # (91, 40)

# %% tags=["nbval-ignore-output"]
shares = [(named == bracket).float().mean(dim=1) for bracket in range(6)]
follows = (named == age_bracket(told)[:, None]).float().mean()
picture, axes = blank_chart(
    "Which bracket does the head name, told which age?",
    "A grid of 6 brackets by 91 ages, dark along the line of the brackets "
    f"that are told: {follows:.0%} of the answers lie on it.",
    f"Dark: all {named.shape[1]} patients get this bracket. Framed: the "
    "bracket of the age that is told.",
)
axes.pcolormesh(told, range(6), torch.stack(shares), cmap="Blues")
ends = torch.tensor([0, *AGE_BRACKETS, 91]) - 0.5
axes.bar(ends[:-1], 1, ends.diff(), torch.arange(6) - 0.5, align="edge",
         fill=False, edgecolor="black", linewidth=1.5)  # fmt: skip
axes.set_xticks([0, *AGE_BRACKETS, 90])
axes.set(xlabel="age that the prompt says, in years")
axes.set_ylabel("bracket named")
picture

# %% tags=["hide-input"]
# check: the age follows the prompt as well
obeyed = (named == age_bracket(told)[:, None]).float().mean().item()
assert real or obeyed > 0.85

# %% [markdown]
# Whatever the head is told, it repeats. It is wrong only close to where one bracket
# ends and the next begins.

# %% [markdown]
# ### Why does a head learn to listen to the prompt?
#
# Because its loss rewards that. The loss asks for the class, the same along
# the whole row, at every token that has a label. At the first of them the
# decoder has read no code. Half of the time the encoder has read none either, and
# only the prompt can help. The prompt helps at all other tokens just as well, so the
# head never has to learn what a code says.

# %% tags=["hide-input"]
# choose a woman with a short record, and a man with a longer one
lengths = scored.sum(dim=1)
order = lengths.argsort(stable=True)
men, women = (order[sexes[order, 0] == sex] for sex in (0, 1))
pair = torch.stack([women[0], men[len(men) // 3]])
width = lengths[pair].max()  # this batch is padded to its longer row
labels = batch["labels"][pair, :width]
tokens = [tokenizer.tokens(row) for row in ids.tolist()]

# %%
rows, classes, last = {}, {}, {}
for i, counts in zip(pair.tolist(), labels != -100, strict=True):
    name = f"patient {len(rows) + 1}"
    sex = "MF"[sexes[i, 0]]
    rows[name] = ["age", "sex", *tokens[i][:width]]
    of_it = ["–", "–", *(sex if one else "–" for one in counts)]
    classes[name] = {"class": of_it}
    last[name] = [2 + int(counts.nonzero().max())]
draw_strips(
    rows,
    "Which of a head's answers count?",
    "Under each position the right class, where the answer counts: "
    f"{(labels != -100).sum()} of {2 * (2 + width)}. Framed: the last.",
    under=classes,
    marked=last,
    key={"prompt": "prompt: no label", "quiet": "padding"},
)


# %% [markdown]
# Write that loss. It will judge your repair, and lesson 14 says why it returns a
# sum and a count.
#
# ### 13.3 A loss at each token
#
# Try It Yourself · ★★ · 9 minutes
#
# `logits` has the shape (batch, n_prompts + length, n_classes): a head's
# answers at all positions of the decoder, prompts first. `labels` has the
# shape (batch, length), token ids and -100 for padding. `classes` has the
# shape (batch,): each patient's right class. `n_prompts` is 0 or more.
# Return a pair: the sum of the cross-entropies, in nats, of all positions
# that count, and how many there are, a whole number. (`cross_entropy` is
# imported.)
#
# Example: for `logits = [[[9.0, 0.0], [0.0, 0.0], [5.0, 0.0]]]`,
# `labels = [[7, -100]]` and `classes = [1]`, as tensors, and
# `n_prompts = 1`, one position counts. The result is 0.6931 (the
# logarithm of 2) and 1.

# %% tags=["exercise:13.3", "nbval-ignore-output"]
def token_loss(
    logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int
) -> tuple[Tensor, int]:
    raise NotImplementedError("13.3: replace this line")


check("13.3", token_loss)

# %% [markdown]
# ### A head on your own model
#
# Put the question to the model that you have assembled: a linear layer reads the
# decoder's states, and your loss trains it. (`mine` returns your answers to 11.7, 12.6
# and 13.3; where you have none, the worked one stands in.)

# %% tags=["nbval-ignore-output"]
TinyBart, OwnPrompt = mine("11.7"), mine("12.6", "MyPrompt")
loss_of_head = mine("13.3")


class TwoAnswers(nn.Module):
    def __init__(self, n_tokens, d_model=64):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, 4, 2 * d_model, 1, 256)
        self.encoder_prompt = OwnPrompt([2], d_model)
        self.decoder_prompt = OwnPrompt([2], d_model)
        self.head = nn.Linear(d_model, 2)  # man or woman?

    def forward(self, input_ids, attention_mask, decoder_input_ids, **who):
        read = self.encoder_prompt(**who)
        memory = self.bart.encode(input_ids, attention_mask, read)
        written = self.decoder_prompt(**who)
        states = self.bart.decode(decoder_input_ids, written, *memory)
        return states @ self.bart.shared.weight.T, self.head(states)


# %%
torch.manual_seed(SEED)
own = TwoAnswers(len(tokenizer))
for weight in own.parameters():
    if weight.ndim > 1:
        nn.init.normal_(weight, std=0.08)
optimizer = torch.optim.AdamW(own.parameters(), lr=4e-3)
data, curves = dataset(learned_from, p_empty=0.5), []
for _ in range(120):
    rows = data.batch(torch.randint(len(data), (16,)).tolist())
    labels, sex = rows.pop("labels"), rows["x_cat"][:, 0]
    logits, answers = own(**rows)
    token = cross_entropy(logits.mT, labels)
    total, count = loss_of_head(answers, labels, sex, 0)
    (token + 0.2 * total / count).backward()
    optimizer.step()
    optimizer.zero_grad()
    curves.append((token.item(), (total / count).item()))

# %% tags=["nbval-ignore-output"]
picture, panels = blank_chart(
    "Which of the two does your model learn first?",
    f"The loss of the tokens falls from {curves[0][0]:.1f} to "
    f"{curves[-1][0]:.1f} nats, that of the sex from "
    f"{curves[0][1]:.2f} to {curves[-1][1]:.2f}.",
    "Loss of each step, in nats. Dotted: the sex by the toss of a coin.",
    columns=2,
)  # fmt: skip
names = "next token", "man or woman"
for axes, name, curve in zip(panels, names, zip(*curves), strict=True):
    axes.plot(curve)
    axes.set(title=name, xlabel="step", ylim=0)
panels[1].axhline(0.693, color="grey", linestyle=":")
picture

# %%
few = {name: batch[name][:300] for name in batch if name != "labels"}
told = {}
with torch.no_grad():
    for sex, word in enumerate(("man", "woman")):
        lie = few | {"x_cat": torch.full_like(few["x_cat"], sex)}
        says = own(**lie)[1].argmax(-1)[scored[:300]]
        told[word] = says.float().mean().item()
        print(f'told "{word}": "woman" at {told[word]:.0%} of the tokens')

# %% tags=["hide-input"]
# check: both losses fall, and the learner's head says what the prompt says
assert real or curves[-1][0] < curves[0][0] - 2
assert real or sum(sex for _, sex in curves[-20:]) / 20 < 0.3
assert real or (told["man"] < 0.25 and told["woman"] > 0.75)

# %% [markdown]
# After 120 steps your head has the same leak: a prompt is easier to read than codes.
#
# ## Closing the leak
#
# Three repairs come to mind. Cut the gradient between decoder and head with
# `detach()`. Take the prompt out of the decoder. Or let the head read
# something else, which has seen the codes and no prompt. Here is the third:

# %%
state, mean = "decoder: a state\nof 64 numbers", "mean of\nembeddings"
on_states, on_codes = "head on\nthe states", "head on\nthe codes"
boxes = {
    "age, sex": (0, 0, "prompt"),
    "a record\nor nothing": (0, 1, "code"),
    "encoder": (1, (0, 1), "encoder"),
    "age, sex ": (0, 2, "prompt"),
    "5 tokens": (0, (3, 4), "code"),
    state: (2, (0, 3.2), "decoder"),
    mean: (2, 4, "paper"),
    on_states: (3, (0, 3.2), "quiet"),
    on_codes: (3, 4, "quiet"),
}
way = [("age, sex", "encoder"), ("encoder", state), ("age, sex ", state)]
way += [(state, on_states)]
other = [("a record\nor nothing", "encoder"), ("5 tokens", state)]
other += [("5 tokens", mean), (mean, on_codes)]
title = "Which head do the prompts reach?"
how = "Both are asked after 5 tokens. Dashed: the way of the prompts."
draw_flow(boxes, way + other, title, how, dashed=way)


# %% [markdown]
# ### 13.4 Find the leak, and close it
#
# Try It Yourself · ★★ · 12 minutes
#
# `read` is a decoder: `read(prompts, embeddings)` takes the prompts,
# (batch, n_prompts, d_model), and the embeddings of the tokens, (batch,
# length, d_model), and returns the states at the tokens, (batch, length,
# d_model). `other_prompts` has the shape of `prompts` and holds those of
# other patients. Return two tensors.
#
# 1. The leak, (batch, length): how far each state moves when the prompts
#    are replaced by `other_prompts`, as the norm of the difference.
# 2. Features for the head, (batch, length, d_model), that have not seen a
#    prompt: at each token, the mean of the embeddings up to and including
#    it. The head's gradient must reach the embeddings through them.
#
# Example: `read` multiplies each embedding by the prompt,
# `lambda prompts, embeddings: embeddings * prompts`. For
# `prompts = [[[3.0, 0.0]]]`, `other_prompts = [[[0.0, 4.0]]]` and
# `embeddings = [[[1.0, 1.0], [3.0, 3.0]]]`, as tensors, the leak is
# `[[5.0, 15.0]]` and the features are `[[[1.0, 1.0], [2.0, 2.0]]]`.

# %% tags=["exercise:13.4", "nbval-ignore-output"]
def find_and_close(
    read: Callable[[Tensor, Tensor], Tensor],
    prompts: Tensor,
    other_prompts: Tensor,
    embeddings: Tensor,
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("13.4: replace this line")


check("13.4", find_and_close)

# %% [markdown]
# Do the first two close the leak as well? Make all three:
#
# - `no_prompt` has no prompt in its decoder.
# - The heads of `honest` read the mean of the embeddings, as your features do.
# - `detached` needs a decoder that no sex loss has touched. That of `honest` is one,
#   since its heads read the embeddings. So freeze it, and train a fresh head on its
#   states.

# %% tags=["nbval-ignore-output"]
no_prompt = trained(small_model(prompt_decoder=False))
honest = trained(small_model(head_reads="codes"))


# %% tags=["hide-input"]
# train a sex head on states of a decoder that no sex loss has shaped
def states_of(model, rows):  # (batch, length, d_model), no gradient
    rows = {name: rows[name] for name in rows if name != "labels"}
    with torch.no_grad():
        out = model(**rows, output_hidden_states=True)
    n_tokens = rows["decoder_input_ids"].shape[1]
    return out.decoder_hidden_states[-1][:, -n_tokens:]


some = range(min(1_000, len(learned_from)))
rows = dataset(learned_from, p_empty=0.5).batch(some)
where = rows["labels"] != -100
read = states_of(honest, rows)[where]  # (tokens, d_model)
truth = rows["x_cat"].expand(where.shape)[where]
torch.manual_seed(SEED)
new_head = TokenSex(read.shape[-1], d_hidden=64, dropout=0.0)
optimizer = torch.optim.Adam(new_head.parameters(), lr=1e-2)
for _ in range(150):
    optimizer.zero_grad()
    cross_entropy(new_head(read, None), truth).backward()
    optimizer.step()


def detached(**rows):
    answers = new_head(states_of(honest, rows), None)
    return SimpleNamespace(answers={"sex": answers})


# %% tags=["nbval-ignore-output"]
lies["head behind detach()"] = lie_to(detached)
lies["no prompt in the decoder"] = lie_to(no_prompt)
lies["head on codes"] = lie_to(honest)
draw_heat(
    {head: by_prompt(shares) for head, shares in lies.items()},
    "Which heads say what the prompt says?",
    "How often a head answers “woman”: the darker, the more often.",
    across="the prompt says",
)

# %% tags=["hide-input", "claim:28", "nbval-ignore-output"]
# measure: both heads on real codes, on random codes, and with a lie
results = {}
for name, one in (("states", model), ("codes", honest)):
    own, _ = judged(sex_logits(one), sexes)
    mixed = sex_logits(one, decoder_input_ids=random_codes)
    random_loss, _ = judged(mixed, sexes)
    lied_to = sex_logits(one, x_cat=1 - sexes)
    _, as_prompt = judged(lied_to, 1 - sexes)
    results[name] = own, random_loss, as_prompt
    print(f"head on {name:6}: sex loss {own:.2f},", end=" ")
    print(f"on random codes {random_loss:.2f}")
assert real or (results["states"][1] < 0.35 and results["states"][2] > 0.8)
assert real or results["codes"][1] > 0.65 > results["codes"][0]
assert real or SEED or PROFILE != "tiny" or results["codes"][1] > 0.7
same = sex_logits(honest).equal(sex_logits(honest, x_cat=1 - sexes))
assert same and (real or results["codes"][2] < 0.45)
for man, woman in lies["no prompt in the decoder"].values():
    assert real or (man < 0.25 and woman > 0.8)
for man, woman in lies["head behind detach()"].values():
    assert real or woman - man > 0.3
assert real or sum(r.sex == "F" for r in learned_from) > 0.5 * len(
    learned_from
)

# %% [markdown]
# `detach()` stops what flows back, but the leak flows forward: the new head
# finds the sex in the decoder's states, because writing codes needs it there.
# Without its prompt the decoder still leaks, because it reads the encoder,
# which has a prompt too. Only the head on the codes gives the same answers
# whatever the prompt says, bit for bit. Before the first code it says woman,
# the larger group, for everybody.
#
# The printed losses say the same. Random codes hardly disturb the head on states, which
# does not listen to them. They mislead the head on codes: its loss is worse than the
# 0.693 of a coin.
#
# ### How good is an honest head?
#
# But on real records, too, its loss is not far below that of a coin. Is it a bad head?
# Follow it through the records of patients with a code that only one sex can have, and
# of patients without one.

# %% tags=["hide-input"]
# how often each head is right, after a given number of codes
codes_so_far = (ids > tokenizer.mask_id).cumsum(dim=1)  # (batch, length)


def right_by_codes(logits, who):
    hit = logits.argmax(-1) == sexes  # (batch, length)
    return [
        hit[asked].float().mean().item()
        for n in range(11)
        if (asked := scored & who & (codes_so_far == n)).any()
    ]


honest_logits = sex_logits(honest)
# telling[i]: does patient i have a code of one sex only?
right = {
    "head on states, all": (sex_logits(model), torch.ones_like(telling)),
    "head on codes, with a one-sex code": (honest_logits, telling),
    "head on codes, without one": (honest_logits, ~telling),
}
right = {name: right_by_codes(*which) for name, which in right.items()}

has = codes_so_far.max(dim=1, keepdim=True).values  # (batch, 1)
asked = {
    name: [int((who & (has >= n)).sum()) for n in range(11)]
    for name, who in (("with", telling), ("without", ~telling))
}

# %% tags=["nbval-ignore-output"]
rows = list(zip(range(11), *asked.values(), strict=True))
(_, *begin), *_, (_, *end) = rows
picture = draw_lines(
    {name: dict(enumerate(of)) for name, of in right.items()},
    "How often is the sex named right?",
    "Patients left: with a one-sex code "
    f"{begin[0]} at first and {end[0]} after 10 codes, without one "
    f"{begin[1]} and {end[1]}.",
    up="right answers", form="{:.0%}", line=0.5,
)  # fmt: skip
axes = picture.axes[0]
axes.set_ylim(top=1.04)
axes.set_xticks(range(11), ["\n".join(map(str, row)) for row in rows])
axes.annotate(
    "codes read\nleft, with\nwithout", (0, 0), (-6, -7), ha="right",
    va="top", xycoords="axes fraction", textcoords="offset points",
)  # fmt: skip
picture


# %% [markdown]
# Under the axis stands how many patients are left. Where a code settles it, the
# head on the codes comes to be right in nine of ten cases; some patients' telling
# code comes late. Where none does, the head is no better than a coin. The fault is
# the head's and not that of the codes: another reader of the same codes finds more
# in them.

# %% [markdown]
# ### Going further: what is there to read, if no code settles it?
#
# A linear model with one weight for each code.

# %% [markdown]
# Compare the head, at the end of each record, with a linear model: one weight for each
# code, learned from patients without a one-sex code.

# %% tags=["hide-input"]
# set-up: a linear reader of codes, for patients without a one-sex code
def bags(records):  # which codes each patient has, and the sex
    column = {code: i for i, code in enumerate(tokenizer.codes)}
    codes = torch.zeros(len(records), len(column))
    for row, record in zip(codes, records, strict=True):
        row[[column[code] for code in record.codes if code in column]] = 1
    return codes, torch.tensor([int(r.sex == "F") for r in records])


codes, sex = bags([r for r in learned_from if not tells_sex(r)])
linear = nn.Linear(codes.shape[1], 2)
nn.init.zeros_(linear.weight), nn.init.zeros_(linear.bias)
fit = torch.optim.Adam(linear.parameters(), lr=0.02, weight_decay=0.01)
for _ in range(200):
    fit.zero_grad()
    cross_entropy(linear(codes), sex).backward()
    fit.step()
without, sex = bags([r for r in held_out.records if not tells_sex(r)])
of_linear = (linear(without).argmax(-1) == sex).float().mean().item()
one_answer = sex.bincount().max().item() / len(sex)

# %% tags=["hide-input", "nbval-ignore-output"]
# measure: both readers at the end of each record
places = torch.arange(ids.shape[1])
at_end = places == scored.sum(1, keepdim=True) - 1  # (batch, length)
_, of_telling = judged(honest_logits, sexes, at_end & telling)
_, of_others = judged(honest_logits, sexes, at_end & ~telling)
print(f"with a one-sex code:    head on codes {of_telling:.0%}")
print(f"without a one-sex code: head on codes {of_others:.0%},", end=" ")
print(f"linear model {of_linear:.0%}, always one answer {one_answer:.0%}")

# %% tags=["hide-input"]
# check: two codes that both sexes can have, and one sex mostly has
assert real or (of_telling > 0.85 and of_linear > one_answer + 0.03)
for code in ("80707", "82021"):  # seven broken ribs, a broken hip
    have = [r for r in cohort if code in r.codes and not tells_sex(r)]
    share = sum(r.sex == "F" for r in have) / max(1, len(have))
    assert real or (share > 0.65 if code == "82021" else share < 0.35)


# %% [markdown]
# Without a one-sex code there is still
# something to read: most patients with a certain broken hip are women, most with
# seven broken ribs are men. The linear model finds some of it.

# %% [markdown]
# ### Going further: what does a head teach the model?
#
# A loss changes only what its gradient reaches. Which parts of the model does the sex
# loss reach, from either head?

# %%
def reached(model):
    model.zero_grad()
    few = held_out.batch(range(8))
    (sex,) = (t for t in model(**few).terms if t.name == "sex")
    sex.total.backward()
    parts = {
        "embeddings": model.get_input_embeddings(),
        "encoder": model.model.encoder.layers[0].fc1,
        "decoder": model.model.decoder.layers[0].fc1,
        "prompts": model.decoder_prompt.numerical,
    }
    grads = {name: part.weight.grad for name, part in parts.items()}
    return [n for n, g in grads.items() if g is not None and g.any()]


print("head on states:", ", ".join(reached(model)))
print("head on codes: ", ", ".join(reached(honest)))

# %% tags=["hide-input"]
# check: one reaches everything, the other a table that reads and writes
assert reached(honest) == ["embeddings"] and len(reached(model)) == 4
out, into = honest.get_output_embeddings(), honest.get_input_embeddings()
assert out.weight is into.weight

# %% [markdown]
# The honest head teaches only the embeddings. That could still help the
# model to write, because the same table also scores the next token. The head
# on the states reaches everything, but may teach it no more than to keep the
# prompt readable.

# %% [markdown]
# ## Which weight?
#
# The heads were meant to help the model write codes that fit the patient. Place a bet:
# with heads, leak or no leak, does it write fewer impossible codes, as many, or more?
# And which weight would you give them: 0.001, 0.1, 1 or 3?
#
# A single run of each weight cannot settle it, because another seed gives another
# number. So train small models with several weights of the heads, each with three seeds.
# Such a series is a [sweep](../course/book/glossary.md), and here is one that has been
# run for you. Look at the upper half first: each dot is one run.
#
# The grey band is the mean of the models without heads, plus and minus their
# standard deviation over seeds. "0.1" means 0.1 for both heads, "0.3/0.2" means 0.3 for
# the age and 0.2 for the sex.

# %% tags=["widget"]
sweep = pl.read_csv(checkpoint_folder("auxiliary_weights") / "sweep.csv")
weight_explorer(sweep, below="loss_repair", weights="3")


# %% [markdown]
# At weight 3 the share of impossible codes lies far above the band. Move *weights* to the
# left: at 0.001 it is back near it. When should you believe a difference? Here is a
# simple rule: believe it when the means lie farther apart than the two standard
# deviations together. (Lesson 20 has another.) By this rule,
#
# - no weight helps, though 0.1, with fewer impossible codes, falls just short of a
#   difference. The heads ask for what the prompts bring to every state anyway, which is
#   probably why;
# - from 0.3/0.2 on, heads on the states do harm: more codes are impossible, and
#   damaged records are restored worse (the lower half);
# - heads on the codes, at the far right, change nothing.

# %% [markdown]
# ### Going further: the rule, for every weight
#
# Which weights change what, how often the rule sees a difference by chance alone, and
# whether 0.001 is a small weight. Exercise 13.5 is in here.

# %% [markdown]
# #### 13.5 Read the weight sweep
#
# Try It Yourself · ★★ · 10 minutes
#
# `runs` is a list of tuples (weight, seed, value), in any order. Every
# weight has two runs or more, and weight 0.0 is among them. Return a
# dictionary that gives for each weight a tuple of three:
#
# 1. the mean of its values;
# 2. their standard deviation (divide by one less than the number of runs);
# 3. whether its mean differs from that of weight 0.0 by more than the two standard
#    deviations together (`True` or `False`; for weight 0.0 it is `False`).
#
# (`statistics`, of Python's standard library, is imported.)
#
# Example: for `runs = [(0.0, 0, 1.0), (0.0, 1, 3.0), (0.5, 0, 9.0),
# (0.5, 1, 9.0)]` the result is `{0.0: (2.0, 1.4142, False),
# 0.5: (9.0, 0.0, True)}` (here with four digits; do not round).

# %% tags=["exercise:13.5", "nbval-ignore-output"]
def read_sweep(
    runs: list[tuple[float, int, float]],
) -> dict[float, tuple[float, float, bool]]:
    raise NotImplementedError("13.5: replace this line")


check("13.5", read_sweep)

# %% [markdown]
# Here is the rule for both halves of the widget: a star marks each difference.

# %% tags=["hide-input"]
# mean and standard deviation of each setting, and whether it differs
measures = ["impossible", "divergence", "loss", "loss_repair"]
runs = {measure: runs_of(sweep, measure) for measure in measures}
rows = {}
for measure, settings in runs.items():
    for one in settings:
        row = rows.setdefault(tuple(one.setting), {})
        row[f"{measure}_mean"] = one.mean
        row[f"{measure}_spread"] = one.spread
without = rows[0.0, 0.0, ""]


def differs(row, measure):
    mean, spread = f"{measure}_mean", f"{measure}_spread"
    return abs(row[mean] - without[mean]) > row[spread] + without[spread]


# %% tags=["hide-input", "claim:29"]
# check what is said about the sweep
first, third = rows[0.3, 0.2, "states"], rows[0.001, 0.001, "states"]
assert first["impossible_mean"] > 0.9 * without["impossible_mean"]
change = first["divergence_mean"] / without["divergence_mean"] - 1
assert abs(change) < 0.15
assert differs(first, "loss") and differs(first, "loss_repair")
assert not any(differs(third, name) for name in measures)
largest = rows[3.0, 3.0, "states"]
for name in ("impossible", "loss", "loss_repair"):
    assert differs(largest, name)
    assert largest[f"{name}_mean"] > 1.1 * without[f"{name}_mean"]
assert largest["loss_repair_mean"] > 0.9 * largest["loss_mean"]
assert round(largest["loss_repair_mean"], 2) == 2.57
assert round(largest["loss_mean"], 2) == 2.64
moved = [row for row in rows.values() if differs(row, "divergence")]
assert moved == [largest]
for row in rows.values():
    fewer = row["impossible_mean"] < without["impossible_mean"]
    assert not (fewer and differs(row, "impossible"))
for one in runs["impossible"]:  # the larger weights are worse
    heavy = one.setting.age_weight >= 0.3
    heavy = heavy and one.setting.head_reads == "states"
    assert differs(rows[tuple(one.setting)], "impossible") == heavy
    assert differs(rows[tuple(one.setting)], "loss_repair") == heavy
assert not any(differs(rows[0.3, 0.2, "codes"], n) for n in measures)
below = without["impossible_mean"]
low = [r for r in rows.values() if r["impossible_mean"] < below]
assert len(low) == 3
assert not differs(rows[0.1, 0.1, "states"], "impossible")
lies_at = {one.setting: one for one in runs_of(sweep, "sex_says_prompt")}
for setting, one in lies_at.items():
    if setting.head_reads == "states":
        assert one.mean > 0.8

# %%
print(" " * 14, "impossible codes    loss when restoring")
both = "impossible", "loss_repair"
for one, other in zip(*(runs[name] for name in both), strict=True):
    row = rows[tuple(one.setting)]
    stars = [" *"[differs(row, name)] for name in both]
    print(f"{one.setting.label:14}", end=" ")
    print(f"{one.mean:.2%} ± {one.spread:.2%} {stars[0]}", end="    ")
    print(f"{other.mean:.4f} ± {other.spread:.4f} {stars[1]}")

# %% [markdown]
# At weight 3 the models hardly use the record any more. Their *loss when restoring*,
# taken while the encoder reads a damaged copy of the record, is 2.57. When the
# encoder reads no record at all (another measure of the widget), it is 2.64.

# %% tags=["hide-input"]
# check: how close a setting is to the limit of the rule
row = rows[0.1, 0.1, "states"]
apart = abs(row["impossible_mean"] - below)
spreads = row["impossible_spread"] + without["impossible_spread"]
assert abs(apart - spreads) < 0.0005

# %% [markdown]
# Whether 0.001 is small depends on the unit of the loss. Suppose that a head names the
# age as one number and is scored by the squared error. Multiply that by 0.001, and
# compare it with the loss of the language model. An untrained head says about 0, and
# soon learns the mean age.

# %% tags=["nbval-ignore-output"]
years = ages[:, 0]
of_learned = torch.tensor([float(r.age) for r in learned_from])
mean = of_learned.mean().item()
start = torch.tensor(len(tokenizer)).log().item()  # all tokens alike
in_years = 0.001 * years.square().mean().item()
at_mean = 0.001 * (years - mean).square().mean().item()
in_units = 0.001 * (years / 90).square().mean().item()
print(f"language model at the start: {start:.1f} nats per token")
print("0.001 x squared error per patient:")
print(f"  in years {in_years:.1f}, at the mean age {at_mean:.1f}")
print(f"  in units of 90 years {in_units:.5f}")
assert in_years > 1 and in_units < 0.001 and at_mean < in_years

# %% [markdown]
# In years, the age has a real say, at least at the beginning. In units of 90
# years it is 90 · 90 = 8,100 times smaller, and has next to none. The losses of
# this lesson's heads are in nats, as the language model's is.
#
# Now let the rule compare two settings that are the same, with three seeds each.

# %%
generator = torch.Generator().manual_seed(SEED)
one, other = torch.randn(2, 100_000, 3, generator=generator)
apart = (one.mean(1) - other.mean(1)).abs()
alarms = (apart > one.std(1) + other.std(1)).float().mean().item()
print(f"false alarms: {alarms:.1%}, in 12 comparisons {12 * alarms:.1f}")

# %% tags=["hide-input"]
# check what is said about false alarms
assert 0.07 < alarms < 0.09


# %% [markdown]
# So about one of the table's twelve comparisons would get a star by chance
# alone.
#
# One thing hardly moves, except with 3: how often each code is written. The
# widget has it as the [Jensen-Shannon divergence](../course/book/glossary.md)
# from real patients, in nats: 0 if all codes are equally frequent in both, and
# 0.693 if no code is shared.

# %% [markdown]
# ## Could you have known?
#
# You found the leak because you had the model and could lie to it. Now
# suppose that a paper reports a head that is right in 98% of its answers,
# given before the first code and after each code. You have its patients, but
# not its model. Could codes alone explain this number?
#
# ### 13.6 A ceiling for honest heads
#
# Try It Yourself · ★★★ · 14 minutes
#
# `patients` is a list of pairs (sex, codes): `"F"` or `"M"`, and a list of
# the patient's codes in their order, which may be empty. A head is asked
# for the sex before the first code, and again after each code. It knows
# only the codes that it has read so far, in their order, and whenever it
# has read the same codes, it gives the same answer.
#
# Return the highest share of right answers that any such head can reach
# on these patients, from 0.0 to 1.0.
#
# Example: for `patients = [("F", ["4280", "650"]), ("M", ["4280"]),
# ("M", [])]` a head is asked six times. Before any code "M" is right in 2 of 3
# cases, after 4280 either answer in 1 of 2, and after 4280 and 650 "F" in 1 of 1:
# 4 of 6, or 0.6667 (do not round).

# %% tags=["exercise:13.6", "nbval-ignore-output"]
def ceiling(patients: list[tuple[str, list[str]]]) -> float:
    raise NotImplementedError("13.6: replace this line")


check("13.6", ceiling)

# %% [markdown]
# Now ask both heads exactly where the ceiling is asked. Is the ceiling high enough to
# explain the head on the states?

# %% tags=["hide-input", "nbval-ignore-output"]
# measure: both heads where the ceiling is asked
is_code = ids > tokenizer.mask_id
where = scored & (is_code | (places == 0))  # at place 0, no code yet
for name, one in (("states", model), ("codes", honest)):
    _, claimed = judged(sex_logits(one), sexes, where)
    print(f"head on {name}: {claimed:.1%} of {where.sum():,} answers")
read = [
    (record.sex, [t for t in row if not t.startswith("<")])
    for record, row in zip(held_out.records, tokens, strict=True)
]
dealt = [sex for sex, _ in read]
random.Random(SEED).shuffle(dealt)
at_random = [(sex, c) for sex, (_, c) in zip(dealt, read, strict=True)]
highest = find_exercise("13.6").worked_answer  # the course's own answer
for name, some in (("", read), (", with shuffled sexes", at_random)):
    print(f"ceiling of the codes{name}: {highest(some):.1%}")
if examine("13.6", ceiling).outcome.is_solved:
    own = ceiling(read), ceiling(at_random)
    print("by your function: {:.1%}, {:.1%}".format(*own))

# %% tags=["hide-input"]
# check: the same answers are asked for, and only one head stands below
assert where.sum() == sum(len(codes) + 1 for _, codes in read)
if not real:
    _, leaking = judged(sex_logits(model), sexes, where)
    assert claimed < highest(read) < leaking
    if SEED == 0:
        assert round(highest(read), 2) == 0.92
        assert round(highest(at_random), 2) == 0.91
    # with the markers of visits before each code, the ceiling is the same
    marked = []
    for record, row in zip(held_out.records, tokens, strict=True):
        steps, since = [], ""
        for token in row:
            since += token
            if not token.startswith("<"):
                steps.append(since)
                since = ""
        marked.append((record.sex, steps))
    assert abs(highest(marked) - highest(read)) < 0.002

# %% [markdown]
# The ceiling is about 92%: no head that reads only codes can be right in 98% of these
# answers. The paper's head must have read something else, like the head on the states.
# You could have known without a single lie.
#
# The ceiling is an upper limit, and no estimate of what codes say about the sex. With
# shuffled sexes, when codes say nothing, the ceiling is still about 91%. Most long
# records occur once, and the best possible head knows them all by heart. So the
# ceiling can convict a head, but it cannot praise one.
#
# So, does the model know who it is writing about? Neither head can tell you:
# one repeats what the model was told, the other looks at recorded codes. But
# the models of the sweep have shown you how often they slip. Without heads,
# 4.4% of their codes were impossible. What would the share be if somebody dealt
# real codes to patients without looking?

# %% tags=["hide-input", "nbval-ignore-output"]
# real codes of held-out patients, dealt to other held-out patients
order = torch.randperm(len(unseen), generator=generator).tolist()
visits = [[visit.codes for visit in record.visits] for record in unseen]
others = [unseen[i] for i in order]
their_ages, their_sexes = [r.age for r in others], [r.sex for r in others]
by_chance = impossible_share(
    visits, their_ages, their_sexes, system=system_of(unseen)
)
print(f"dealt to other patients, {by_chance:.0%} are impossible")
assert real or by_chance > 3 * without["impossible_mean"]

# %% [markdown]
# Far more. So yes, mostly: what the model writes fits the patient that it was
# asked for.

# %% [markdown]
# ## Recap
#
# - **A head reads the prompt** if its answer changes with the prompt while
#   the codes stay, as it does on the decoder's states.
# - **A loss at each token** starts after the prompts, skips labels of
#   -100, and repeats the patient's class along the row.
# - **A head that cannot see the prompt** is built from token embeddings alone. Ours
#   was right where a code belongs to one sex only, and no better than a coin
#   elsewhere.
# - **What a weight changes** has to stand out from the differences between seeds. In
#   this sweep no weight shows fewer impossible codes.
# - **The highest accuracy** that codes allow follows from the records: the
#   same codes get the same answer. Most of it may be memory.
#
# ## Test yourself
#
# 1. Somebody stops the gradient between decoder and sex head with
#    `detach()`, so that "the prompt cannot leak". Does the head still
#    follow a lying prompt?
#
# <details><summary>Answer</summary>
# Yes, if perhaps less faithfully. <code>detach</code> stops what flows back. The state
# that flows forward has read the prompt, because the prompt helps to write
# codes, and the head learns to find it there.
# </details>
#
# 2. A head on the codes is right at two thirds of all tokens. Is it a bad
#    head? What would you compare it with?
#
# <details><summary>Answer</summary>
# That depends on what the codes can say: nothing before the first of them,
# and less where no code belongs to one sex. Compare it there with another
# reader of the same codes, such as a linear model.
# </details>
#
# 3. A paper reports that weight 0.1 makes 4.0% of codes impossible and
#    weight 0 makes 4.4%, one run each. What do you ask for?
#
# <details><summary>Answer</summary>
# Several seeds of both. Without them you cannot tell the weight from the
# seed. Ask also which rules make a code impossible.
# </details>
#
# ## What comes next
#
# You can now add a question to a model, find out what its answer is made
# of, and say what an added loss costs. Try it on your own data: set
# `EHR_COURSE_DATA` as in lesson 08, run the lesson again, and see whether
# 98% would be too good for your patients.
#
# The total loss now has three parts, each with a weight and a count of its own.
# [Lesson 14](14_loss_functions.ipynb) takes the losses apart: what is
# summed, what is divided by what, and which of them has a gradient at all.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#13-multi-task-learning)
# says which of its claims hold.
