# %% [markdown]
# # 15 · Training loop: worked answers
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
import contextlib
import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

from ehr_course import warmup_cosine_factor
from ehr_course.exercises import check
from ehr_course.exercises.tiny_training import TinyTraining, through_a_file
from ehr_course.exercises.trainers_to_test import Stopped


# %% [markdown]
# ## 15.1 Warm-up and cosine
#
# Three stretches. In the warm-up step 0 has one part of the peak, not 0.
# After it, `share` runs from 0 to 1 over the steps that are left, and the
# cosine of half a turn goes from 1 to -1.

# %% tags=["answer:15.1", "nbval-ignore-output"]
def learning_rate(step, peak, warmup_steps, total_steps):
    if step >= total_steps:
        return 0.0
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    share = (step - warmup_steps) / (total_steps - warmup_steps)
    return peak * (1 + math.cos(math.pi * share)) / 2


check("15.1", learning_rate)


# %% [markdown]
# Half of 1 plus the cosine of an angle is the square of the cosine of
# half the angle.

# %% tags=["alternative:15.1", "nbval-ignore-output"]
def learning_rate(step, peak, warmup_steps, total_steps):
    if step < min(warmup_steps, total_steps):
        return peak * (step + 1) / warmup_steps
    left = total_steps - warmup_steps
    share = min(1.0, (step - warmup_steps) / left) if left else 1.0
    return peak * math.cos(math.pi / 2 * share) ** 2


check("15.1", learning_rate)


# %% [markdown]
# ## 15.2 Accumulate a large batch
#
# The count of the whole batch comes first. Each micro-batch's summed loss over
# that count is its share of the mean, and `backward()` adds the shares'
# gradients up. One step and one `zero_grad` for each batch.

# %% tags=["answer:15.2", "nbval-ignore-output"]
def trained_in_parts(table, batches, lr):
    table = table.clone().requires_grad_()
    optimizer = torch.optim.SGD([table], lr=lr)
    for parts in batches:
        count = sum((labels != -100).sum() for _, labels in parts)
        for inputs, labels in parts:
            logits = table[inputs]  # (rows, length, vocabulary)
            loss = cross_entropy(
                logits.flatten(0, 1), labels.flatten(), reduction="sum"
            )
            (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()
    return table.detach()


check("15.2", trained_in_parts)


# %% [markdown]
# Without an optimizer: add up sums and counts, and divide once, at the
# step. That is the same, for the gradient of a sum is the sum of the
# gradients.

# %% tags=["alternative:15.2", "nbval-ignore-output"]
def trained_in_parts(table, batches, lr):
    for parts in batches:
        total, count = torch.zeros_like(table), 0
        for inputs, labels in parts:
            scored = labels != -100
            row, target = inputs[scored], labels[scored]  # (scored,)
            error = table[row].softmax(dim=-1)  # (scored, vocabulary)
            error[torch.arange(len(row)), target] -= 1
            total.index_add_(0, row, error)
            count += len(row)
        table = table - lr * total / count
    return table


check("15.2", trained_in_parts)


# %% [markdown]
# ## 15.3 Loss scaling
#
# `good` counts the good steps in a row. The gradient is divided by the
# scale it was multiplied by, in float32, before the scale changes.

# %% tags=["answer:15.3", "nbval-ignore-output"]
def loss_scaling(gradients, scale, growth_interval):
    applied, scales, good = [], [], 0
    for gradient in gradients:
        half = (gradient * scale).half()
        if half.isfinite().all():
            applied.append(half.float() / scale)
            good += 1
            if good == growth_interval:
                scale, good = scale * 2, 0
        else:
            applied.append(torch.zeros_like(gradient))
            scale, good = scale / 2, 0
        scales.append(scale)
    return torch.stack(applied), scales


check("15.3", loss_scaling)


# %% [markdown]
# A sum is finite only if all its terms are (here the terms are few and
# summed in float64, so the sum itself cannot overflow).

# %% tags=["alternative:15.3", "nbval-ignore-output"]
def loss_scaling(gradients, scale, growth_interval):
    applied, scales = torch.zeros_like(gradients), []
    wait = growth_interval
    for step in range(len(gradients)):
        half = gradients[step].mul(scale).to(torch.float16)
        if math.isfinite(half.double().sum()):
            applied[step] = half.float().div(scale)
            wait -= 1
            factor = 1.0 if wait else 2.0
        else:
            wait, factor = growth_interval, 0.5
        wait = wait or growth_interval
        scale *= factor
        scales.append(scale)
    return applied, scales


check("15.3", loss_scaling)


# %% [markdown]
# ## 15.4 Unscale, then clip
#
# The norm of the norms of the tensors is the norm of all their numbers. A
# factor above 1 would make a short gradient longer, so it ends at 1. The
# 1e-6 keeps a gradient of zeros from dividing by 0.

# %% tags=["answer:15.4", "nbval-ignore-output"]
def unscaled_and_clipped(gradients, scale, max_norm):
    unscaled = [gradient / scale for gradient in gradients]
    norms = torch.stack([gradient.norm() for gradient in unscaled])
    norm = norms.norm()
    if not norm.isfinite():
        return None
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return [gradient * factor for gradient in unscaled]


check("15.4", unscaled_and_clipped)


# %% [markdown]
# All numbers laid out in one row, clipped by PyTorch, and cut up again.

# %% tags=["alternative:15.4", "nbval-ignore-output"]
def unscaled_and_clipped(gradients, scale, max_norm):
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    if not flat.isfinite().all():
        return None
    weights = nn.Parameter(torch.zeros_like(flat))
    weights.grad = flat / scale
    nn.utils.clip_grad_norm_([weights], max_norm)
    pieces = weights.grad.split([one.numel() for one in gradients])
    pairs = zip(pieces, gradients, strict=True)
    return [piece.view_as(one) for piece, one in pairs]


check("15.4", unscaled_and_clipped)


# %% [markdown]
# ## 15.5 Resume to the bit
#
# Everything that a step reads and an earlier step has changed. What is
# the same in every run (the rows, the size of a batch) need not be saved.

# %% tags=["answer:15.5", "nbval-ignore-output"]
def save(training):
    return {
        "model": training.model.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "schedule": training.schedule.state_dict(),
        "scaler": training.scaler.state_dict(),
        "random": torch.get_rng_state(),
        "epoch": training.epoch,
        "batch": training.batch,
    }


def load(training, saved):
    training.model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    training.schedule.load_state_dict(saved["schedule"])
    training.scaler.load_state_dict(saved["scaler"])
    torch.set_rng_state(saved["random"])
    training.epoch = saved["epoch"]
    training.batch = saved["batch"]


def resumed(seed, stop, steps):
    training = TinyTraining(seed)
    for _ in range(stop):
        training.step()
    saved = through_a_file(save(training))
    training.step()  # it goes on after it has saved, and is killed
    training = TinyTraining(seed)  # a new process
    load(training, saved)
    for _ in range(steps - stop):
        training.step()
    return training.weights


check("15.5", resumed)

# %% [markdown]
# The same with the names in one place, so that `save` and `load` cannot
# fall apart.

# %% tags=["alternative:15.5", "nbval-ignore-output"]
WITH_STATE = ("model", "optimizer", "schedule", "scaler")


def save(training):
    states = [getattr(training, n).state_dict() for n in WITH_STATE]
    place = (training.epoch, training.batch)
    return [states, place, torch.random.get_rng_state()]


def load(training, saved):
    states, (training.epoch, training.batch), random = saved
    for name, state in zip(WITH_STATE, states, strict=True):
        getattr(training, name).load_state_dict(state)
    torch.random.set_rng_state(random)


def resumed(seed, stop, steps):
    training = TinyTraining(seed)
    for _ in range(stop):
        training.step()
    saved = through_a_file(save(training))
    training = TinyTraining(seed)
    load(training, saved)
    for _ in range(steps - stop):
        training.step()
    return training.weights


check("15.5", resumed)


# %% [markdown]
# ## 15.6 Train, stop, resume, compare
#
# The third trainer is new, and in the folder of the second. Its step
# before it runs says whether it has found the checkpoint: without one it
# would end with the right weights too, and prove nothing.

# %% tags=["answer:15.6", "nbval-ignore-output"]
def resume_report(make, stop):
    whole = make("whole")
    whole.run()
    stopped = make("parts", stop=stop)
    with contextlib.suppress(Stopped):
        stopped.run()
    resumed = make("parts")
    began = resumed.step
    resumed.run()
    wanted = whole.model.state_dict()
    made = resumed.model.state_dict()
    same = all(torch.equal(wanted[name], made[name]) for name in wanted)
    return began, same


check("15.6", resume_report)


# %% [markdown]
# The other way round: first the one that is stopped, then the whole one.
# All weights in one row are compared at once.

# %% tags=["alternative:15.6", "nbval-ignore-output"]
def resume_report(make, stop):
    try:
        make("stopped", stop=stop).run()
    except Stopped as reason:
        print(reason)
    resumed, whole = make("stopped"), make("never stopped")
    began, rows = resumed.step, []
    for trainer in (resumed, whole):
        trainer.run()
        weights = trainer.model.parameters()
        rows.append(nn.utils.parameters_to_vector(weights))
    return began, rows[0].equal(rows[1])


check("15.6", resume_report)


# %% [markdown]
# ## 15.7 Find the broken stage
#
# One probe for each stage, and each is chosen so that the sound loop and
# the broken one must differ: parts of unequal size, two batches at a scale
# of 1, a gradient that is longer than the limit at a scale above 1, one
# that is lost without its scale, and two overflows in front of a good step,
# with a rate of its own for each. The order of the probes matters little.

# %% tags=["answer:15.7", "nbval-ignore-output"]
def find_fault(loop):
    def last(batches, rates=(1.0,) * 6, scale=1.0, max_norm=100.0):
        batches = [[torch.tensor(part) for part in b] for b in batches]
        options = {"rates": rates, "scale": scale, "max_norm": max_norm}
        return loop(batches, **options)[-1].item()

    # One part has one row, the other three: the mean of means is 2.
    unequal = last([[[[4.0]], [[0.0], [0.0], [0.0]]]])
    if unequal != -1:
        return "mean of means"
    # A scale of 1, so that what is left over is not divided away.
    twice = last([[[[1.0]]], [[[1.0]]]])
    if twice != -2:
        return "keeps gradients"
    # A gradient of 10 is too long, and 80 even longer.
    clipped = last([[[[10.0]]]], scale=8.0, max_norm=5.0)
    if clipped != -5:
        never = clipped == -10
        return "never clips" if never else "clips before it unscales"
    # 2**-26 is lost in float16 unless it is scaled first.
    if last([[[[2.0**-26]]]], scale=2.0**20) == 0:
        return "rounds before it scales"
    # Two overflows, then the first step that is taken, with rate 1.
    batches, rates = [[[[1.0]]]] * 3, [1.0, 2.0, 4.0]
    overflow = last(batches, rates=rates, scale=2.0**17)
    if overflow != overflow:  # NaN
        return "applies an overflow"
    found = {-1.0: "none", 0.0: "keeps the scale"}
    return found.get(overflow, "uses up rates")


check("15.7", find_fault)

# %% [markdown]
# The other way round: write the loop with each fault, run all of them and
# the unknown one on the same random batches, and cross out those that
# disagree. The sizes run over many powers of two, so that some gradients
# overflow, some are lost without a scale, and some are clipped.

# %% tags=["alternative:15.7", "nbval-ignore-output"]
NAMES = ["none", "uses up rates", "mean of means", "never clips"]
NAMES += ["rounds before it scales", "clips before it unscales"]
NAMES += ["applies an overflow", "keeps the scale", "keeps gradients"]


def imitate(name, batches, rates, scale, max_norm):
    weights = gradient = torch.zeros(2)
    left, after = list(rates), []
    for parts in batches:
        n_rows = sum(map(len, parts))
        for part in parts:
            share = part.sum(dim=0) / n_rows
            if name == "mean of means":
                share = part.mean(dim=0) / len(parts)
            if name == "rounds before it scales":
                share = share.half().float()
            gradient = gradient + (share * scale).half().float()
        finite = gradient.isfinite().all()
        early = name == "clips before it unscales"
        gradient = gradient if early else gradient / scale
        if name != "never clips" and gradient.norm() > max_norm:
            gradient = gradient * (max_norm / gradient.norm())
        gradient = gradient / scale if early else gradient
        taken = finite or name == "applies an overflow"
        if taken:
            weights = weights - left[0] * gradient
        if taken or name == "uses up rates":
            left.pop(0)
        if not finite and name != "keeps the scale":
            scale = scale / 2
        if name != "keeps gradients":
            gradient = torch.zeros(2)
        after.append(weights)
    return torch.stack(after)


def find_fault(loop):
    rng = torch.Generator().manual_seed(0)
    left = NAMES
    for trial in range(60):
        size = 2.0 ** torch.randint(-27, 4, (), generator=rng)
        draw = [torch.randn(5, 2, generator=rng) * size for _ in range(4)]
        batches = [[rows[:1], rows[1:]] for rows in draw]
        scale = 2.0 ** (trial % 20)
        options = batches, [1.0, 2.0, 4.0, 8.0], scale, size / 4
        names = "rates", "scale", "max_norm"
        seen = loop(batches, **dict(zip(names, options[1:], strict=True)))
        same = {"rtol": 1e-4, "atol": 0, "equal_nan": True}
        own = {name: imitate(name, *options) for name in left}
        left = [name for name in left if seen.allclose(own[name], **same)]
    return left[0]


check("15.7", find_fault)


# %% [markdown]
# ## 15.8 Blank page
#
# What is counted matters most: tokens over the whole batch, steps that
# were taken, batches that were read.

# %% tags=["answer:15.8", "nbval-ignore-output"]
def train(
    model, batches, steps, loss_sum, *, lr, warmup_steps=0, max_norm=1.0,
    dtype=torch.float32, look=None, every=50, file=None,
):  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = LambdaLR(
        optimizer,
        lambda step: warmup_cosine_factor(
            step, warmup_steps=warmup_steps, total_steps=steps
        ),
    )
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    with_state = {"model": model, "optimizer": optimizer}
    with_state |= {"schedule": schedule, "scaler": scaler}
    step, read, losses = 0, 0, []
    if file is not None and file.exists():
        saved = torch.load(file)
        for name, one in with_state.items():
            one.load_state_dict(saved[name])
        torch.set_rng_state(saved["random"])
        step, read = saved["step"], saved["read"]
    model.train()
    while step < steps:
        batch = batches[read % len(batches)]
        read += 1
        count = sum((part["labels"] != -100).sum() for part in batch)
        loss = 0.0
        for part in batch:
            half = dtype != torch.float32
            with torch.autocast("cpu", dtype=dtype, enabled=half):
                share = loss_sum(model, part) / count
            scaler.scale(share).backward()
            loss += share.item()
        losses.append(loss)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if scaler.get_scale() < scale:
            continue  # skipped: the schedule stands still
        schedule.step()
        step += 1
        if step % every == 0 and look is not None:
            model.eval()
            look(step)
            model.train()
        if step % every == 0 and file is not None:
            saved = {n: one.state_dict() for n, one in with_state.items()}
            saved |= {"random": torch.get_rng_state()}
            torch.save(saved | {"step": step, "read": read}, file)
    return losses


check("15.8", train)


# %% [markdown]
# Organised in another way: the rate is set by hand, the gradient of the
# sum is divided once, a skipped batch is tried again, and what comes next
# follows from the number of steps alone, so that is all the file needs
# beside the states.

# %% tags=["alternative:15.8", "nbval-ignore-output"]
def train(
    model, batches, steps, loss_sum, *, lr, warmup_steps=0, max_norm=1.0,
    dtype=torch.float32, look=None, every=50, file=None,
):  # fmt: skip
    weights = list(model.parameters())
    adamw = torch.optim.AdamW(weights, fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    parts = (model, adamw, scaler)
    done, history = 0, []
    if file and file.is_file():
        done, random, states = torch.load(file)
        torch.random.set_rng_state(random)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    while done < steps:
        model.train()  # it may come from look
        factor = warmup_cosine_factor(
            done, warmup_steps=warmup_steps, total_steps=steps
        )
        adamw.param_groups[0]["lr"] = lr * factor
        adamw.zero_grad(set_to_none=False)
        total, n_tokens = 0.0, 0
        for micro in batches[done % len(batches)]:
            on = dtype is not torch.float32
            with torch.autocast("cpu", dtype, enabled=on):
                loss = loss_sum(model, micro)
            scaler.scale(loss).backward()
            total += loss.detach()
            n_tokens += (micro["labels"] != -100).sum()
        scaler.unscale_(adamw)
        for weight in weights:
            weight.grad /= n_tokens
        nn.utils.clip_grad_norm_(weights, max_norm)
        finite = all(weight.grad.isfinite().all() for weight in weights)
        scaler.step(adamw)
        scaler.update()
        history.append(total / n_tokens)
        done += bool(finite)
        if finite and done % every == 0:
            if look:
                model.eval()
                look(done)
            if file:
                states = [part.state_dict() for part in parts]
                random = torch.random.get_rng_state()
                torch.save([done, random, states], file)
    return torch.stack(history)


check("15.8", train)
