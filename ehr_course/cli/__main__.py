"""``python -m ehr_course.cli`` is ``ehr-course``, under the name that torchrun starts."""

from ehr_course.cli import main

main()
