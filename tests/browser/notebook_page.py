"""A notebook in JupyterLab, as a learner uses it: cells, outputs, a slider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page

RUN_ALL_MS = 240_000
# A collapsed cell has an empty prompt in place of its own.
PROMPTS = (
    "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt:not(.jp-Placeholder-prompt)')]"
    ".map(prompt => prompt.textContent.trim())"
)


class NotebookPage:
    """One notebook open in JupyterLab.

    Args:
        page: a fresh browser page.
        address: of the JupyterLab server.
        path: of the notebook, below the server's root.
    """

    def __init__(self, page: Page, address: str, path: str) -> None:
        self.page = page
        # Without the notebooks that another page has left open, in whatever order tests run.
        page.goto(f"{address}/lab/tree/{path}?reset")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=RUN_ALL_MS)
        page.set_default_timeout(RUN_ALL_MS)
        # The page says "idle" before it knows its kernel; the session says when it is there.
        page.evaluate(
            """async () => {
                const notebook = window.jupyterapp.shell.currentWidget;
                await notebook.context.ready;
                await notebook.sessionContext.ready;
                await notebook.sessionContext.session.kernel.info;
            }"""
        )

    def run_all(self) -> None:
        """Clear every output, run every cell, and wait for the last."""
        self._do("notebook:clear-all-cell-outputs")
        self.page.wait_for_function(f"() => {PROMPTS}.every(prompt => prompt === '[ ]:')")
        self._do("notebook:run-all-cells")
        self.page.wait_for_function(f"() => {PROMPTS}.every(prompt => /^.\\d+.:$/.test(prompt))")

    def run_cells(self, *texts: str, instead: Mapping[str, str]) -> None:
        """Run the first cell with each of these texts, and no other; wait for the last.

        Args:
            texts: each stands in the cell that is meant.
            instead: by text, what is run in place of the cell's own source.
        """
        self.page.evaluate(
            """([texts, instead]) => {
                const { content } = window.jupyterapp.shell.currentWidget;
                const cells = content.widgets.map(cell => cell.model.sharedModel.getSource());
                const places = texts.map(text => cells.findIndex(cell => cell.includes(text)));
                const missing = texts.filter((_, i) => places[i] < 0);
                if (missing.length) throw new Error(`no cell has the text ${missing}`);
                window.ranWhatIsNeeded = false;
                (async () => {
                    for (const [i, place] of places.entries()) {
                        if (texts[i] in instead)
                            content.widgets[place].model.sharedModel.setSource(instead[texts[i]]);
                        content.activeCellIndex = place;
                        await window.jupyterapp.commands.execute("notebook:run-cell");
                    }
                    window.ranWhatIsNeeded = true;
                })();
            }""",
            [list(texts), dict(instead)],
        )
        self.page.wait_for_function("() => window.ranWhatIsNeeded")

    def _do(self, command: str) -> None:
        # In braces, so that the command's promise is not waited for.
        self.page.evaluate(f"() => {{ window.jupyterapp.commands.execute('{command}'); }}")

    def cell_with(self, text: str) -> Locator:
        """The code cell whose source has this text."""
        editors = self.page.locator(".jp-CodeCell", has=self.page.locator(".cm-content"))
        return editors.filter(has=self.page.locator(".jp-InputArea-editor", has_text=text)).first

    def replace_and_run(self, cell: Locator, source: str) -> None:
        """Type a new source over a cell's old one and run it, as a learner would."""
        editor = cell.locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
        before = cell.locator(".jp-InputPrompt").inner_text()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            "([cell, before]) => { const now = cell.querySelector('.jp-InputPrompt')"
            ".textContent.trim(); return now !== before.trim() && /\\d/.test(now); }",
            arg=[cell.element_handle(), before],
            timeout=RUN_ALL_MS,
        )

    def errors(self) -> list[str]:
        """The text of every error output on the page."""
        outputs = self.page.locator('[data-mime-type="application/vnd.jupyter.stderr"]')
        tracebacks = self.page.locator('[data-mime-type="application/vnd.jupyter.error"]')
        return [*outputs.all_inner_texts(), *tracebacks.all_inner_texts()]


@contextmanager
def opened(
    browser: Browser, lab: str, lesson: str, *texts: str, instead: Mapping[str, str] | None = None
) -> Iterator[NotebookPage]:
    """A lesson in a page of its own, with cells run as `NotebookPage.run_cells` runs them."""
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    notebook = NotebookPage(page, lab, f"lessons/{lesson}.ipynb")
    notebook.run_cells(*texts, instead=instead or {})
    yield notebook
    page.close()


def picture(cell: Locator) -> Locator:
    """The picture of a cell's widget."""
    return cell.locator(".widget-image, img.jupyter-widgets").first


def words(cell: Locator) -> Locator:
    """The words under a widget's picture."""
    return cell.get_by_role("status")
