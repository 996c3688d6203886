"""A notebook in JupyterLab, as a learner uses it: cells, outputs, a slider."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

RUN_ALL_MS = 90_000


class NotebookPage:
    """One notebook open in JupyterLab.

    Args:
        page: a fresh browser page.
        address: of the JupyterLab server.
        path: of the notebook, below the server's root.
    """

    def __init__(self, page: Page, address: str, path: str) -> None:
        self.page = page
        page.goto(f"{address}/lab/tree/{path}")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=RUN_ALL_MS)
        self._wait_for_kernel()

    def _wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            "() => document.querySelector('.jp-Notebook-ExecutionIndicator')"
            "?.dataset.status === 'idle'",
            timeout=RUN_ALL_MS,
        )

    def run_all(self) -> None:
        """Clear every output, run every cell, and wait for the last to have its number."""
        commands = "window.jupyterapp.commands.execute"
        self.page.evaluate(f"() => {commands}('editmenu:clear-all')")
        self.page.evaluate(f"() => {commands}('notebook:run-all-cells')")
        self.page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll(
                    '.jp-CodeCell .jp-InputPrompt')].map(p => p.textContent.trim());
                return prompts.length && prompts.every(p => /^\\[\\d+\\]:$/.test(p));
            }""",
            timeout=RUN_ALL_MS,
        )
        self._wait_for_kernel()

    def cell_with(self, text: str) -> Locator:
        """The code cell whose source has this text."""
        editors = self.page.locator(".jp-CodeCell", has=self.page.locator(".cm-content"))
        return editors.filter(
            has=self.page.locator(".jp-InputArea-editor", has_text=text)
        ).first

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
