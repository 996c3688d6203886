"""The course as a whole: `python3 -m course` sets it up, opens, tests and builds it."""
