"""The statements of cells, and which of them an answer needs.

A notebook is read as a row of top-level statements. What an answer needs is found from the names:
what binds a name that it uses, what changes that object, and what those need in turn. So an answer
runs without the pictures, trainings and experiments around it.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_NOT_TAKEN = {"check", "hint", "progress", "display", "print"}
_LINE_END = re.compile(r"\r\n|\r|\n")
_FROM_SHELL = re.compile(r"\s*(?P<names>[A-Za-z_][\w, ]*)=\s*[!%]")
_BUILT_IN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


class UnreadableError(ValueError):
    """A text that is no Python; the message says where and why."""


@dataclass(frozen=True, eq=False)
class Statement:
    """One top-level statement of a cell.

    Attributes:
        node: what Python's parser made of it.
        cell: the source of its whole cell, by which its line numbers count.
        place: the cell in words, different for each cell: "cell 12 of ada/07_tokenization.ipynb".
        own: whether a student wrote it; False for the lesson's.
    """

    node: ast.stmt
    cell: str
    place: str
    own: bool = False

    @cached_property
    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = symtable.symtable(ast.unparse(self.node), "cell", "exec")
        except (SyntaxError, ValueError, RecursionError):
            return frozenset(), frozenset()
        binds = {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_assigned() or symbol.is_imported()
        }
        uses = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
        inner = list(table.get_children())
        while inner:
            scope = inner.pop()
            inner.extend(scope.get_children())
            for symbol in scope.get_symbols():
                if not symbol.is_global():
                    continue
                if symbol.is_assigned():
                    binds.add(symbol.get_name())
                uses.add(symbol.get_name())
        return frozenset(binds), frozenset(uses)

    @property
    def binds(self) -> frozenset[str]:
        """The names that it gives a value."""
        return self._names[0]

    @property
    def uses(self) -> frozenset[str]:
        """The names whose values it needs, at once or when a function of it is called."""
        return self._names[1]

    @cached_property
    def changes(self) -> frozenset[str]:
        """The names whose objects it changes: `table["a"] = 1`, `found.append(x)`."""
        found: set[str] = set()
        waiting: list[ast.AST] = [self.node]
        while waiting:
            node = waiting.pop()
            if isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
            ):
                continue
            waiting.extend(ast.iter_child_nodes(node))
            if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(
                node.ctx, ast.Store | ast.Del
            ):
                found.add(_base(node))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                function = node.value.func
                if isinstance(function, ast.Attribute):
                    found.add(_base(function))
        return frozenset(found - {""})

    @property
    def is_import(self) -> bool:
        """Whether it imports."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)

    @property
    def imports_all(self) -> bool:
        """Whether it is `from module import *`, which binds names that cannot be seen."""
        return isinstance(self.node, ast.ImportFrom) and self.node.names[0].name == "*"

    @cached_property
    def form(self) -> str:
        """What two statements that differ only in blanks and comments have in common."""
        return ast.dump(self.node)

    @property
    def text(self) -> str:
        """Its source, decorators included."""
        decorators = getattr(self.node, "decorator_list", ())
        first = min([self.node.lineno, *(one.lineno for one in decorators)])
        # As Python counts lines: `splitlines` would also split at signs inside a text.
        lines = _LINE_END.split(self.cell)[first - 1 : self.node.end_lineno]
        return "\n".join(lines)


def _base(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def statements_of(cell: str, place: str, *, own: bool = False) -> list[Statement]:
    """Read a cell; magics and shell commands are taken out first, line for line.

    Raises:
        UnreadableError: if it is no Python.
    """
    source = without_magics(cell)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else "somewhere"
        raise UnreadableError(f"{where}: {error.msg.rstrip('.')}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from None
    return [Statement(node, source, place, own) for node in tree.body]


def without_magics(cell: str) -> str:
    """Replace the lines that only IPython reads by ones that do nothing; no line moves.

    >>> without_magics("%matplotlib inline\\nx = 1")
    'pass\\nx = 1'
    >>> without_magics("files = !ls")
    'files = None'
    """
    try:
        ast.parse(cell)
        return cell
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    lines = []
    for line in cell.split("\n"):
        start = line.lstrip()
        if start.startswith(("%", "!")) or (start.startswith("?") or start.rstrip().endswith("?")):
            lines.append(line[: len(line) - len(start)] + "pass")
        elif found := _FROM_SHELL.match(line):
            indent = line[: len(line) - len(start)]
            lines.append(f"{indent}{found['names'].strip()} = None")
        else:
            lines.append(line)
    return "\n".join(lines)


def needed_for(names: Iterable[str], program: Sequence[Statement]) -> list[Statement]:
    """Return the statements of a program that decide what some names mean at its end, in order.

    >>> program = statements_of("a = 1\\nb = 2\\ndef f():\\n    return a\\nprint(b)", "cell 1")
    >>> [one.text.splitlines()[0] for one in needed_for(["f"], program)]
    ['a = 1', 'def f():']
    """
    imported = {name for one in program if one.is_import for name in one.binds}
    wanted = set(names)
    taken: set[int] = {n for n, one in enumerate(program) if one.imports_all}
    grows = True
    while grows:
        grows = False
        for number in range(len(program) - 1, -1, -1):
            one = program[number]
            if number in taken or _is_only_shown(one):
                continue
            if one.binds & wanted or (one.changes - imported) & wanted:
                taken.add(number)
                wanted |= one.uses
                grows = True
    return [program[number] for number in sorted(taken)]


def unknown_names(names: Iterable[str], program: Sequence[Statement]) -> set[str]:
    """Return the names that neither Python nor any statement of a program knows."""
    needed = needed_for(names, program)
    if any(one.imports_all for one in program):
        return set()
    known = {name for one in program for name in one.binds}
    used = set(names).union(*(one.uses for one in needed))
    return used - known - _BUILT_IN


def _is_only_shown(one: Statement) -> bool:
    """A statement that shows something or asks for a check: no answer needs it."""
    node = one.node
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    return isinstance(function, ast.Name) and function.id in _NOT_TAKEN


def imported_by(source: str) -> list[str]:
    """Return the modules that a program imports anywhere in it; none where it is no Python.

    >>> imported_by("import a.b, c\\ndef f():\\n    from d import e\\nfrom . import g")
    ['a.b', 'c', 'd']
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def is_stub(node: ast.AST) -> bool:
    """Say whether a function, or some method of a class, only raises NotImplementedError.

    >>> is_stub(ast.parse("def f(x):\\n    raise NotImplementedError('07.1')").body[0])
    True
    """
    if isinstance(node, ast.ClassDef):
        return any(is_stub(method) for method in node.body)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    body = [one for one in node.body if not _is_text(one)]
    if len(body) != 1 or not isinstance(body[0], ast.Raise):
        return False
    raised = body[0].exc
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
