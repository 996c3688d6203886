"""Lesson 11 in a real JupyterLab: the attention explorer, as a learner uses it.

The lesson trains models. Only the cells that load the course's model are run, and the explorer's.
"""

import re
from collections.abc import Iterator

import pytest
from notebook_page import NotebookPage, opened
from playwright.sync_api import Browser, Locator, expect

NUMBER = re.compile(r"^\d\.\d{3} from ")


class Explorer:
    """The widget on the page."""

    def __init__(self, notebook: NotebookPage) -> None:
        self.page = notebook.page
        self.cell = notebook.cell_with("attention_explorer(")
        self.root = self.cell.locator(".ehr-attention")
        self.canvas = self.root.locator("canvas")
        self.title = self.root.locator(".ehr-attention-title")
        self.readout = self.root.get_by_role("status")

    def kind(self, name: str) -> Locator:
        return self.root.get_by_role("radio", name=name)

    def slider(self, name: str) -> Locator:
        return self.root.get_by_role("slider", name=name)

    def pixels(self) -> str:
        return self.canvas.evaluate("canvas => canvas.toDataURL()")

    def start(self) -> None:
        """Encoder, layer 0, head 0, nothing under the pointer."""
        self.page.mouse.move(2, 2)
        self.kind("encoder").check()
        for name in ("layer", "head"):
            self.slider(name).fill("0")
        self.canvas.scroll_into_view_if_needed()

    def point_at(self, right: float, down: float) -> None:
        """Move the pointer to a place given as shares of the canvas."""
        box = self.canvas.bounding_box()
        self.canvas.hover(position={"x": right * box["width"], "y": down * box["height"]})


@pytest.fixture(scope="module")
def notebook(browser: Browser, lab: str) -> Iterator[NotebookPage]:
    cells = (
        "SEED = 0",
        "import copy",
        "loaded = load_checkpoint",
        "def with_visits",
        "attention_explorer(model",
    )
    with opened(browser, lab, "11_model_architecture", *cells) as notebook:
        yield notebook


@pytest.fixture
def explorer(notebook: NotebookPage) -> Explorer:
    explorer = Explorer(notebook)
    explorer.start()
    return explorer


def test_the_cells_run_without_an_error(notebook: NotebookPage) -> None:
    assert notebook.errors() == []


def test_it_opens_on_the_last_cross_attention(notebook: NotebookPage) -> None:
    explorer = Explorer(notebook)
    expect(explorer.kind("cross")).to_be_checked()
    expect(explorer.title).to_have_text(re.compile(r"^Layer 1, head 0: .+ looks most at "))


def test_the_canvas_is_drawn_with_its_words(explorer: Explorer) -> None:
    expect(explorer.canvas).to_be_visible()
    expect(explorer.title).to_have_text(
        re.compile(r"^Layer 0, head 0: .+ looks most at .+ \(\d\.\d\d\)$")
    )
    expect(explorer.readout).to_have_text(NUMBER)
    colours = explorer.canvas.evaluate(
        """canvas => {
            const { data } = canvas.getContext("2d").getImageData(
                0, 0, canvas.width, canvas.height);
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join());
            return seen.size;
        }"""
    )
    assert colours > 10


def test_the_canvas_says_what_the_picture_without_a_kernel_says(
    notebook: NotebookPage, explorer: Explorer
) -> None:
    explorer.kind("cross").check()
    explorer.slider("layer").fill("1")
    words = notebook.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.context.model.toJSON().cells
            .flatMap(cell => cell.outputs ?? [])
            .map(output => output.data?.["text/plain"])
            .map(text => Array.isArray(text) ? text.join("") : text)
            .find(text => text?.startsWith("Heat map of cross attention"))"""
    )
    title = explorer.title.inner_text()
    assert title.removeprefix("Layer") in words
    favourite = re.search(r"; ([^;]+ is the first choice of \d+ of \d+ rows)\.$", words)
    expect(explorer.root).to_contain_text(f"Here {favourite[1]}")


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_another_kind_is_another_picture(explorer: Explorer, kind: str) -> None:
    before, words = explorer.pixels(), explorer.title.inner_text()
    explorer.kind(kind).check()
    expect(explorer.title).not_to_have_text(words)
    assert explorer.pixels() != before
    grey = explorer.root.get_by_text("a later position: not seen")
    assert grey.is_visible() is (kind == "decoder")


@pytest.mark.parametrize("name", ["layer", "head"])
def test_the_arrow_keys_move_a_slider_and_the_picture_follows(
    explorer: Explorer, name: str
) -> None:
    before = explorer.pixels()
    explorer.slider(name).focus()
    explorer.page.keyboard.press("ArrowRight")
    expect(explorer.title).to_contain_text(f"{name} 1", ignore_case=True)
    assert explorer.pixels() != before
    explorer.page.keyboard.press("ArrowLeft")
    expect(explorer.title).to_contain_text(f"{name} 0", ignore_case=True)
    assert explorer.pixels() == before


def test_pointing_at_a_cell_reads_it_out_until_the_pointer_leaves(explorer: Explorer) -> None:
    chosen, before = explorer.readout.inner_text(), explorer.pixels()
    explorer.point_at(0.97, 0.97)
    expect(explorer.readout).to_have_text(
        re.compile(r"^\d\.\d{3} from <EOS> \(.+\) to <EOS> \(.+\)$")
    )
    expect(explorer.title).to_contain_text("<EOS> looks most at")
    assert explorer.pixels() != before
    explorer.page.mouse.move(2, 2)
    expect(explorer.readout).to_have_text(chosen)
    assert explorer.pixels() == before


def test_in_the_decoder_a_later_position_is_not_seen(explorer: Explorer) -> None:
    explorer.kind("decoder").check()
    explorer.point_at(0.97, 0.5)
    expect(explorer.readout).to_have_text(re.compile(r"^Not seen: .+ stands after .+$"))


def test_the_arrow_keys_move_the_chosen_cell_and_not_the_notebook(
    notebook: NotebookPage, explorer: Explorer
) -> None:
    active = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    explorer.canvas.focus()
    explorer.page.keyboard.press("Home")
    expect(explorer.readout).to_have_text(re.compile(r" to age \d+$"))
    before, cell = explorer.pixels(), notebook.page.evaluate(active)
    for _ in range(2):
        explorer.page.keyboard.press("ArrowRight")
    expect(explorer.readout).to_have_text(re.compile(r" to <BOS> \(.+\)$"))
    title = explorer.title.inner_text()
    explorer.page.keyboard.press("ArrowDown")
    expect(explorer.title).not_to_have_text(title)
    assert explorer.pixels() != before
    assert notebook.page.evaluate(active) == cell


def test_a_click_chooses_a_cell(explorer: Explorer) -> None:
    chosen = explorer.readout.inner_text()
    explorer.point_at(0.97, 0.97)
    explorer.page.mouse.down()
    explorer.page.mouse.up()
    pointed = explorer.readout.inner_text()
    explorer.page.mouse.move(2, 2)
    expect(explorer.readout).to_have_text(pointed)
    assert pointed != chosen


def test_the_explorer_follows_the_theme(notebook: NotebookPage, explorer: Explorer) -> None:
    def change(theme: str, light: str) -> None:
        # In braces, so that the command's promise is not waited for.
        command = "apputils:change-theme"
        notebook.page.evaluate(
            "([command, theme]) => { window.jupyterapp.commands.execute(command, { theme }); }",
            [command, theme],
        )
        notebook.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg=light
        )

    def drawn_anew(before: str) -> None:
        canvas = explorer.canvas.element_handle()
        notebook.page.wait_for_function(
            "([canvas, before]) => canvas.toDataURL() !== before", arg=[canvas, before]
        )

    light = explorer.pixels()
    change("JupyterLab Dark", "false")
    try:
        drawn_anew(light)
        ink = explorer.root.evaluate("root => getComputedStyle(root).color")
        assert min(map(float, re.findall(r"[\d.]+", ink)[:3])) > 200
        dark = explorer.pixels()
    finally:
        change("JupyterLab Light", "true")
    drawn_anew(dark)
    assert explorer.pixels() == light


def test_the_explorer_needs_no_kernel(notebook: NotebookPage, explorer: Explorer) -> None:
    # The last test: it takes the page's kernel away.
    session = "window.jupyterapp.shell.currentWidget.sessionContext"
    notebook.page.evaluate(f"async () => {{ await {session}.shutdown(); }}")
    assert notebook.page.evaluate(f"() => {session}.session?.kernel ?? null") is None
    before = explorer.pixels()
    explorer.kind("cross").check()
    explorer.slider("head").fill("1")
    expect(explorer.title).to_contain_text("head 1")
    assert explorer.pixels() != before
    explorer.point_at(0.97, 0.97)
    expect(explorer.readout).to_have_text(NUMBER)
