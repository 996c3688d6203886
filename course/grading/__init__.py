"""Grade a folder of students' notebooks: find the answers, run them where they can do no harm.

`command` is the command line and `run` the whole of a run; `results` says what comes out. What is
trusted (`judge` and everything that it imports) and what runs a student's code (`worker`) are
different processes, between which only plain values travel (`wire`).
"""
