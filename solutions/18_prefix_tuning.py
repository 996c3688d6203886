# %% [markdown]
# # 18 · Prefix tuning: worked answers
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
import copy
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from ehr_course.exercises import check, mine


# %% [markdown]
# ## 18.1 Attention with a prefix
#
# The prefix is tokens that were never read: they have keys and values and
# ask nothing, so `q` stays as it is. Every query may look at them, whatever
# the mask says of the others. After that it is attention as always.

# %% tags=["answer:18.1", "nbval-ignore-output"]
def prefix_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    prefix_k: Tensor,
    prefix_v: Tensor,
    mask: Tensor,
) -> Tensor:
    batch, target = len(q), len(mask)
    n, head_dim = prefix_k.shape[1:]
    before_k = prefix_k.expand(batch, -1, -1, -1)
    before_v = prefix_v.expand(batch, -1, -1, -1)
    keys = torch.cat([before_k, k], dim=2)  # (..., n + source, head_dim)
    values = torch.cat([before_v, v], dim=2)
    seen = torch.cat([torch.ones(target, n).bool(), mask], dim=1)
    scores = q @ keys.mT / head_dim**0.5
    scores = scores.masked_fill(~seen, float("-inf"))
    return scores.softmax(dim=-1) @ values


check("18.1", prefix_attention)


# %% [markdown]
# The same from two attentions: one over the sequence, one over the prefix.
# Each is right by itself. The share that goes to the prefix is what it has
# of all the softmax's sum. So a prefix is a vector that is mixed into the
# output of each head, and the query decides how much of it.

# %% tags=["alternative:18.1", "nbval-ignore-output"]
def prefix_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    prefix_k: Tensor,
    prefix_v: Tensor,
    mask: Tensor,
) -> Tensor:
    scale = q.shape[-1] ** 0.5
    on_prefix = q @ prefix_k.mT / scale  # (batch, heads, target, n)
    on_others = (q @ k.mT / scale).masked_fill(~mask, float("-inf"))
    sums = torch.stack(
        [s.logsumexp(dim=-1) for s in (on_prefix, on_others)]
    )
    share = sums.softmax(dim=0)[..., None]  # (2, batch, heads, target, 1)
    of_prefix = on_prefix.softmax(dim=-1) @ prefix_v
    of_others = on_others.softmax(dim=-1) @ v
    return share[0] * of_prefix + share[1] * of_others


check("18.1", prefix_attention)


# %% [markdown]
# ## 18.2 Keys and values for each layer
#
# A row of the table is one token: first split the row into its parts, in
# the order in which they stand. Nothing moves by that. Then `permute` puts
# the axes, and the numbers with them, into the order that is wanted.

# %% tags=["answer:18.2", "nbval-ignore-output"]
def per_layer(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
    batch, n, width = table.shape
    head_dim = width // (n_layers * 2 * n_heads)
    parts = table.reshape(batch, n, n_layers, 2, n_heads, head_dim)
    return parts.permute(2, 3, 0, 4, 1, 5)


check("18.2", per_layer)


# %% [markdown]
# One axis at a time: cut into layers, each layer into keys and values,
# and each of these into heads.

# %% tags=["alternative:18.2", "nbval-ignore-output"]
def per_layer(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
    layers = []
    for of_layer in table.chunk(n_layers, dim=-1):
        sides = [
            torch.stack(side.chunk(n_heads, dim=-1), dim=1)
            for side in of_layer.chunk(2, dim=-1)
        ]  # each (batch, heads, n, head_dim)
        layers.append(torch.stack(sides))
    return torch.stack(layers)


check("18.2", per_layer)


# %% [markdown]
# ## 18.3 Count what is trained
#
# A prompt is a vector for each token, a prefix a key and a value for each
# token and layer. The projection makes those numbers from a table as
# narrow as a prompt, and pays for it with two linear layers and their
# biases.

# %% tags=["answer:18.3", "nbval-ignore-output"]
def count_trained(
    n_tokens: int, n_layers: int, d_model: int, d_hidden: int
) -> tuple[int, int, int]:
    width = n_layers * 2 * d_model
    prompt = n_tokens * d_model
    prefix = n_tokens * width
    first = d_model * d_hidden + d_hidden
    second = d_hidden * width + width
    return prompt, prefix, prompt + first + second


check("18.3", count_trained)


# %% [markdown]
# Or let PyTorch count. On the device `meta` a layer has shapes and no
# memory, so that it can be as large as you like.

# %% tags=["alternative:18.3", "nbval-ignore-output"]
def count_trained(
    n_tokens: int, n_layers: int, d_model: int, d_hidden: int
) -> tuple[int, int, int]:
    width = n_layers * 2 * d_model
    with torch.device("meta"):
        table = nn.Embedding(n_tokens, d_model)
        projection = nn.Sequential(
            nn.Linear(d_model, d_hidden),
            nn.Tanh(),
            nn.Linear(d_hidden, width),
        )
    sizes = [p.numel() for p in projection.parameters()]
    prompt = table.weight.numel()
    return prompt, n_tokens * width, prompt + sum(sizes)


check("18.3", count_trained)


# %% [markdown]
# ## 18.4 Fold the projection away
#
# The projection reads nothing but its own table. After training neither
# changes any more, so what it makes of each row is a constant. Keep that,
# and drop what made it. (Between the layers stands tanh, so they cannot be
# multiplied into one.)

# %% tags=["answer:18.4", "nbval-ignore-output"]
def fold(
    table: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> tuple[Tensor, int]:
    hidden = torch.tanh(table @ w1.T + b1)  # (n, d_hidden)
    folded = hidden @ w2.T + b2  # (n, n_layers * 2 * d_model)
    return folded, folded.numel()


check("18.4", fold)


# %% [markdown]
# With the modules that were trained, a fold is one call without a
# gradient.

# %% tags=["alternative:18.4", "nbval-ignore-output"]
def fold(
    table: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> tuple[Tensor, int]:
    first, second = nn.Linear(*w1.T.shape), nn.Linear(*w2.T.shape)
    first.load_state_dict({"weight": w1, "bias": b1})
    second.load_state_dict({"weight": w2, "bias": b2})
    with torch.no_grad():
        folded = nn.Sequential(first, nn.Tanh(), second)(table)
    return folded, folded.shape[0] * folded.shape[1]


check("18.4", fold)


# %% [markdown]
# ## 18.5 Which method wins
#
# A seed draws the patients, so some seeds are harder for every method.
# Compare within each of them. A method stays unless another one is better
# with every seed; among those that stay, the losses cannot decide, and the
# one that trains least comes first.

# %% tags=["answer:18.5", "nbval-ignore-output"]
def compare_methods(
    rows: list[tuple[str, int, int, float]],
) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
    losses, trained = {}, {}
    for method, n_trained, seed, loss in rows:
        losses.setdefault(method, {})[seed] = loss
        trained[method] = n_trained

    def beats(one, other):
        seeds = losses[other]
        return all(losses[one][s] < losses[other][s] for s in seeds)

    spread = {}
    for method, of_seed in losses.items():
        values = sorted(of_seed.values())
        spread[method] = values[0], median(values), values[-1]
    kept = [
        method
        for method in losses
        if not any(beats(other, method) for other in losses)
    ]
    return spread, sorted(kept, key=trained.get)


check("18.5", compare_methods)


# %% [markdown]
# As a tensor, methods by seeds: one method beats another when the largest
# of the paired differences is below 0.

# %% tags=["alternative:18.5", "nbval-ignore-output"]
def compare_methods(
    rows: list[tuple[str, int, int, float]],
) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
    methods = sorted({(row[1], row[0]) for row in rows})  # least first
    names = [name for _, name in methods]
    seeds = sorted({row[2] for row in rows})
    table = torch.zeros(len(names), len(seeds), dtype=torch.float64)
    for name, _, seed, loss in rows:
        table[names.index(name), seeds.index(seed)] = loss
    worst = (table[:, None] - table).amax(-1)  # of one minus the other
    beaten = (worst < 0).any(0)  # (methods,)
    middle = table.quantile(0.5, dim=1)
    numbers = torch.stack([table.amin(1), middle, table.amax(1)], 1)
    spread = dict(zip(names, numbers.tolist(), strict=True))
    kept = [n for n, b in zip(names, beaten, strict=True) if not b]
    return spread, kept


check("18.5", compare_methods)


# %% [markdown]
# ## 18.6 How low can a bias go?
#
# The gradient of the loss with respect to a token's number is how often
# the model expects the token minus how often it occurs. So at the bottom
# the model expects each token exactly as often as it occurs. Add the
# logarithm of the ratio and predict again. Every round lowers the loss,
# and since the loss is convex in the bias, there is one bottom only.

# %% tags=["answer:18.6", "nbval-ignore-output"]
def lowest_loss(logits: Tensor, labels: Tensor) -> float:
    n, vocabulary = logits.shape
    observed = labels.bincount(minlength=vocabulary) / n
    bias = torch.zeros(vocabulary)
    for _ in range(300):
        predicted = (logits + bias).softmax(dim=-1).mean(dim=0)
        bias = bias + (observed / predicted).log()
    return functional.cross_entropy(logits + bias, labels).item()


check("18.6", lowest_loss)


# %% [markdown]
# Or write down the loss and let an optimizer walk. L-BFGS estimates from
# the gradients how the bowl is bent, and needs few steps.

# %% tags=["alternative:18.6", "nbval-ignore-output"]
def lowest_loss(logits: Tensor, labels: Tensor) -> float:
    bias = torch.zeros(logits.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [bias], max_iter=200, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(logits + bias, labels)
        value.backward()
        return value

    optimizer.step(loss)
    return loss().item()


check("18.6", lowest_loss)


# %% [markdown]
# ## 18.7 A linear layer with LoRA
#
# The given layer is frozen, and what A and B make is added to its output.
# Since B begins with zeros, the layer at first does what it did. A is
# random, so that B gets a gradient, and the columns of B different ones.
# `merged` works on a copy: a layer that had its own weight changed would add
# the update once more.

# %% tags=["answer:18.7", "nbval-ignore-output"]
class LoRALinear(nn.Module):
    def __init__(self, linear, r, alpha):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        out, width = linear.weight.shape
        self.a = nn.Parameter(torch.randn(r, width) / width**0.5)
        self.b = nn.Parameter(torch.zeros(out, r))
        self.scale = alpha / r

    def forward(self, x):
        update = x @ self.a.T @ self.b.T  # (..., out)
        return self.linear(x) + self.scale * update

    def merged(self):
        linear = copy.deepcopy(self.linear)
        with torch.no_grad():
            linear.weight += self.scale * (self.b @ self.a)
        return linear


check("18.7", LoRALinear)


# %% [markdown]
# The other way round: the sum of both weights is used in `forward` too. That
# is simple, and right, and costs a product as large as the layer in each
# step, which the two narrow ones avoid.

# %% tags=["alternative:18.7", "nbval-ignore-output"]
class LoRALinear(nn.Module):
    def __init__(self, linear, r, alpha):
        super().__init__()
        for parameter in linear.parameters():
            parameter.requires_grad = False
        self.base, self.factor = linear, alpha / r
        self.a = nn.Parameter(torch.empty(r, linear.in_features))
        self.b = nn.Parameter(torch.zeros(linear.out_features, r))
        nn.init.kaiming_uniform_(self.a, a=5**0.5)

    def weight(self):
        return self.base.weight + self.b @ self.a * self.factor

    def forward(self, x):
        return functional.linear(x, self.weight(), self.base.bias)

    def merged(self):
        out, width = self.base.weight.shape
        linear = nn.Linear(width, out, bias=self.base.bias is not None)
        weights = self.base.state_dict() | {"weight": self.weight()}
        linear.load_state_dict(weights)
        return linear


check("18.7", LoRALinear)

# %% [markdown]
# ## 18.8 Put LoRA into a model
#
# Freeze first: what is added later is not frozen. A module is replaced by
# giving its parent another one under the same name. The optimizer comes
# last, when all that it is to train exists.

# %% tags=["answer:18.8", "nbval-ignore-output"]
LoRALinear = mine("18.7")


def add_lora(model, r, alpha, lr):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name in ("q_proj", "v_proj"):
            if hasattr(module, name):
                linear = getattr(module, name)
                setattr(module, name, LoRALinear(linear, r, alpha))
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(trained, lr=lr)


check("18.8", add_lora)

# %% [markdown]
# By full names: the part before the last dot is the parent's.

# %% tags=["alternative:18.8", "nbval-ignore-output"]
LoRALinear = mine("18.7")


def add_lora(model, r, alpha, lr):
    for parameter in model.parameters():
        parameter.requires_grad = False
    trained = []
    for path, linear in list(model.named_modules()):
        parent, _, name = path.rpartition(".")
        if name in ("q_proj", "v_proj"):
            adapted = LoRALinear(linear, r, alpha)
            setattr(model.get_submodule(parent), name, adapted)
            trained += [adapted.a, adapted.b]
    return torch.optim.AdamW(trained, lr=lr, weight_decay=0.0)


check("18.8", add_lora)
