"""Two visits of one patient on either side of the change from ICD-9-CM to ICD-10-CM."""

from __future__ import annotations

from collections.abc import Mapping

from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.icd import code_meaning
from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, Box, Canvas
from ehr_course.plots.style import Picture
from ehr_course.records import Visit

_ROW, _BOX, _ROOM = 0.5, 0.22, 2.15
_LEFT, _MIDDLE, _RIGHT = MARGIN, 2.7, 5.3


def draw_change(
    earlier: Visit,
    later: Visit,
    mapping: Mapping[str, tuple[str, ...]],
    *,
    most: int = 7,
) -> Picture:
    """Draw two visits side by side, and between them what the mapping makes of the earlier codes.

    Args:
        earlier: coded in one system.
        later: coded in the other.
        mapping: for a code of the earlier visit, the codes of the other system that it may be.
        most: how many codes of a visit are drawn. Codes that come back go before the others.
    """
    wanted = set(later.codes)
    back = [code for code in earlier.codes if wanted.intersection(mapping.get(code, ()))]
    met = {new for code in back for new in mapping[code] if new in wanted}
    left = sorted(earlier.codes, key=lambda code: code not in back)[:most]
    # What comes back stands opposite to what it was.
    order = {new: i for i, code in enumerate(left) for new in mapping.get(code, ())}
    right = sorted(later.codes, key=lambda code: (code not in met, order.get(code, 0)))[:most]
    shared = len(set(earlier.codes) & wanted)
    names = SYSTEM_NAMES[earlier.system], SYSTEM_NAMES[later.system]
    n_codes = style.count(len(earlier.codes), "code")
    rows = max(len(left), len(right))
    cut = max(len(earlier.codes), len(later.codes)) > most
    canvas = Canvas(
        1.48 + _ROW * rows + 0.18 * cut,
        f"{'No text' if not shared else style.count(shared, 'text')} in common, yet "
        f"{len(back)} of {n_codes} came back",
        f"Two visits of one patient. The first has {n_codes} of {names[0]}: "
        f"{_listed(earlier)}. The next has {len(later.codes)} of {names[1]}: {_listed(later)}. "
        f"{shared} texts are equal. By the mapping, {len(back)} of the earlier codes come back: "
        + ("; ".join(f"{code} as {_either(mapping[code], wanted)}" for code in back) or "none")
        + ".",
        subtitle="Two visits of one patient. Between them, all that the mapping says an earlier "
        "code may be now",
    )
    y = canvas.top + 0.12
    for x, words in (
        (_LEFT, f"earlier visit, {names[0]}"),
        (_MIDDLE, f"may be, in {names[1]}"),
        (_RIGHT, f"next visit, {names[1]}"),
    ):
        canvas.label((x, y), words, colour=style.INK, weight="bold")
    y += 0.18
    now = {
        code: _code(canvas, _RIGHT, y + _ROW * i, code, later, came_back=code in met)
        for i, code in enumerate(right)
    }
    for i, code in enumerate(left):
        top = y + _ROW * i
        box = _code(canvas, _LEFT, top, code, earlier, came_back=code in back)
        middle = top + _BOX / 2
        canvas.arrow((box.right + 0.06, middle), (_MIDDLE - 0.06, middle))
        texts = _that_fit(mapping.get(code, ()), wanted)
        if not texts:
            canvas.label((_MIDDLE, middle), "no equivalent")
            continue
        fills = ["code" if new in wanted else "quiet" for new in texts]
        cells = canvas.strip(_MIDDLE, top, texts, fills=fills, height=_BOX, gap=0.05)
        for new, cell in zip(texts, cells, strict=True):
            if new in now:
                x, y_now = now[new].side("left")
                end = (x - 0.06, y_now)
                if cell is cells[-1]:
                    canvas.arrow((cell.right + 0.04, middle), end)
                else:
                    canvas.arrow(cell.side("bottom"), end)
    y += _ROW * rows
    if cut:
        canvas.label((_LEFT, y), f"Codes drawn: {len(left)} and {len(right)}")
        y += 0.18
    canvas.key(_LEFT, y + 0.12, {"code": "came back", "quiet": "did not"})
    return canvas.finish()


def _code(canvas: Canvas, x: float, y: float, code: str, visit: Visit, *, came_back: bool) -> Box:
    fill = "code" if came_back else "quiet"
    width = style.text_width(code, style.SMALL, MONO) + 0.14
    box = canvas.box(x, y, width, _BOX, code, fill=fill, size=style.SMALL, mono=True)
    title = style.code_title(code, visit.system)
    canvas.label((x, y + _BOX + 0.1), _cut(title, _ROOM), colour=style.MUTED)
    return box


def _that_fit(possible: tuple[str, ...], wanted: set[str]) -> list[str]:
    """The codes for which there is room, those that came back last; before them how many more."""
    room = _RIGHT - _MIDDLE - 0.7
    texts: list[str] = []
    for code in sorted(possible, key=lambda new: new not in wanted):
        room -= style.text_width(code, style.SMALL, MONO) + 0.19
        if room < 0 and texts:
            break
        texts.append(code)
    left_out = len(possible) - len(texts)
    return ([f"+{left_out}"] if left_out else []) + texts[::-1]


def _listed(visit: Visit) -> str:
    dotted = code_meaning(visit.system).dotted
    return ", ".join(map(dotted, visit.codes))


def _either(possible: tuple[str, ...], wanted: set[str]) -> str:
    return " and ".join(code for code in possible if code in wanted)


def _cut(text: str, room: float) -> str:
    """A text that fits into so many inches, shortened at a word where it is too long."""
    words = text.split()
    while words and style.text_width(" ".join(words), style.SMALL) > room:
        words = [*words[:-2], "..."] if words[-1] == "..." else [*words[:-1], "..."]
    return " ".join(words)
