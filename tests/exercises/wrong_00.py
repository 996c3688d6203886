"""Lesson 00: each misconception as a change to the worked answer."""

WRONG = {
    "00.1": {
        "counts_visits": [("return len(seen)", "return len(visits)")],
        "counts_repetitions": [
            ("seen = set()", "seen = []"),
            ("seen.update(visit)", "seen.extend(visit)"),
        ],
        "first_visit_only": [("in visits:", "in visits[:1]:")],
        "returns_the_codes": [("return len(seen)", "return seen")],
    },
}
