"""A widget whose picture is there with a kernel and without one."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets

from ehr_course.plots.style import Picture
from ehr_course.widgets import states


class PictureWidget(ipywidgets.VBox):
    """Controls, the picture that they set, and the picture in words.

    The picture is redrawn when a control changes. Its alternative text stands under it unseen,
    where a screen reader announces the change. What goes wrong while drawing is shown there, for
    nothing else would show it: Jupyter swallows the errors of a control's callback.

    In a stored notebook and on any page without a kernel, the picture and its alternative text are
    shown as they were when the widget was displayed. In the book the controls move without a
    kernel, through pictures that the course's build asks for.

    Args:
        draw: called with the value of each control by its name; returns a Picture.
        controls: the controls by name, in the order in which they stand.
        in_the_book: the values that a control takes in the book beside its first one, by its name;
            with an empty list it stays where it is. Without an entry a slider takes some of its
            values, a choice all of its options.

    Attributes:
        draw: as it was given.
        controls: the controls by name; setting ``controls["patient"].value`` moves one.
        image: the image widget, with the PNG bytes as its value.
        words: the HTML widget under it: the alternative text, or what went wrong.
        picture: the Picture that is shown.
        error: what the last drawing raised, with its traceback, or None.

    Raises:
        Exception: whatever draw raises for the first picture.
    """

    def __init__(
        self,
        draw: Callable[..., Picture],
        controls: dict[str, ipywidgets.ValueWidget],
        *,
        in_the_book: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.draw = draw
        self.controls = dict(controls)
        self._in_the_book = dict(in_the_book or {})
        self._shown = self.values
        self.picture: Picture = draw(**self._shown)
        self.error: Exception | None = None
        self.image = ipywidgets.Image(format="png")
        self.words = ipywidgets.HTML()
        self._show()
        for control in self.controls.values():
            control.observe(self._redraw, names="value")
        row = ipywidgets.HBox(
            list(self.controls.values()), layout=ipywidgets.Layout(flex_flow="row wrap")
        )
        super().__init__([row, self.image, self.words])

    @property
    def alternative_text(self) -> str:
        """The picture in one sentence."""
        return self.picture.alternative_text

    @property
    def values(self) -> dict[str, Any]:
        """What each control is set to, by its name."""
        return {name: control.value for name, control in self.controls.items()}

    def _redraw(self, change: object) -> None:
        values = self.values
        if values == self._shown:  # a control that has moved another one: both say so
            return
        self._shown = values
        try:
            self.picture = self.draw(**values)
        except Exception as error:
            self.error = error
            self.words.value = _error_in_words(error, values)
        else:
            self.error = None
            self._show()

    def _show(self) -> None:
        width, _ = self.picture.page_size
        self.image.layout.width = f"{width}px"
        self.image.layout.max_width = "100%"
        self.image.layout.height = "auto"
        self.image.value = self.picture.live_png()
        # The words stand under the image, unseen: an Image of ipywidgets 8 has no alternative text
        # of its own, and with a tooltip it cannot be shown at all.
        self.words.value = (
            f'<p role="status" style="{_UNSEEN}">{html.escape(self.alternative_text)}</p>'
        )

    def states(self) -> dict[str, Any]:
        """The pictures that the book moves through, as the content of an output."""
        first = states.state_of(self._labels(), self.picture)
        most = max(2, states.MOST_BYTES // len(first.webp))
        for control in self.controls.values():
            control.unobserve(self._redraw, names="value")
        try:
            found = [
                states.state_of(self._labels(), self.draw(**self.values))
                for _ in states.settings_in_turn(self.controls, self._in_the_book, most)
            ]
        finally:
            for control in self.controls.values():
                control.observe(self._redraw, names="value")
        self.picture = self.draw(**self.values)  # some draw on the picture before
        described = [
            {"description": control.description, "kind": states.kind_of(control)}
            for control in self.controls.values()
        ]
        return states.output_of(described, found, first)

    def _labels(self) -> list[str]:
        return [states.shown(control) for control in self.controls.values()]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = self.picture._repr_mimebundle_()
        if states.wanted():
            data[states.STATES] = self.states()
        return (super()._repr_mimebundle_(**kwargs) or {}) | data, metadata


_UNSEEN = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)"
_WORDS = "line-height: 1.4; max-width: 760px; margin: 0.3em 0; overflow-wrap: anywhere"


def _error_in_words(error: Exception, values: dict[str, object]) -> str:
    setting = ", ".join(f"{name} = {value!r}" for name, value in values.items())
    text = f"{type(error).__name__}: {error}"
    return (
        f'<p role="alert" style="{_WORDS}; border-left: 4px solid; padding-left: 0.6em">'
        f"There is no picture for {html.escape(setting)}; the one above is the last that could "
        f"be drawn.<br>{html.escape(text)}</p>"
    )


def slider(description: str, value: int, smallest: int, largest: int) -> ipywidgets.IntSlider:
    """A slider of whole numbers that redraws where it stops."""
    return ipywidgets.IntSlider(
        value=value,
        min=smallest,
        max=largest,
        description=description,
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )


def fine_slider(
    description: str, value: float, largest: float, step: float
) -> ipywidgets.FloatSlider:
    """A slider from 0 in steps of less than 1 that redraws where it stops."""
    return ipywidgets.FloatSlider(
        value=value,
        min=0.0,
        max=largest,
        step=step,
        description=description,
        continuous_update=False,
        style={"description_width": "initial"},
    )


def choice(
    description: str, options: Sequence[Any], value: Any | None = None
) -> ipywidgets.Dropdown:
    """A list to choose from; without a value it opens at its first option."""
    chosen = {"index": 0} if value is None else {"value": value}
    return ipywidgets.Dropdown(
        options=options,
        description=description,
        layout=ipywidgets.Layout(width="max-content"),
        style={"description_width": "initial"},
        **chosen,
    )


def patient_slider(n_patients: int) -> ipywidgets.IntSlider:
    """A slider for the place of a patient in a list, counted from 0."""
    return slider("patient", 0, 0, n_patients - 1)
