"""Step through a summary word by word: attention, p_gen, and what could have been written."""

from __future__ import annotations

from collections.abc import Mapping

import ipywidgets

from ehr_course.errors import InputError
from ehr_course.generation.summary_trace import GenerationTrace
from ehr_course.plots.generation_trace import draw_trace_step
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget


def generation_trace_player(
    traces: Mapping[str, GenerationTrace], *, word: int = 1
) -> PictureWidget:
    """Choose a trace, and step through its words.

    Nothing is computed but the picture: the traces hold all that is shown.

    Args:
        traces: by the name that the choice shows, as trace_summary gives them.
        word: which word is shown first, from 1; the last one of a shorter summary.

    Returns:
        A widget with the controls ``trace`` and ``word``; words count from 1.

    Raises:
        InputError: if there are no traces.
    """
    if not traces:
        raise InputError(
            "generation_trace_player",
            "traces",
            "the list is empty",
            "Make one with trace_summary.",
        )
    lengths = {name: len(trace.steps) for name, trace in traces.items()}
    first = next(iter(traces))
    chosen = ipywidgets.Dropdown(
        options=list(traces),
        value=first,
        description="summary",
        style={"description_width": "initial"},
    )
    place = ipywidgets.IntSlider(
        value=min(word, lengths[first]),
        min=1,
        max=lengths[first],
        description="word",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )

    def draw(trace: str, word: int) -> Picture:
        # A shorter summary is drawn before the slider knows of its length.
        return draw_trace_step(traces[trace], min(word, lengths[trace]) - 1)

    player = PictureWidget(draw, {"trace": chosen, "word": place})

    def fit_slider(change: Mapping[str, str]) -> None:
        place.max = lengths[change["new"]]

    chosen.observe(fit_slider, names="value")
    return player
