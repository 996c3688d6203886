"""``python -m ehr_course.cli`` is ``ehr-course``; torchrun starts it by this name."""

from ehr_course.cli import main

main()
