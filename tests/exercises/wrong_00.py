"""Lesson 00: each misconception as a change to the worked answer."""

WRONG = {
    "00.1": {
        "counts_visits": [("return len(seen)", "return len(visits)")],
        "counts_repetitions": [
            ("seen = set()", "seen = []"),
            ("seen.update(visit)", "seen.extend(visit)"),
        ],
        "adds_up_visits": [
            ("seen = set()", "seen = []"),
            ("seen.update(visit)", "seen.extend(set(visit))"),
        ],
        "first_visit_only": [("in visits:", "in visits[:1]:")],
        "length_of_the_first_visit": [("return len(seen)", "return len(visits[0])")],
        "last_visit_only": [("seen.update(visit)", "seen = set(visit)")],
        "repeats_within_a_visit": [
            ("seen = set()", "seen = []"),
            ("seen.update(visit)", "seen += [code for code in visit if code not in seen]"),
        ],
        "counts_categories": [("update(visit)", "update(code[:3] for code in visit)")],
        "drops_leading_zeros": [("update(visit)", 'update(code.lstrip("0") for code in visit)')],
        "reads_codes_as_numbers": [("update(visit)", "update(map(int, visit))")],
        "returns_the_codes": [("return len(seen)", "return seen")],
    },
}
