"""Lesson 08: each misconception as a change to the worked answer."""

_YEARS = "years = admitted.year - born.year"
_TO_COME = "(admitted.month, admitted.day) < birthday"
_CAP = "return min(years, 90)"
_TAKE_OFF = f"    if {_TO_COME}:\n        years -= 1\n"

_STRIP = "code = text.strip()"
_MISSING = "    if text is None:\n        return None\n"
_UPPER = "return code.upper()"

_TIME = 'return datetime.strptime(row[1], "%m/%d/%Y %H:%M")'
_IMPORTANCE = "return int(row[1])"
_BY_IMPORTANCE = "sorted(diagnoses, key=importance)"
_BY_TIME = "sorted(admissions, key=time)"

_SUBJECTS = "subjects = list(dict.fromkeys(row[0] for row in rows))"
_TRAIN = "train = [row for row in rows if row[0] not in chosen]"
_TEST = "test = [row for row in rows if row[0] in chosen]"
_VOCABULARY = "vocabulary = sorted({row[2] for row in train})"
_OF_ALL = (_VOCABULARY, "vocabulary = sorted({row[2] for row in rows})")
_CUT_ROWS = [(_TRAIN, "train = rows[n_test:]"), (_TEST, "test = rows[:n_test]")]
_CUT_ADMISSIONS = [
    (_SUBJECTS, "subjects = list(dict.fromkeys(row[1] for row in rows))"),
    (_TRAIN, _TRAIN.replace("row[0]", "row[1]")),
    (_TEST, _TEST.replace("row[0]", "row[1]")),
]

_NO_CODE = 'if code is None or code == "":\n            dropped["no code"] += 1\n'
_UNKNOWN = 'if hadm_id not in known_admissions:\n            dropped["unknown admission"] += 1\n'
_REPEATED = 'elif (hadm_id, code) in kept:\n            dropped["repeated"] += 1\n'
_ROWS = "for hadm_id, code in rows:"
_RETURN = "return kept, dropped"

WRONG = {
    "08.1": {
        "year_difference": [(_TAKE_OFF, "")],
        "year_difference_uncapped": [(_TAKE_OFF, ""), (_CAP, "return years")],
        "days_by_365": [(_YEARS, "years = (admitted - born).days // 365"), (_TAKE_OFF, "")],
        "days_by_365_25": [
            (_YEARS, "years = int((admitted - born).days / 365.25)"),
            (_TAKE_OFF, ""),
        ],
        "birthday_not_counted": [(_TO_COME, _TO_COME.replace("<", "<="))],
        "day_without_its_month": [
            (_TO_COME, "admitted.month < born.month or admitted.day < born.day")
        ],
        "replaces_the_year": [(_TO_COME, "admitted < born.replace(year=admitted.year)")],
        "uncapped": [(_CAP, "return years")],
        "caps_only_the_shifted": [(_CAP, "return 90 if years > 120 else years")],
        "cap_before_the_birthday": [
            (_YEARS, "years = min(admitted.year - born.year, 90)"),
            (_CAP, "return years"),
        ],
    },
    "08.2": {
        "integer_parse": [(_UPPER, "return str(int(code))")],
        "loses_leading_zeros": [(_UPPER, 'return code.upper().lstrip("0")')],
        "keeps_the_dot": [('    code = code.replace(".", "")\n', "")],
        "keeps_lower_case": [(_UPPER, "return code")],
        "keeps_spaces": [(_STRIP, "code = text")],
        "drops_letters": [(_UPPER, 'return "".join(c for c in code if c.isdigit())')],
        "missing_raises": [(_MISSING, "")],
        "missing_as_text": [(_MISSING, "    text = str(text)\n")],
    },
    "08.3": {
        "order_by_hadm_id": [(_TIME, "return int(row[0])")],
        "file_order": [(_BY_TIME, "admissions")],
        "times_as_text": [(_TIME, "return row[1]")],
        "day_before_month": [("%m/%d/%Y", "%d/%m/%Y")],
        "seq_num_ignored": [(_BY_IMPORTANCE, "diagnoses")],
        "seq_num_as_text": [(_IMPORTANCE, "return row[1]")],
        "times_and_seq_num_as_text": [(_TIME, "return row[1]"), (_IMPORTANCE, "return row[1]")],
        "nothing_sorted": [(_BY_TIME, "admissions"), (_BY_IMPORTANCE, "diagnoses")],
        "keeps_empty_visits": [
            ("        if hadm_id in codes_of:\n            visits", "        visits"),
            ("codes_of[hadm_id])", "codes_of.get(hadm_id, []))"),
        ],
    },
    "08.4": {
        "first_three": [('4 if code.startswith("E") else 3', "3")],
        "four_for_v": [('startswith("E")', 'startswith(("E", "V"))')],
        "four_for_all": [('4 if code.startswith("E") else 3', "4")],
        "splits_at_the_dot": [("code[:length]", 'code.split(".")[0]')],
        "cuts_the_last": [("code[:length]", "code[:-1]")],
        "drops_the_letter": [("code[:length]", 'code.strip("EV")[:3]')],
    },
    "08.5": {
        "splits_rows": _CUT_ROWS,
        "splits_admissions": _CUT_ADMISSIONS,
        "subjects_of_the_first_rows": [
            (_SUBJECTS, "subjects = [row[0] for row in rows[:n_test]]")
        ],
        "vocabulary_of_all": [_OF_ALL],
        "vocabulary_unsorted": [
            (_VOCABULARY, "vocabulary = list(dict.fromkeys(row[2] for row in train))")
        ],
        "vocabulary_repeated": [(_VOCABULARY, "vocabulary = sorted(row[2] for row in train)")],
        "smallest_ids": [(_SUBJECTS, "subjects = sorted({row[0] for row in rows})")],
        "order_of_a_set": [(_SUBJECTS, "subjects = list(set(row[0] for row in rows))")],
        "test_first": [("return train, test", "return test, train")],
    },
    "08.6": {
        "two_reasons": [
            (
                _ROWS,
                "seen = set()\n    for hadm_id, code in rows:\n"
                "        again = (hadm_id, code) in seen\n"
                "        seen.add((hadm_id, code))",
            ),
            ("el" + _UNKNOWN, _UNKNOWN),
            (_REPEATED, _REPEATED.replace("elif (hadm_id, code) in kept", "if again")),
            (
                "        else:\n",
                "        if code and hadm_id in known_admissions and not again:\n",
            ),
        ],
        "no_code_and_unknown": [
            ("el" + _UNKNOWN, _UNKNOWN),
            (_REPEATED, _REPEATED.replace("elif", "elif code and")),
            ("        else:\n", "        elif code:\n"),
        ],
        "same_code_elsewhere": [("(hadm_id, code) in kept", "code in [c for _, c in kept]")],
        "empty_text_as_a_code": [(' or code == ""', "")],
        "unknown_admission_first": [
            (_NO_CODE + "        el" + _UNKNOWN, _UNKNOWN + "        el" + _NO_CODE)
        ],
        "repeated_first": [
            (
                _ROWS,
                "seen = []\n    for hadm_id, code in rows:\n        seen.append((hadm_id, code))",
            ),
            (
                "        " + _NO_CODE,
                '        if (hadm_id, code) in seen[:-1]:\n            dropped["repeated"] += 1\n'
                "        el" + _NO_CODE,
            ),
            ("        " + _REPEATED, ""),
        ],
        "sorts_the_rows": [("return kept", "return sorted(kept)")],
        "leaves_out_zero": [(_RETURN, "return kept, {r: n for r, n in dropped.items() if n}")],
    },
}
