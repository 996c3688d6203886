"""Makes plain ``pytest --nbval lessons/`` right, from the root and from inside ``lessons/``.

Every run of pytest keeps its progress in a temporary folder. With ``--nbval``, cells run in the
environment that the build uses, with fresh exercise probes; a wrong answer fails with its
diagnosis; outputs are compared with a tolerance; a widget has to be live; and the run ends with
a table of exercises.
With pytest-xdist, each process forks the kernels of its notebooks, and begins with the slowest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
from collections import Counter, defaultdict
from contextlib import ExitStack
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest

from course.kernels import kernel_environment
from course.outputs import first_difference

collect_ignore_glob = ["lessons/*.py", "solutions/*.py", "course/book/*"]

# Pictures differ from machine to machine, a widget's view is a random id, and what a newer package
# warns about on stderr is not the lesson's.
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOT_COMPARED = {
    WIDGET_VIEW,
    "image/jpeg",
    "image/png",
    "stderr",
}

_TEMPORARY = pytest.StashKey[Path]()
_KERNELS = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment that kernels and tests inherit, before anything is collected."""
    # A shell lets what it starts in the background ignore interrupts, and some tests send one.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    temporary = Path(tempfile.mkdtemp(prefix="ehr-course-tests-"))
    config.stash[_TEMPORARY] = temporary
    environment = kernel_environment(temporary / "home")
    if _runs_notebooks(config):
        config.option.nbval_current_env = not _is_worker(config)
        environment["EHR_COURSE_RAISE"] = "1"
        # A worker of pytest-xdist writes into the log of the run that started it.
        log = temporary / "exercises.jsonl"
        if _is_worker(config):
            log = os.environ["EHR_COURSE_RUN_LOG"]
            from course.forked_kernels import forked_kernels

            config.stash[_KERNELS] = ExitStack()
            folder = config.stash[_KERNELS].enter_context(forked_kernels(environment))
            environment["JUPYTER_PATH"] = str(folder)
        environment["EHR_COURSE_RUN_LOG"] = str(log)
        import matplotlib.font_manager  # noqa: F401  its first import may warn
    else:
        environment["MPLBACKEND"] = "Agg"
    os.environ.clear()
    os.environ.update(environment)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the run started, and remove its temporary folder."""
    if _KERNELS in config.stash:
        config.stash[_KERNELS].close()
    if _TEMPORARY in config.stash:
        shutil.rmtree(config.stash[_TEMPORARY], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Share tests out as `course test` does, where they are shared out by files."""
    if config.getoption("dist") != "loadfile":
        return None
    from course.work_sharing import TwoProcesses

    config.option.loadscopereorder = False  # the order is that of pytest_collection_modifyitems
    return TwoProcesses(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let a process of pytest-xdist begin with the slowest tests."""
    if not _is_worker(config):
        return
    from course.work_sharing import read_lesson_times, slowness

    times = read_lesson_times(config.rootpath)
    items.sort(key=lambda item: slowness(item.nodeid, times))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each notebook cell our comparison and our words in place of nbval's."""
    if not _runs_notebooks(item.config):
        return
    from nbval.plugin import IPyNbCell

    if isinstance(item, IPyNbCell):
        item.comparison_traceback = []
        item.compare_outputs = partial(_outputs_agree, item)
        item.repr_failure = partial(_failure, item, item.repr_failure)
        if "widget" in item.cell.metadata.get("tags", []):
            item.runtest = partial(_run_widget, item, item.runtest)


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Print the last outcome of each exercise of the lessons that ran."""
    if not _runs_notebooks(config):
        return
    from course.syllabus import load_syllabus

    kinds = ("passed", "failed", "error")
    reports = [report for kind in kinds for report in terminalreporter.getreports(kind)]
    ran = {config.rootpath / report.nodeid.partition("::")[0] for report in reports}
    titles, outcomes = {}, {}
    for lesson in load_syllabus():
        titles |= {exercise.id: exercise.title for exercise in lesson.exercises}
        for notebook in (path for path in ran if path.name == f"{lesson.name}.ipynb"):
            code = _code(notebook)
            for exercise in lesson.exercises:
                line = rf"""^[^#\n]*\bcheck\(\s*["']{re.escape(exercise.id)}["']"""
                missing = f'not checked: the lesson has no check("{exercise.id}") line'
                outcomes[exercise.id] = "not run" if re.search(line, code, re.M) else missing
    log = config.stash[_TEMPORARY] / "exercises.jsonl"
    checks = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    outcomes |= {check["exercise"]: check["outcome"] for check in map(json.loads, checks)}
    if not outcomes:
        return
    width = max(len(titles.get(exercise, "")) for exercise in outcomes)
    terminalreporter.section("exercises")
    for exercise, outcome in sorted(outcomes.items()):
        terminalreporter.write_line(f"{exercise:5}  {titles.get(exercise, ''):{width}}  {outcome}")
    counts = Counter(outcome.partition(":")[0] for outcome in outcomes.values())
    terminalreporter.write_line(
        ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    )


def _code(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def _runs_notebooks(config: pytest.Config) -> bool:
    return bool(config.getoption("nbval", default=False))


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _run_widget(item, run) -> None:
    """Run a cell that shows a widget; its live view is stored nowhere, so nbval misses nothing."""
    run()
    if not any(WIDGET_VIEW in output.get("data", {}) for output in item.test_outputs):
        item.raise_cell_error("The widget has no live view, although a kernel runs.")


def _outputs_agree(item, now: list, stored: list) -> bool:
    """Compare a cell's outputs with the stored ones, in place of nbval's exact comparison."""
    now_by_kind, stored_by_kind = _by_kind(now), _by_kind(stored)
    item.comparison_traceback = []
    for kind in sorted(now_by_kind.keys() | stored_by_kind.keys()):
        difference = first_difference(
            "\n".join(stored_by_kind[kind]), "\n".join(now_by_kind[kind])
        )
        if difference:
            before, after = _around_the_difference(*difference)
            item.comparison_traceback = [f"  stored: {before}", f"  now:    {after}"]
            return False
    return True


def _by_kind(outputs: list) -> defaultdict[str, list[str]]:
    kinds = defaultdict(list)
    for output in outputs:
        if output.output_type == "stream":
            kinds[output.name].append(output.text)
        for kind, content in output.get("data", {}).items():
            kinds[kind].append(content if isinstance(content, str) else json.dumps(content))
        if output.output_type == "error":
            kinds["error"].append(f"{output.ename}: {output.evalue}")
    return defaultdict(list, {k: texts for k, texts in kinds.items() if k not in NOT_COMPARED})


def _around_the_difference(stored: str, now: str) -> tuple[str, str]:
    """Cut two long lines down to the place where they begin to differ."""
    pairs = zip(stored, now, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    start = max(0, same - 60)
    return tuple(
        ("..." if start else "") + line[start : same + 80] + ("..." if line[same + 80 :] else "")
        for line in (stored, now)
    )


def _failure(item, nbval_failure, excinfo: pytest.ExceptionInfo) -> str:
    """Say in a few lines what went wrong in a cell, and what to do."""
    from nbval.plugin import NbCellError

    if not isinstance(excinfo.value, NbCellError):
        return nbval_failure(excinfo)
    notebook = item.path.relative_to(item.config.rootpath).as_posix()
    cell = f"{notebook}, cell {item.cell.get('id', item.cell_num)}"
    tags = item.cell.metadata.get("tags", [])
    exercise = next((tag for tag in tags if tag.startswith("exercise:")), None)
    raised = [output for output in item.test_outputs or [] if output.output_type == "error"]
    if raised and exercise:
        return f"{cell}, {exercise.replace(':', ' ')}:\n{raised[-1].evalue}"
    if raised:
        trace = "\n".join("\n".join(raised[-1].traceback).splitlines()[-15:])
        plain = re.sub(r"\x1b\[[0-9;]*m", "", trace)
        return f"{cell} raised {raised[-1].ename}: {raised[-1].evalue}\n\n{plain}"
    if item.comparison_traceback:
        difference = "\n".join(item.comparison_traceback)
        return (
            f"{cell} shows something other than what is stored.\n{difference}\n"
            f"If you meant to change the lesson: python3 -m course build {item.path.stem}"
        )
    return f"{cell}: {excinfo.value}"
