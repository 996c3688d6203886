"""Exercises that tell you what went wrong.

`check` tries your answer and says what it found, `hint` helps, `progress` shows where you stand.
`mine` gives back a part of the model that you wrote, and `parts` says which parts are yours.
`examine` is the check alone: it returns its result, and neither shows nor records it.
"""

from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.examine import examine
from ehr_course.exercises.mine import mine, parts
from ehr_course.exercises.notebook import WrongAnswerError, check, hint, progress
from ehr_course.exercises.prompt_to_try import tried_out

__all__ = [
    "WrongAnswerError",
    "check",
    "examine",
    "find_exercise",
    "hint",
    "mine",
    "parts",
    "progress",
    "tried_out",
]
