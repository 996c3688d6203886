# %% [markdown]
# # 13 · Multi-task learning
#
# 75 minutes · Prerequisites: 12
#
# You will be able to:
#
# - Take the last real token of each row of a padded batch.
# - Compute a loss at each token that skips prompts and padding.
# - Show that a head can read its answer from the prompt.
# - Build a head that cannot see the prompt.
# - Measure what auxiliary weights change, with the spread over seeds.

# %% [markdown]
# ## Does the model know whom it writes about?
#
# A model writes the codes of a patient. Ask it a second question: whose
# codes are these, a woman's or a man's? The tutorial adds such questions
# to the training, one about the sex and one about the age. Each is
# answered by a *head*, a small network on top of the decoder, and has a
# loss of its own. If the loss of the sex is low, the tutorial concludes,
# the codes fit the sex. Train a model with both heads, and look.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import statistics
from collections.abc import Callable
from types import SimpleNamespace

import polars as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ehr_course import icd9
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.course_files import checkpoint_folder
from ehr_course.exercises import check, hint, progress
from ehr_course.losses import LossTerm, classification_loss
from ehr_course.models.demographic_heads import (
    AGE_BRACKETS,
    SequenceAge,
    TokenAge,
    age_bracket,
    codes_read,
    last_real,
)
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.patients import choose_patients, real_data
from ehr_course.sources.splits import split_by_patient
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.auxiliary_weights import weight_explorer

# %% [markdown]
# The patients are those of the embedded hospital, or real ones if
# `EHR_COURSE_DATA` names a folder. The patients of the test split are not
# learned from: their codes are *held out*.

# %%
real = real_data() is not None
sizes = {"tiny": 4_000, "small": 10_000, "full": 46_520}
cohort = choose_patients(sizes[PROFILE], seed=SEED)
learned_from, _, unseen = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(learned_from)
known = CodeTokenizer(tokenizer.codes, unseen="skip")
print(f"{len(learned_from):,} patients to learn from", end="")
print(f", {len(unseen):,} held out")


# %%
def dataset(patients, p_empty):
    return RecordDataset(
        patients,
        known,
        corruption=Corruption(p_empty=p_empty),
        seed=SEED,
        max_tokens=200,
        too_long="cut",
    )


# Nothing is known to the encoder: all codes come through the decoder.
held_out = dataset(unseen, p_empty=1.0)
batch = held_out.batch(range(len(held_out)))
scored = batch["labels"] != -100  # (batch, length)
sexes, ages = batch["x_cat"], batch["x_num"]  # (batch, 1) each


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


# %% [markdown]
# The weights 0.3 for the age and 0.2 for the sex are those that a first
# version of the tutorial's model had. After training, ask the sex head at
# each token of the held-out patients.

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
print(f"sex loss {loss:.3f} (a coin: {torch.tensor(2.0).log():.3f})")
print(f"right at {right:.1%} of all tokens")
assert real or (loss < 0.1 and right > 0.95)


# %% [markdown]
# Almost never wrong. Now be the head yourself. Some codes tell you the
# sex: a delivery, an enlarged prostate. How many of these patients have
# any such code?

# %%
def tells_sex(record):
    codes = [code for code in record.codes if icd9.is_code(code)]
    rules = [icd9.who_can_have(code) for code in codes]
    return any(rule is not None and rule.sex for rule in rules)


telling = torch.tensor([[tells_sex(r)] for r in held_out.records])
share = telling.float().mean().item()
print(f"{share:.0%} of the held-out patients have a code of one sex only")
assert real or share < 0.6


# %% [markdown]
# So for about half of the patients no code settles it, and the head is
# right all the same, at nearly every token. Either the model sees in
# pneumonia what no physician sees in it, or it has the answer from
# elsewhere. You will find out which. First, what a head is made of.
#
# ## What a head reads, and what it is asked
#
# The tutorial's system is described in three documents, and they have
# three different heads for the age:
#
# | | reads | answers | loss |
# |---|---|---|---|
# | 1 | the last position | the age, a number | squared error |
# | 2 | every token | one of six brackets | cross-entropy |
# | 3 | every token | brackets with other bounds | cross-entropy |
#
# The first reads `hidden[:, -1]`, the last position of every row. You met
# it in lesson 11: in a padded batch that is padding.
#
# ### 13.1 The last real token
#
# Try It Yourself · ★ · 6 minutes
#
# `states` has the shape (batch, length, d_model). `real` has the shape
# (batch, length) and is `True` for a token and `False` for padding, which
# stands on the right; a row can also be full, and each row has a token.
# Return the state of each row's last token, (batch, d_model).
#
# Example: for `states = [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]`
# and `real = [[True, True, False], [True, True, True]]`, as tensors, the
# result is `[[2.0], [6.0]]`.

# %% tags=["exercise:13.1", "nbval-ignore-output"]
def last_states(states: Tensor, real: Tensor) -> Tensor:
    raise NotImplementedError("13.1: replace this line")


check("13.1", last_states)


# %% [markdown]
# ### 13.2 Age brackets
#
# Try It Yourself · ★ · 6 minutes
#
# `ages` has the shape (n,): years, 0.0 to 90.0, not always whole ones.
# `bounds` is a list of whole numbers in ascending order: at each of them a
# new bracket begins. Bracket 0 holds the ages below the first bound, and
# the last bracket has no upper end. Return the number of each age's
# bracket, a tensor of whole numbers (n,).
#
# Example: for `ages = [5.0, 40.0, 90.0]`, as a tensor, and
# `bounds = [18, 65]` the result is `[0, 1, 2]`.

# %% tags=["exercise:13.2", "nbval-ignore-output"]
def age_brackets(ages: Tensor, bounds: list[int]) -> Tensor:
    raise NotImplementedError("13.2: replace this line")


check("13.2", age_brackets)

# %% [markdown]
# The second document ends its last bracket at 90: "(80, 90)", upper end
# excluded. The records hold 90 for everybody above 89. How many would
# fall into no bracket? And does it matter where the bounds lie? Compare
# with those of the third document: how often is somebody right who always
# names the largest bracket?

# %%
every_age = torch.tensor([float(record.age) for record in cohort])
print(f"in no bracket: {(every_age >= 90).float().mean():.1%}")
for bounds in (AGE_BRACKETS, (2, 12, 18, 40, 65)):
    begins = torch.tensor(bounds, dtype=every_age.dtype)
    brackets = torch.bucketize(every_age, begins, right=True)
    largest = brackets.bincount().max() / len(cohort)
    print(f"bounds {bounds}: the largest holds {largest:.1%}")
assert (every_age == 90).any() and every_age.max() == 90


# %% [markdown]
# An accuracy belongs to its bounds. The course
# uses the six brackets of the second document, with the last one open:
# `AGE_BRACKETS`.
#
# ### One interface, two questions
#
# In the library the two kinds of head share an interface. Both are called
# with states and with what is real. Both turn answers and true ages into
# a sum of losses and a count, and `per` says what was counted: rows for
# `SequenceAge`, which answers once a record, and tokens for `TokenAge`.
# So whatever can hold the one can hold the other. Put each on the
# simplest reader of codes there is: at each token, the mean of the
# embeddings so far (`codes_read`). It has no prompts.

# %%
class CodeReader(nn.Module):
    def __init__(self, kind, d_model=64):
        super().__init__()
        self.embed = nn.Embedding(len(tokenizer), d_model)
        self.head = kind(d_model, d_hidden=32)

    def answers(self, ids):
        states = codes_read(self.embed(ids))  # (batch, length, d_model)
        return self.head(states, ids != tokenizer.pad_id)

    def forward(self, decoder_input_ids, labels, x_num, **rest):
        answers = self.answers(decoder_input_ids)
        loss = self.head.loss(answers, labels != -100, x_num[:, 0])
        term = LossTerm("age", *loss, per=self.head.per)
        return SimpleNamespace(terms=(term,))


# %% [markdown]
# To compare them, ask both the same thing: the age in years, once the
# record has been read. The token head answers with probabilities; the
# age that it expects is the mean age of each bracket, weighted by them.

# %%
ids, years = batch["decoder_input_ids"], ages[:, 0]
of_learned = torch.tensor([float(r.age) for r in learned_from])
groups = age_bracket(of_learned)
means = torch.tensor(  # 50 for a bracket without patients
    [of_learned[groups == k].mean().nan_to_num(50.0) for k in range(6)]
)
mean = of_learned.mean().item()
guesses = {"always the mean age": torch.full_like(years, mean)}
print("mean ages of the brackets:", [round(m) for m in means.tolist()])

# %% tags=["nbval-ignore-output"]
for kind in (SequenceAge, TokenAge):
    torch.manual_seed(SEED)
    reader = CodeReader(kind)
    data = dataset(learned_from, p_empty=0.5)
    train(reader, data, steps=200, lr=1e-2, seed=SEED)
    with torch.no_grad():
        answers = reader.eval().answers(ids)
    if kind is TokenAge:
        last = last_real(answers, ids != tokenizer.pad_id)  # (batch, 6)
        guesses[kind.__name__] = last.softmax(-1) @ means
    else:
        guesses[kind.__name__] = 90 * answers  # (batch,)

# %% tags=["claim:27", "nbval-ignore-output"]
errors = {}
for name, guess in guesses.items():
    errors[name] = (guess - years).abs().mean().item()
    right = (age_bracket(guess) == age_bracket(years)).float().mean()
    print(f"{name:20} off by {errors[name]:4.1f} years", end="")
    print(f", right bracket {right:.0%}")
one, other = errors["SequenceAge"], errors["TokenAge"]
baseline = errors["always the mean age"]
assert real or (max(one, other) < 11 and baseline > 20)
assert real or abs(one - other) < 2

# %% [markdown]
# Three documents describe three heads of two kinds. Both kinds read the
# age off the codes, to within about nine years, where always saying the
# mean is off by more than twenty. The token head was a little better on
# each of the seeds that were tried, by a year or less, although it never
# hears an exact age; it learns from every token and not from one a record.
# That is no difference to choose a design by.
#
# ### A weight has a unit
#
# Document 1 takes the squared error in years, and multiplies it by 0.001.
# Is that a small weight? An untrained head says about 0. Compare its loss
# with the language model's at the start, and at the end.

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    out = model(**batch)
language = (out.loss_sum / out.loss_count).item()  # nats a token
start = torch.tensor(len(tokenizer)).log().item()  # all alike
in_years = 0.001 * years.square().mean().item()
in_units = 0.001 * (years / 90).square().mean().item()
print(f"language model: {start:.1f} at the start, now {language:.1f}")
print(f"0.001 x squared error: in years {in_years:.1f}", end="")
print(f", in units of 90 years {in_units:.5f}")
assert in_years > 1 and in_units < 0.001


# %% [markdown]
# In years, the term begins at the order of the language model's own loss.
# In units of 90 years it is next to nothing: the same weight, and a factor
# of 90 · 90 = 8,100. A weight means something only together
# with the unit of its loss. The library's `age_loss` takes units of 90
# years, and the cross-entropies are in nats, as the language model's is.
#
# ## A loss at each token
#
# `TokenAge` and the head of the sex answer at each position of the
# decoder. Which of them count? The prompts stand in front of the tokens
# and have no label. Padding has the label -100. Everything else counts,
# and the right class is that of the patient: the same at each token.
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
# (The second document scores padding in the losses of its heads, and not
# in that of the language model: there, -100 is skipped.)
#
# ## Where does the head have it from?
#
# Back to the head that is never wrong. Lie to the model: give it the
# prompt of the other sex, and leave the codes as they are. A head that
# reads codes does not care. A head that reads the prompt now says the
# opposite.

# %% tags=["nbval-ignore-output"]
lied_to = sex_logits(model, x_cat=1 - sexes)
_, as_codes = judged(lied_to, sexes)
_, as_prompt = judged(lied_to, 1 - sexes)
print(f"{as_prompt:.1%} say what the prompt says,")
print(f"{as_codes:.1%} what the codes belong to")
assert real or as_prompt > 0.8

# %% [markdown]
# Lie in another way: keep the prompt, and put random codes in the place of
# the patient's. And ask at the first position, where the decoder has read
# no code yet.

# %% tags=["nbval-ignore-output"]
generator = torch.Generator().manual_seed(SEED)
first = tokenizer.mask_id + 1  # the first code
any_code = torch.randint(
    first, len(tokenizer), ids.shape, generator=generator
)
random_codes = torch.where(ids > tokenizer.mask_id, any_code, ids)
on_random = sex_logits(model, decoder_input_ids=random_codes)
random_loss, _ = judged(on_random, sexes)
at_start = scored & (torch.arange(ids.shape[1]) == 0)
start_loss, _ = judged(sex_logits(model), sexes, at_start)
print(f"sex loss on random codes {random_loss:.2f}")
print(f"sex loss before the first code {start_loss:.2f}")
assert real or (random_loss < 0.35 and start_loss < 0.1)


# %% [markdown]
# The head says what the prompt says. It names the prompt's sex over random
# codes too, and at the first position, where not one code has been read.
# Age and sex entered the decoder as prompts, every state has attended to
# them, and the head reads them off the state. The answer leaks into the
# question.
#
# A low loss would show nothing about generated codes even without the
# leak. The loss is computed on recorded patients, whose codes fit them
# anyway. What the model writes never enters it.
#
# ### 13.4 Find the leak, and close it
#
# Try It Yourself · ★★★ · 12 minutes
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
# Example: `read` adds the prompt to each embedding,
# `lambda prompts, embeddings: embeddings + prompts`. For
# `prompts = [[[3.0, 0.0]]]`, `other_prompts = [[[0.0, 4.0]]]` and
# `embeddings = [[[1.0, 2.0], [3.0, 4.0]]]`, as tensors, the leak is
# `[[5.0, 5.0]]` and the features are `[[[1.0, 2.0], [2.0, 3.0]]]`. (In the
# messages of the check, `ToyDecoder([1.0, 0.0])` is a decoder that reads
# the prompts at the first token and not at the second.)

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
# The same on the trained model. How far does each state move, as a share
# of its own length, when the sex of the prompts is changed? Two tries to
# close the leak follow: the states of a model whose decoder has no prompt
# (its encoder still has one), and the mean of the embeddings.

# %%
@torch.no_grad()
def states_of(model, x_cat):
    out = model(**(batch | {"x_cat": x_cat}), output_hidden_states=True)
    return out.decoder_hidden_states[-1][:, -ids.shape[1] :]


def moved(read):
    own, other = read(sexes), read(1 - sexes)  # (batch, length, d_model)
    leak = (own - other).norm(dim=-1) / own.norm(dim=-1)
    return leak[scored].mean().item()


# %% tags=["nbval-ignore-output"]
no_prompt = trained(small_model(prompt_decoder=False))
embeddings = model.get_input_embeddings()(ids).detach()
leaks = {
    "states": moved(lambda x_cat: states_of(model, x_cat)),
    "no decoder prompt": moved(lambda x_cat: states_of(no_prompt, x_cat)),
    "codes read": moved(lambda x_cat: codes_read(embeddings)),
}
for name, leak in leaks.items():
    print(f"{name:18} {leak:.2f}")
lied_to = sex_logits(no_prompt, x_cat=1 - sexes)
_, as_prompt = judged(lied_to, 1 - sexes)
print(f"without decoder prompt, {as_prompt:.1%} say what the prompt says")
assert leaks["codes read"] == 0 < 0.05 < leaks["states"]
assert real or (as_prompt > 0.8 and leaks["no decoder prompt"] > 0.05)

# %% [markdown]
# Taking the prompt out of the decoder closes nothing: the decoder reads
# the encoder, and the encoder has one. The mean of the embeddings cannot
# move, whatever the prompts are, for nothing in it depends on them. In
# the library that is `head_reads="codes"`. Train such a model, and lie to
# both.

# %% tags=["claim:28", "nbval-ignore-output"]
honest = trained(small_model(head_reads="codes"))
results = {}
for name, one in (("states", model), ("codes", honest)):
    own, _ = judged(sex_logits(one), sexes)
    mixed = sex_logits(one, decoder_input_ids=random_codes)
    random_loss, _ = judged(mixed, sexes)
    lied_to = sex_logits(one, x_cat=1 - sexes)
    _, as_prompt = judged(lied_to, 1 - sexes)
    results[name] = own, random_loss, as_prompt
    print(f"{name:6}: sex loss {own:.2f}, on random codes", end=" ")
    print(f"{random_loss:.2f}; {as_prompt:.0%} agree with a lying prompt")
assert real or (results["states"][1] < 0.35 and results["states"][2] > 0.8)
assert real or results["codes"][1] > 0.65 > results["codes"][0]
same = sex_logits(honest).equal(sex_logits(honest, x_cat=1 - sexes))
assert same and (real or results["codes"][2] < 0.45)

# %% [markdown]
# A low sex loss does not show that codes fit the sex: a head on the
# states has it from the prompt, and keeps it low on random codes. A head
# that reads codes alone gives the same answers whatever the prompt says,
# bit for bit, and on random codes it is no better than a coin. (Those of
# its answers that agree with the lie do not follow it: they are its
# mistakes, where the codes mislead it.)
#
# ### How good is an honest head?
#
# Its loss on real records is a little below a coin's 0.693. Is that a bad
# head? Ask it at the end of each record, for the patients who have a code
# of one sex only, and for the others.

# %% tags=["nbval-ignore-output"]
places = torch.arange(ids.shape[1])
at_end = places == scored.sum(1, keepdim=True) - 1  # (batch, length)
logits = sex_logits(honest)
_, everywhere = judged(logits, sexes)
_, of_telling = judged(logits, sexes, at_end & telling)
_, of_others = judged(logits, sexes, at_end & ~telling)
print(f"right at {everywhere:.0%} of all tokens; at the end of a record:")
print(f"{of_telling:.0%} with a code of one sex, {of_others:.0%} without")
assert real or (of_telling > 0.85 and of_others < 0.62)


# %% [markdown]
# Where a code settles it, the head is nearly always right. Where none
# does, it is a coin, and so would you be: most codes have no sex. A head
# cannot be better than what it reads, and the head with the perfect score
# did not read codes.
#
# ### What does a head teach the model?
#
# A loss changes what its gradient reaches. Which parts of the model are
# reached by the loss of the sex, from either head?

# %%
def reached(model):
    model.zero_grad()
    few = held_out.batch(range(8))
    (sex,) = (t for t in model(**few).terms if t.name == "sex")
    sex.total.backward()
    moved = {
        "embeddings": model.get_input_embeddings().weight,
        "encoder": model.model.encoder.layers[0].fc1.weight,
        "decoder": model.model.decoder.layers[0].fc1.weight,
        "prompts": model.decoder_prompt.numerical.weight,
    }
    return [
        name
        for name, weight in moved.items()
        if weight.grad is not None and weight.grad.any()
    ]


# %%
print("head on states:", ", ".join(reached(model)))
print("head on codes:", ", ".join(reached(honest)))
assert reached(honest) == ["embeddings"] and len(reached(model)) == 4
out, into = honest.get_output_embeddings(), honest.get_input_embeddings()
assert out.weight is into.weight  # one table reads and writes

# %% [markdown]
# The honest head teaches the embeddings alone, and only which codes women
# and men have. The decoder reads them and, since output and input share
# them, writes with them; the layers between and the prompts are told
# nothing. The head on the states reaches everything, and can teach it to
# keep the prompt readable. Whether that helps to write codes that fit is a
# question for an experiment, and somebody has to say which weight.
#
# ## Which weight?
#
# The tutorial tells of versions. In the first, with weights 0.3 (age) and
# 0.2 (sex), 99% of the records were medically valid, and their coherence
# was poor. In the last, with 0.001 and 0.001, both were in balance. So
# validity would be bought with coherence, and the weight would set the
# price.
#
# ### What is valid?
#
# Validity is what some rules say. One of the rules in these documents
# looks for atrial fibrillation under 42979. Look it up, with the right
# code and three more that the rules name, and count the patients who have
# them.

# %% tags=["claim:30"]
named = {
    "42979": "certain sequelae of myocardial infarction",
    "42731": "atrial fibrillation",
    "7461": "tricuspid atresia",
    "7454": "ventricular septal defect",
    "2749": "gout",
}
have = {code: sum(code in r.codes for r in cohort) for code in named}
for code, name in named.items():
    print(f"{icd9.dotted(code):6} {icd9.title(code)[:44]}", end="")
    print(f" ({have[code]} patients)")
    assert icd9.title(code).lower().startswith(name)
assert have["42979"] < have["42731"] / 10

# %% [markdown]
# 427.31 is atrial fibrillation; 429.79 is something else, and in this
# cohort next to nobody has it. A rule about a code that nobody has is
# never broken: the validity that it reports is 100%, and means nothing. In
# this course, "impossible" means ruled out by age or sex, by the table of
# `icd9.who_can_have`, which gives a reason and a source for every row.
#
# ### The sweep
#
# One training says little: another seed gives another number. The course
# brings a *sweep*: small models that differ in the weights of the heads
# and in the seed, three seeds for each setting.

# %%
sweep = pl.read_csv(checkpoint_folder("auxiliary_weights") / "sweep.csv")
print(f"{len(sweep)} trainings; the columns are")
print(*sweep.columns[:4])
print(*sweep.columns[4:8])
print(*sweep.columns[8:])


# %% [markdown]
# - `loss`: of the language model, held out, from age and sex alone, in
#   nats a token; `loss_repair`: the same when it repairs a record.
# - `impossible`: the share of generated codes that the patient's age or
#   sex rules out.
# - `divergence`: the Jensen-Shannon divergence, in nats, between how often
#   codes are generated and how often real patients have them: 0 if alike,
#   0.693 if nothing is shared.
# - `age_accuracy`, `sex_accuracy`: of the heads, at the tokens of held-out
#   patients. `sex_says_prompt`: how often the sex head agrees with a prompt
#   of the other sex; `sex_says_codes`: how often it still names the
#   patient's sex. The two add up to 1.
#
# ### 13.5 Read the weight sweep
#
# Try It Yourself · ★★ · 10 minutes
#
# `runs` is a list of tuples (weight, seed, value), in any order; every
# weight has two runs or more, and weight 0.0 is among them. Return a
# dictionary that gives for each weight a tuple of three: the mean of its
# values; their spread, the standard deviation that divides by one less
# than the number of runs; and whether its mean differs from that of
# weight 0.0 by more than its own spread and that of weight 0.0 together
# (`True` or `False`; for weight 0.0 it is `False`). (`statistics`, of
# Python's standard library, is imported.)
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
# With three seeds this rule is a coarse one. In a table of many cells some
# differences pass it by chance, and small ones do not pass it although
# they are there. It keeps you from believing one lucky run.
#
# Now the real table: for each setting the mean and the spread over seeds,
# and a star where it differs from the models without heads by your rule.

# %%
settings = ["age_weight", "sex_weight", "head_reads"]
measures = ["impossible", "divergence", "loss", "loss_repair"]
summary = sweep.group_by(settings, maintain_order=True).agg(
    pl.col(measures).mean().name.suffix("_mean"),
    pl.col(measures).std().name.suffix("_spread"),
)
rows = {tuple(row[n] for n in settings): row for row in summary.to_dicts()}
without = rows[0.0, 0.0, ""]


def differs(row, measure):
    mean, spread = f"{measure}_mean", f"{measure}_spread"
    return abs(row[mean] - without[mean]) > row[spread] + without[spread]


# %% tags=["claim:29"]
print(f"{'age/sex, reads':19}" + "".join(f"{n:>15}" for n in measures))
for (age, sex, reads), row in rows.items():
    print(f"{age:g}/{sex:g} {reads}".ljust(19), end="")
    for name in measures:
        mean, spread = row[f"{name}_mean"], row[f"{name}_spread"]
        star = "*" if differs(row, name) else " "
        print(f"{mean:8.3f} ±{spread:.3f}{star}", end="")
    print()
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
for row in rows.values():
    fewer = row["impossible_mean"] < without["impossible_mean"]
    assert not (fewer and differs(row, "impossible"))
assert not any(differs(rows[0.3, 0.2, "codes"], n) for n in measures)

# %% [markdown]
# Weights of 0.3 and 0.2 buy no validity here: the models with these heads
# write no fewer impossible codes than those without, rather a few more.
# They cost something all the same. The loss is higher, a little from age
# and sex alone and clearly in repairing. How often each code is written
# stays as it was, so coherence in that sense is not lost. With 0.001
# nothing differs: what is in balance there is, as far as this sweep can
# see, a model without heads. So are heads on the codes, at 0.3 and 0.2.
# With 3, validity and loss are both clearly worse.
#
# Why do the heads not help? Probably because they ask for what is there:
# the prompts bring age and sex to every state, with heads or without. And
# a training that is busy with the heads may learn its language more slowly.
# Look at `loss_repair`: with large weights it comes close to `loss`, as if
# the record in the encoder were hardly read.
#
# What the sweep does not say: these are small models, trained for 800
# steps on patients of the embedded hospital. A longer training may make
# up for some of it.
#
# ## See it
#
# The same trainings as points. Move the weights, and choose what is drawn.
# "sex named as a lying prompt has it" shows the leak: it is there from the
# smallest weight on. For the heads on the codes it is merely how often
# they are wrong.

# %% tags=["widget"]
weight_explorer(sweep)

# %% [markdown]
# ## Recap
#
# - **The last real token** of a row with n tokens stands at n - 1. The
#   last column is padding for all rows but the longest.
# - **A loss at each token** begins behind the prompts, skips labels of
#   -100, and repeats the patient's class along the row. It is a sum and a
#   count.
# - **A head reads the prompt** if its answer changes with the prompt while
#   the codes stay, and stays while the codes change. A head on the
#   decoder's states does.
# - **A head that cannot see the prompt** is built from token embeddings
#   alone. It is as good as what the codes say: sure where one of them has
#   a sex, a coin elsewhere.
# - **What a weight changes** shows beyond the spread over seeds, or not at
#   all. In this sweep no weight makes fewer codes impossible by that rule,
#   and large ones cost the language model much.
#
# ## Test yourself
#
# 1. Somebody stops the gradient between decoder and sex head with
#    `detach()`, so that "the prompt cannot leak". Does the head still
#    follow a lying prompt?
#
# <details><summary>Answer</summary>
# Yes. `detach` stops what flows back. The state that flows forward into
# the head has read the prompt as before, and the head learns to find it.
# </details>
#
# 2. A head on the codes is right at two thirds of all tokens. Is it a bad
#    head? What would you compare it with?
#
# <details><summary>Answer</summary>
# With what the codes can say at all: nothing at the start of a record,
# and little where no code has a sex. At the end of records with such a
# code it is nearly always right.
# </details>
#
# 3. A paper reports that weight 0.1 makes 4.0% of codes impossible and
#    weight 0 makes 4.4%, one training each. What do you ask for?
#
# <details><summary>Answer</summary>
# Several seeds of both. Without them you cannot tell the weight from the
# seed. And the rules by which a code is impossible, to look them up.
# </details>
#
# ## What comes next
#
# The total loss now has three terms. [Lesson 14](14_loss_functions.ipynb)
# takes the losses apart: what is summed, what is divided by what, and
# which of them has a gradient at all.
