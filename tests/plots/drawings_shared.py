"""Cases for the shared functions: few and many, short and long, with and without each option."""

from __future__ import annotations

import numpy as np
from registry import drawing

from ehr_course.plots.charts import blank_chart, draw_bars, draw_dots, draw_heat, draw_lines
from ehr_course.plots.diagrams import draw_flow, draw_strips

COSTS = {
    "the first hospital": {"as it was": 2.168, "bias": 2.237, "full": 2.103},
    "the second hospital": {"as it was": 2.53, "bias": 2.45, "full": 2.842},
}
TOKENS = ["<BOS>", "<v>", "034.0", "038.42", "<\\v>", "<EOS>"]


@drawing("as it was 2.168", "bias 2.237", "the second hospital: as it was 2.530")
def groups_of_bars_beside_a_line():
    return draw_bars(COSTS, "What does each cost?", "In nats.", worse_than="as it was")


@drawing("as it was 2.17, bias 2.24", "full 2.84, 3 of 5")
def bars_with_a_key():
    notes = {("the second hospital", "full"): "3 of 5"}
    return draw_bars(COSTS, "Cost", inner="key", form="{:.2f}", warn=["full"], notes=notes)


@drawing("all 2.62 nats, right 21%", "none found", "Lines: right 0.03.")
def bars_in_columns():
    rows = {"plain": {"all": 2.62, "right": 0.21}, "weighted": {"all": 2.59, "right": None}}
    form = {"all": "{:.2f} nats", "right": "{:.0%}"}
    notes = {("weighted", "right"): "none found"}
    return draw_bars(rows, "Cost", inner="columns", form=form, notes=notes, line={"right": 0.03})


@drawing("heart failure +0.56, delivery -0.98.")
def bars_to_either_side():
    bars = {"heart failure": 0.56, "delivery": -0.98}
    return draw_bars(bars, "How large is the bias?", form="{:+.2f}")


@drawing("ours: 0.25, 0.5 and 0.75 (mean 0.5)", "theirs: 0.1", "Line at 0.3.")
def dots_with_means():
    rows = {"ours": [0.25, 0.5, 0.75], "theirs": [0.1]}
    return draw_dots(rows, "Which is better?", across="share", mark="mean", line=0.3)


@drawing("named: no coverage: 60% and 71%", "100 from 0% to 99% with mean", "feature")
def dots_in_panels():
    panels = {
        "named": {"no coverage": [0.6, 0.71], "feature": np.arange(100) / 100},
        "exact": {"no coverage": [0.0, 0.1], "feature": [0.2, 0.2]},
    }
    notes = {"feature": "of 9", ("exact", "no coverage"): "of 8"}
    return draw_dots(
        panels, "What does it change?", form="{:.0%}", mark="range", notes=notes, warn=["feature"]
    )


@drawing("the weights: 5.00 at 0, 1.00 at 8, 5.00 at 10", "average: 2.00 at 0, 1.00 at 5")
def lines_with_names_at_their_ends():
    curves = {
        "the weights": {x: 1 + abs(8 - x) / 2 if x <= 8 else 2 * x - 15 for x in range(11)},
        "average": {0: 2.0, 5: 1.0},
        "a name that is long enough for two lines": {0: 2.1, 5: 1.02},
    }
    return draw_lines(
        curves, "Which is lower?", across="step", up="loss", warn=["average"], line=2
    )


@drawing("Adam: large: 1.0 at 0, 0.9 at 1; small: 1.0 at 0, 0.1 at 1.", "AdamW:")
def lines_in_panels():
    curves = {"large": {0: 1.0, 1: 0.9}, "small": {0: 1.0, 1: 0.1}}
    return draw_lines({"Adam": curves, "AdamW": curves}, "Which decays?", form="{:.1f}")


@drawing("codes of men: “man” 0%, “woman” 97%.", "head on codes.", "no code: “woman” 100%.")
def heat_with_numbers():
    table = {
        "codes of men": {"“man”": 0.0, "“woman”": 0.97},
        "no code": {"“man”": None, "“woman”": 1},
    }
    panels = {"head on states": table, "head on codes": table}
    framed = [("head on codes", "no code", "“woman”")]
    return draw_heat(panels, "What does it say?", across="the prompt says", framed=framed)


@drawing("034.0: darkest: <BOS>, <v>, 034.0.")
def heat_without_numbers():
    seen = {row: {c: float(j <= i) for j, c in enumerate(TOKENS)} for i, row in enumerate(TOKENS)}
    return draw_heat(seen, "Who reads whom?", form="", down="output")


@drawing("encoder reads input_ids: <BOS> <v> <mask> <\\v> <EOS>; framed (hidden): <mask>; 5",
         "written: <BOS> no token …", "wrong: 250.00",
         "Arrows from the patient to encoder reads input_ids: 034.0 to <mask>.",
         "ids: <BOS> 1 no, <v> 3 no, 034.0 16 yes", "Under each token: id, a code.",
         "the patient: <BOS> <v> 034.0 038.42 <\\v> <EOS>.")  # fmt: skip
def strips_in_columns():
    rows = {
        "the patient": TOKENS,
        "encoder reads\ninput_ids": ["<BOS>", "<v>", "<mask>", None, "<\\v>", "<EOS>"],
        "written": ["<BOS>", "", "…", "250.00"],
        "ids": TOKENS,
    }
    below = {"id": [1, 3, 16, 17, 4, 2], "a code": ["no", "no", "yes", "yes", "no", "no"]}
    return draw_strips(
        rows, "What is hidden?", "Framed: hidden.", marked={"encoder reads\ninput_ids": [2]},
        fills={"written": ["special", "paper", "paper", "trap"]},
        key={"code": "a code", "trap": "wrong", "": "no token", "framed": "hidden"},
        notes={"encoder reads\ninput_ids": "5 tokens"}, under={"ids": below},
        arrows=[(("the patient", 2), ("encoder reads\ninput_ids", 2))],
    )  # fmt: skip


@drawing("note: " + " ".join(["a word of the note"] * 20) + "; end.", "summary: a word")
def strips_of_many_lines():
    rows = {"note": ["a", "word", "of", "the", "note"] * 20, "summary": ["a", "word"]}
    return draw_strips(rows, "How long is it?", notes={"note": "end"})


@drawing("the batch of 16 → process 1 (8 patients)", "process 2 → sum, dashed",
         "Under sum: of all.", "alone: process 1, process 2.", "Also: unused.",
         "Rows: first, second, third.", "Columns: cut, work, join.")  # fmt: skip
def flow_of_boxes():
    boxes = {
        "batch": (0, (0, 1), "paper"),
        "process 1": (1, 0, "encoder"),
        "process 2": (1, 1, "encoder"),
        "sum": (2, 0.5, "special"),
        "unused": ((1, 2), 2, "quiet"),
    }
    arrows = [
        ("batch", "process 1", "8 patients"),
        ("batch", "process 2", "8 patients"),
        ("process 1", "sum"),
        ("process 2", "sum"),
        ("process 1", "process 2", "sends"),
    ]
    return draw_flow(
        boxes, arrows, "How is it split?", words={"batch": "the batch\nof 16"},
        notes={"sum": "of all"}, dashed=[("process 2", "sum")],
        frames={"alone": ["process 1", "process 2"]}, rows=["first", "second", "third"],
        columns=["cut", "work", "join"],
    )  # fmt: skip


@drawing("Does it fall? One step is one batch. One curve from 2.0 to 1.0.")
def chart_of_your_own():
    picture, axes = blank_chart(
        "Does it fall?", "One curve from 2.0 to 1.0.", "One step is one batch"
    )
    axes.plot([0, 1], [2.0, 1.0], "o-", label="loss")
    axes.set(xlabel="step", ylabel="nats")
    axes.legend(frameon=False)
    return picture
