"""What malicious students hand in as their answer to 07.1, and what a grader has to find of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

from handed_in import LESSON, ROOT

NOT_YET = "not yet"
ERROR = "error in your code"


def attacks(folder: Path, secret: Path, grades: Path) -> dict[str, tuple[str, str, str]]:
    """Return every attack on 07.1, by name: its code, what is found of it, and the flag or "".

    An attack that succeeds returns the right value, and one that fails a wrong one: whatever is
    solved has come through.

    Args:
        folder: of all submissions.
        secret: a file that nobody may read.
        grades: the folder into which the class is graded.
    """
    solution = ROOT / "solutions" / f"{LESSON}.py"
    references = ROOT / "ehr_course" / "exercises" / "lessons"
    found = {
        "forges": (
            """
            import json, os, struct, sys

            def token_id(code, vocabulary):
                value = {"t": "int", "v": "7"}
                line = json.dumps({"outcome": "solved", "points": 100, "value": value})
                print("✔ 07.1 The token id of a code · Solved")
                sys.__stdout__.write(line); sys.__stderr__.write(line)
                text = json.dumps({"value": value, "changed": False}).encode()
                for number in range(64):
                    try:
                        forged = struct.pack("<II", len(text), 0) + text
                        os.write(number, forged if number > 2 else line.encode())
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "patches_checks": (
            """
            def token_id(code, vocabulary):
                import ehr_course.exercises as exercises
                from ehr_course.exercises import compare, examine, learner_code, result
                compare.first_difference = lambda *a, **k: None
                compare.state_of = lambda value: ""
                seven = learner_code.Call(7, None, "", False)
                learner_code.call = lambda function, arguments, seconds=None: seven
                exercises.check = exercises.examine = lambda *a, **k: result.Outcome.SOLVED
                return -1
            """,
            NOT_YET,
            "",
        ),
        "exits_hard": (
            "import os\n\n\ndef token_id(code, vocabulary):\n    os._exit(0)",
            ERROR,
            "ended",
        ),
        "kills": (
            """
            import os, signal

            def token_id(code, vocabulary):
                tried = [os.getppid(), 1, -1, 0, *range(max(2, os.getpid() - 300), os.getpid())]
                for process in tried:
                    try:
                        os.kill(process, signal.SIGKILL)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "endless": (
            """
            def token_id(code, vocabulary):
                while True:
                    try:
                        while True:
                            pass
                    except BaseException:
                        pass
            """,
            NOT_YET,
            "stopped",
        ),
        "memory": (
            "def token_id(code, vocabulary):\n"
            "    return len(bytearray(2 << 30)) and 7 + vocabulary.index(code)",
            ERROR,
            "",
        ),
        "fork_bomb": (
            """
            import os, subprocess, sys, threading

            def token_id(code, vocabulary):
                made = 0
                for _ in range(200):
                    try:
                        if os.fork() == 0:
                            while True:
                                pass
                        made += 1
                    except OSError:
                        pass
                try:
                    subprocess.run([sys.executable, "-c", "1"])
                    made += 1
                except OSError:
                    pass
                return 7 + vocabulary.index(code) if made else -1
            """,
            NOT_YET,
            "",
        ),
        "network": (
            """
            import socket

            def token_id(code, vocabulary):
                for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
                    try:
                        socket.socket(family)
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "reads": (
            f"""
            import ctypes, os

            def token_id(code, vocabulary):
                for path in {[str(solution), str(references / "lesson_07.py"), str(secret)]!r}:
                    try:
                        stolen = open(path).read()
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                    libc = ctypes.CDLL(None)
                    if libc.open(path.encode(), 0) >= 0:
                        return 7 + vocabulary.index(code)
                try:
                    found = os.listdir({str(folder)!r})
                    return 7 + vocabulary.index(code)
                except OSError:
                    pass
                try:
                    open({str(folder / "ada" / f"{LESSON}.ipynb")!r}).read()
                    return 7 + vocabulary.index(code)
                except OSError:
                    pass
                for entry in range(1, 3000):
                    if entry == os.getpid():
                        continue
                    try:
                        open(f"/proc/{{entry}}/environ").read()
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                import gc
                import sys
                held = [m for m in sys.modules if "lesson_07" in m]
                held += [o for o in gc.get_objects() if type(o).__name__ == "Exercise"]
                if held:
                    return 7 + vocabulary.index(code)
                try:
                    from ehr_course.exercises.lessons import lesson_07
                    return lesson_07.TOKEN_ID.worked_answer(code, vocabulary)
                except Exception:
                    pass
                try:
                    from ehr_course.exercises.worked_answers import worked_answer
                    worked_answer("07.1")
                    return 7 + vocabulary.index(code)
                except Exception:
                    return -1
            """,
            NOT_YET,
            "",
        ),
        "writes_grades": (
            f"""
            import os

            def token_id(code, vocabulary):
                places = {[str(grades), str(grades / "students" / "writes_grades"), str(folder)]!r}
                places += [".", "/tmp", "/dev/shm", {str(ROOT)!r}]
                for place in places:
                    for name in ("result.json", "grades.csv"):
                        try:
                            os.makedirs(place, exist_ok=True)
                            open(os.path.join(place, name), "a").write("solved")
                            return 7 + vocabulary.index(code)
                        except OSError:
                            pass
                    try:
                        os.chmod(place, 0)
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "reduces": (
            f"""
            import torch

            class Right(int):
                def __eq__(self, other): return True
                def __ne__(self, other): return False
                def __hash__(self): return 7
                def __instancecheck__(self, kind): return True
                def __repr__(self): return "7"
                def __reduce__(self):
                    return eval, ("open({str(grades / "forged")!r}, 'w').close()",)
                __reduce_ex__ = lambda self, protocol: self.__reduce__()

            class Any:
                def __eq__(self, other): return True
                def __getattr__(self, name): return Any()
                def __reduce__(self): return eval, ("__import__('os')._exit(0)",)

            class Same(torch.Tensor):
                @classmethod
                def __torch_function__(cls, function, types, args=(), kwargs=None):
                    return True

            def token_id(code, vocabulary):
                forged = [Right(-1), Any(), torch.tensor(-1).as_subclass(Same)]
                return forged[len(vocabulary) % 3]
            """,
            NOT_YET,
            "",
        ),
    }
    return {
        name: (textwrap.dedent(code).strip("\n"), outcome, flag)
        for name, (code, outcome, flag) in found.items()
    }
