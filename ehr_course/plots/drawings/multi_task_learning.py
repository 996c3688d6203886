"""The drawings of lesson 13: what a head reads, which answers count, brackets, and the sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.auxiliary_weights import MEASURES, NO_HEADS, Runs
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture
from ehr_course.records import MAX_AGE

LONGEST = 6
"""How many letters of a token are drawn."""

PLACES = 13
"""How many tokens of a row are drawn; of a longer one, its beginning and its end."""

NOT_SCORED = -100


def _short(token: str) -> str:
    return token if len(token) <= LONGEST else token[: LONGEST - 1] + "…"


def _fill(token: str) -> str:
    kinds = {"<PAD>": "quiet", "<mask>": "mask"}
    return kinds.get(token, "special" if token.startswith("<") else "code")


def _prompts(model: Any) -> list[str]:
    """The names of the positions that the decoder's prompt fills."""
    if model.decoder_prompt is None:
        return []
    return ["age", "sex"] if model.config.prompt_combination == "concat" else ["prompt"]


def _encoder_prompts(model: Any) -> list[str]:
    """The names of the positions that the encoder's prompt fills."""
    if model.encoder_prompt is None:
        return []
    return ["age", "sex"] if model.config.prompt_combination == "concat" else ["both"]


# ---------------------------------------------------------------------- the whole lesson


def draw_questions(model: Any, tokens: Sequence[str]) -> Picture:
    """Draw the decoder, the questions that it is asked at each token, and the sum of their losses.

    Args:
        model: a PromptBart with a head for the age brackets and one for the sex.
        tokens: what the decoder reads of one record, as few as fit.
    """
    config, prompts = model.config, _prompts(model)
    sizes = {name: head.layers[-1].out_features for name, head in model.heads.items()}
    sizes = {"code": model.get_output_embeddings().out_features, **sizes}
    weights = {"code": 1.0, "age": config.age_weight, "sex": config.sex_weight}
    asked = {"code": "next token?", "age": "which age bracket?", "sex": "man or woman?"}
    too = _encoder_prompts(model)
    of_heads = sum(p.numel() for p in model.heads.parameters())
    of_all = sum(p.numel() for p in model.parameters())
    canvas = Canvas(
        4.5,
        f"{len(sizes)} questions at each token, and one sum of losses",
        f"From the bottom up: {len(prompts)} prompts and {len(tokens)} tokens enter the decoder, "
        f"which also reads the encoder. The encoder has {style.count(len(too), 'prompt')}, and a "
        "damaged record or nothing. "
        f"The states at the tokens, {config.d_model} numbers each, are asked for "
        + ", ".join(f"{asked[name]} ({size} scores)" for name, size in sizes.items())
        + ". The total loss adds up their losses with weights "
        + ", ".join(f"{weights[name]:g}" for name in sizes)
        + f". The heads have {of_heads:,} of {of_all:,} parameters.",
        subtitle=f"Read it from the bottom up. The two heads have {of_heads:,} of "
        f"{of_all:,} parameters.",
    )
    names = [*prompts, *map(_short, tokens)]
    left, right = MARGIN + 2.25, canvas.width - MARGIN
    wide = (right - left - 0.05 * (len(names) - 1)) / len(names)
    y_tokens, y_decoder, y_states = 3.98, 3.32, 2.84
    fills = ["prompt"] * len(prompts) + [_fill(token) for token in tokens]
    inputs = canvas.strip(left, y_tokens, names, fills=fills, widths=wide)
    decoder = canvas.box(
        left, y_decoder, right - left, 0.36,
        "decoder: each position reads itself and all before it",
        fill="decoder", size=style.SMALL,
    )  # fmt: skip
    own = [0.42] * len(too) + [1.9 - 0.47 * len(too)]
    encoder = canvas.box(MARGIN, y_decoder, 1.9, 0.36, "encoder", fill="encoder", size=style.SMALL)
    entering = canvas.strip(
        MARGIN, y_tokens, [*too, ""], fills=["prompt"] * len(too) + ["paper"], widths=own
    )
    canvas.label(entering[-1].middle, "a record,\nor nothing", align="center", colour=style.INK)
    for box in entering:
        canvas.arrow((box.middle[0], box.y), (box.middle[0], encoder.bottom))
    canvas.arrow(encoder.side("right"), decoder.side("left"))
    for i, box in enumerate(inputs):
        x = box.middle[0]
        canvas.arrow((x, box.y), (x, decoder.bottom))
        state = canvas.box(
            box.x, y_states, wide, 0.26,
            "" if i < len(prompts) else f"{config.d_model}",
            fill="paper", size=style.SMALL, dashed=i < len(prompts),
        )  # fmt: skip
        canvas.arrow((x, decoder.y), (x, state.bottom))
    first = inputs[len(prompts)].x
    canvas.label((left, y_states - 0.17), "not asked" if prompts else "")
    canvas.bracket(first, right, y_states - 0.05, "the state at each token", above=True)
    middle = (first + right) / 2
    room = (right - MARGIN - 0.3) / len(sizes)
    total = canvas.box(
        middle - 0.9, canvas.top + 0.1, 1.8, 0.3, "total loss", size=style.SMALL, weight="bold"
    )
    for i, (name, size) in enumerate(sizes.items()):
        box = canvas.box(
            MARGIN + i * (room + 0.15), 1.84, room, 0.44,
            f"{asked[name]}\n{size} scores", size=style.SMALL,
            fill="paper" if name == "code" else "encoder",
        )  # fmt: skip
        kind = "" if name == "code" else "weight "
        canvas.arrow((middle, y_states - 0.34), (box.middle[0], box.bottom))
        end = total.side("bottom", (i + 0.5) / len(sizes))
        word = f"{kind}{weights[name]:g}" if kind else ""
        canvas.arrow(box.side("top"), end, word, colour=style.INK)
    return canvas.finish()


# ---------------------------------------------------------------------- what a head reads


def draw_readers(model: Any, tokens: Sequence[str], *, at: int) -> Picture:
    """Draw what a head on the decoder's states reads beside a head on the codes alone.

    Args:
        model: a PromptBart whose decoder has prompts.
        tokens: what the decoder reads of one record, as few as fit.
        at: the place of the token at which the heads are asked, counted from 0.
    """
    prompts, d_model = _prompts(model), model.config.d_model
    prompts = prompts if len(prompts) > 1 else ["both" for _ in prompts]
    own = _encoder_prompts(model)
    read = style.count(at + 1, "token")
    too = style.count(len(prompts), "prompt")
    canvas = Canvas(
        3.65,
        "Red: the paths from the prompts. None leads to the head on the codes",
        f"Two heads asked at the same token. Left, the head on the states: the decoder reads "
        f"{too}, {read} and the encoder, which has {style.count(len(own), 'prompt')} of its own, "
        f"into a state of {d_model} numbers. Right, the head on the codes: the "
        f"mean of {read}, {d_model} numbers, and no prompt.",
        subtitle=f"Both heads are asked after {read}, and both get {d_model} numbers.",
    )
    y, y_read, gap = 2.95, 1.78, 0.035
    # The encoder, with prompts of its own.
    entering = canvas.strip(
        MARGIN, y, [*own, "…"], fills=["prompt"] * len(own) + ["quiet"], widths=0.36, gap=gap
    )
    canvas.label((MARGIN, y + 0.48), "… a record,\nor nothing")
    encoder = canvas.box(
        MARGIN, y_read, 1.1, 0.4, "encoder", fill="encoder",
        size=style.SMALL,
    )  # fmt: skip
    for box, prompt in zip(entering, [True] * len(own) + [False], strict=True):
        canvas.arrow(
            (box.middle[0], box.y), (box.middle[0], encoder.bottom),
            colour=WARNING if prompt else style.MUTED, thick=2.0 if prompt else 1.0,
        )  # fmt: skip
    first, n_boxes = MARGIN + 1.3, 2 * len(tokens) + len(prompts)
    wide = (canvas.width - MARGIN - first - 0.25) / n_boxes - gap
    starts = (first, canvas.width - MARGIN - len(tokens) * (wide + gap) + gap)
    for blind, title in enumerate(("head on the states", "head on the codes")):
        before = [] if blind else prompts
        start = starts[blind]
        fills = ["prompt"] * len(before) + [
            _fill(token) if place <= at else "paper" for place, token in enumerate(tokens)
        ]
        names = [_short(name) for name in (*before, *tokens)]
        boxes = canvas.strip(start, y, names, fills=fills, widths=wide, gap=gap)
        centre = (start + boxes[-1].right) / 2
        how = "mean of the embeddings" if blind else "decoder: a state"
        summary = canvas.box(
            centre - 0.9, y_read, 1.8, 0.4, f"{how}\n{d_model} numbers",
            fill="paper" if blind else "decoder", size=style.SMALL,
        )  # fmt: skip
        head = canvas.box(
            centre - 0.9, canvas.top + 0.14, 1.8, 0.36, title, fill="encoder", size=style.TEXT
        )
        leaks = not blind
        canvas.arrow(
            summary.side("top"), head.side("bottom"),
            colour=WARNING if leaks else style.MUTED, thick=2.0 if leaks else 1.0,
        )  # fmt: skip
        if leaks:
            canvas.arrow(
                encoder.side("right"), summary.side("left"),
                colour=WARNING if own else style.MUTED, thick=2.0 if own else 1.0,
            )  # fmt: skip
        for i, box in enumerate(boxes):
            place = i - len(before)
            if place > at:
                continue
            end = summary.side("bottom", 0.1 + 0.8 * i / max(1, len(before) + at))
            canvas.arrow(
                (box.middle[0], box.y), end,
                colour=WARNING if place < 0 else style.MUTED, thick=2.0 if place < 0 else 1.0,
            )  # fmt: skip
        words = f"reads {read} and no prompt" if blind else f"reads {too} and {read}"
        canvas.label(
            (centre, y + 0.44), words, align="center", colour=style.INK if blind else WARNING
        )
    return canvas.finish()


# ---------------------------------------------------------------------- which answers count


def draw_answers(rows: Sequence[Sequence[str]], labels: Any, classes: Any, model: Any) -> Picture:
    """Draw the positions of a padded batch, and which of a head's answers count.

    Args:
        rows: the tokens that the decoder reads of each patient, padding included, (batch, length).
        labels: int (batch, length), -100 where nothing is scored.
        classes: int (batch,): the sex of each patient, 0 for M and 1 for F.
        model: a PromptBart, for its decoder's prompts.
    """
    labels, prompts = np.asarray(labels), _prompts(model)
    counts = labels != NOT_SCORED
    length = len(rows[0]) + len(prompts)
    total, scored = length * len(rows), int(counts.sum())
    short = int((~counts[:, -1]).sum())
    ends = [int(row.nonzero()[0].max()) for row in counts]
    canvas = Canvas(
        1.35 + 0.86 * len(rows),
        f"Of {total} answers {scored} count: those at a token that has a label",
        f"{len(rows)} rows of {length} positions with {len(prompts)} prompts. Under each position "
        f"the right class where the answer counts: {scored} of {total}. The last column does not "
        f"count in {style.count(short, 'row')}. The last tokens that count stand at places "
        + ", ".join(f"{end + 1}" for end in ends)
        + " of the tokens.",
        subtitle="Under each position the right class, where the answer counts. A thick line "
        "marks the last of each row.",
    )
    left = 0.78
    places: list[int | None] = list(range(len(rows[0])))
    if len(places) > PLACES:
        half = PLACES // 2
        places[half:-half] = [None]
    wide = (canvas.width - left - MARGIN) / (len(prompts) + len(places)) - 0.04
    y = canvas.top + 0.16
    for i, tokens in enumerate(rows):
        fills = ["prompt"] * len(prompts) + [
            "paper" if place is None else _fill(tokens[place]) if counts[i, place] else "quiet"
            for place in places
        ]
        names = [*prompts, *("…" if place is None else _short(tokens[place]) for place in places)]
        boxes = canvas.strip(left, y, names, fills=fills, widths=wide, gap=0.04)
        canvas.label((left - 0.1, y + 0.15), f"patient {i + 1}", align="right", colour=style.INK)
        canvas.label((left - 0.1, y + 0.45), "class", align="right")
        for place, box in zip([-1] * len(prompts) + places, boxes, strict=True):
            if place is None:
                continue
            counted = place >= 0 and counts[i, place]
            canvas.label(
                (box.middle[0], y + 0.45),
                "MF"[int(classes[i])] if counted else "–",
                align="center", mono=True, weight="bold" if counted else "normal",
                colour=style.INK if counted else style.MUTED,
            )  # fmt: skip
        if ends[i] in places:
            last = boxes[len(prompts) + places.index(ends[i])]
            line = [(last.x, y + 0.6), (last.right, y + 0.6)]
            canvas.path(line, head=False, thick=2.6, colour=style.INK)
        y += 0.86
    canvas.key(
        left,
        y + 0.1,
        {"prompt": "prompt: no label", "quiet": "nothing left to predict, or padding"},
    )
    return canvas.finish()


# ---------------------------------------------------------------------- brackets


def draw_brackets(ages: Any, bounds: Mapping[str, Sequence[int]]) -> Picture:
    """Draw the ages of a cohort, and under the same axis the brackets of several lists of bounds.

    Args:
        ages: in years, (patients,).
        bounds: by name, where each bracket but the first begins.
    """
    ages = np.asarray(ages, dtype=float)
    shares = {
        name: np.bincount(np.searchsorted(begins, ages, side="right"), minlength=len(begins) + 1)
        / len(ages)
        for name, begins in bounds.items()
    }
    best = {name: share.max() for name, share in shares.items()}
    above = (ages >= MAX_AGE).mean()
    canvas = Canvas(
        2.1 + 0.72 * len(bounds),
        "Always naming the largest bracket is right in "
        + " or ".join(f"{share:.0%}" for share in best.values())
        + " of cases",
        f"The ages of {len(ages):,} patients on an axis from {ages.min():.0f} to {MAX_AGE} years, "
        f"{above:.1%} of them at {MAX_AGE}. Under it the brackets: "
        + "; ".join(
            f"{name} with bounds {', '.join(map(str, begins))}, the largest with {best[name]:.0%}"
            for name, begins in bounds.items()
        )
        + ".",
        subtitle="In each bracket its number and the share of patients; the largest is dark.",
    )
    left, right = 1.0, canvas.width - 0.42
    axes = canvas.plot(left, canvas.top + 0.14, right - left, 0.85)
    counted = np.bincount(ages.astype(int), minlength=MAX_AGE + 1)[: MAX_AGE + 1]
    axes.bar(np.arange(MAX_AGE + 1) + 0.5, counted, width=0.85, color=style.MUTED, linewidth=0)
    axes.set_xlim(0, MAX_AGE + 1)
    axes.set_xticks([])
    # One bar, that of the newborn, would leave nothing to see of the others.
    most = np.sort(counted)[-2] * 1.25
    axes.set_ylim(0, most)
    for age in np.flatnonzero(counted > most):
        words = f"age {age}: {counted[age]:,} patients"
        axes.annotate(words, (age + 1.6, most * 0.94), size=style.SMALL, va="center")
    axes.locator_params(axis="y", nbins=3)
    axes.set_ylabel("patients")
    unit = (right - left) / (MAX_AGE + 1)
    y = canvas.top + 1.12
    for name, begins in bounds.items():
        canvas.label((left - 0.1, y + 0.2), name, align="right", colour=style.INK)
        edges = [0, *begins, MAX_AGE + 1]
        for number, share in enumerate(shares[name]):
            x, end = left + edges[number] * unit, left + edges[number + 1] * unit
            fill = "code" if share == best[name] else ("paper" if number % 2 else "quiet")
            box = canvas.box(x, y, end - x, 0.4, fill=fill, rounded=False)
            words = f"{number}\n{share:.0%}"
            if style.text_width(words.split("\n")[1], style.SMALL) > box.width - 0.04:
                words = f"{number}"
                if not number:  # there is room beside the first
                    canvas.label((left - 0.1, y + 0.5), f"{number}: {share:.0%}", align="right")
            canvas.label(
                box.middle, words, align="center", inside=box,
                colour=style.ink_on("#2d708e") if fill == "code" else style.INK,
            )  # fmt: skip
        for bound in begins:
            canvas.label((left + bound * unit, y + 0.5), f"{bound}", align="center")
        y += 0.72
    canvas.label(
        (left, y + 0.02), f"years; whoever is above {MAX_AGE - 1} is recorded as {MAX_AGE}"
    )
    return canvas.finish()


# ---------------------------------------------------------------------- the sweep


def draw_sweep(runs: Mapping[str, Sequence[Runs]]) -> Picture:
    """Draw the mean and the spread of each setting of a sweep, and where it differs.

    Args:
        runs: by measure, a name of MEASURES of which less is better, its runs of each setting, in
            one order; the models without heads come first.
    """
    settings = [one.setting for one in next(iter(runs.values()))]
    baseline = {measure: found[settings.index(NO_HEADS)] for measure, found in runs.items()}
    worse, better = (
        {
            measure: [
                one.setting.label
                for one in found
                if one.differs(baseline[measure])
                and (one.mean > baseline[measure].mean) == is_worse
            ]
            for measure, found in runs.items()
        }
        for is_worse in (True, False)
    )
    n_better, n_worse = (sum(map(len, which.values())) for which in (better, worse))
    canvas = Canvas(
        1.55 + 0.34 * len(settings),
        f"By the rule, {n_better or 'none'} of {(len(settings) - 1) * len(runs)} values "
        f"{'are' if n_better > 1 else 'is'} better than without heads; {n_worse} are worse",
        "Mean and spread of "
        + ", ".join(MEASURES[measure].name for measure in runs)
        + f" for {style.count(len(settings), 'setting')}. Worse than without heads: "
        + "; ".join(
            f"{MEASURES[measure].name} at {', '.join(labels) or 'none'}"
            for measure, labels in worse.items()
        )
        + f". Better: {n_better or 'none'}.",
        subtitle="Mean ± spread over seeds. A star: it differs from “no heads” by the rule.",
    )
    left = 1.2
    wide = (canvas.width - left - MARGIN) / len(runs)
    y = canvas.top + 0.52
    for j, (measure, found) in enumerate(runs.items()):
        how = MEASURES[measure]
        middle = left + (j + 0.5) * wide
        canvas.label((middle, y - 0.3), how.name.replace(" from", "\nfrom").replace(
            " when", "\nwhen"), align="center", colour=style.INK)  # fmt: skip
        for i, one in enumerate(found):
            differs = one.differs(baseline[measure])
            more = one.mean > baseline[measure].mean
            canvas.box(
                left + j * wide, y + 0.34 * i, wide, 0.34,
                f"{how.written(one.mean)} ± {how.written(one.spread)}{' *' if differs else ''}",
                fill=("trap" if more else "decoder") if differs else "paper",
                size=style.SMALL, weight="bold" if differs else "normal",
                rounded=False, edge=style.FAINT,
            )  # fmt: skip
    for i, setting in enumerate(settings):
        at = (left - 0.1, y + 0.34 * (i + 0.5))
        canvas.label(at, setting.label, align="right", colour=style.INK)
    return canvas.finish()
