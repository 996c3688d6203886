"""Lesson 07: each misconception as a change to the worked answer."""

_VISITS_AS_LISTS = [
    ("        ids += [3]\n", ""),
    ("ids += [code_ids[code] for code in visit]", "ids += [[3, *map(code_ids.get, visit), 4]]"),
    ("        ids += [4]\n", ""),
]
_BATCH = "torch.tensor(rows), torch.tensor(masks)"

WRONG = {
    "07.1": {
        "forgets_offset": [("7 + ", "")],
        "counts_six_special_tokens": [("7 + ", "6 + ")],
        "counts_from_one": [("7 + ", "7 + 1 + ")],
        "sorts_codes": [("vocabulary.index", "sorted(vocabulary).index")],
    },
    "07.2": {
        "swapped_markers": [("[3, *ids, 4]", "[4, *ids, 3]")],
        "adds_bos": [("[3, *ids, 4]", "[1, 3, *ids, 4]")],
        "adds_bos_and_eos": [("[3, *ids, 4]", "[1, 3, *ids, 4, 2]")],
        "bos_for_markers": [("[3, *ids, 4]", "[1, *ids, 2]")],
        "no_markers": [("[3, *ids, 4]", "ids")],
        "no_closing_marker": [("[3, *ids, 4]", "[3, *ids]")],
        "no_opening_marker": [("[3, *ids, 4]", "[*ids, 4]")],
        "adds_eos": [("[3, *ids, 4]", "[3, *ids, 4, 2]")],
        "markers_around_each_code": [
            ("[3, *ids, 4]", "[number for i in ids for number in (3, i, 4)]")
        ],
        "list_in_a_list": [("[3, *ids, 4]", "[3, ids, 4]")],
        "numbers_the_codes_anew": [("code_ids[code]", "7 + list(code_ids).index(code)")],
        "numbers_the_sorted_codes": [("code_ids[code]", "7 + sorted(code_ids).index(code)")],
        "adds_the_offset": [("code_ids[code]", "7 + code_ids[code]")],
        "sorts_codes": [("for code in codes", "for code in sorted(codes)")],
    },
    "07.3": {
        "one_marker_pair": [
            ("ids = [1]", "ids = [1, 3]"),
            ("        ids += [3]\n", ""),
            ("        ids += [4]\n", ""),
            ("ids += [2]", "ids += [4, 2]"),
        ],
        "no_visit_markers": [("        ids += [3]\n", ""), ("        ids += [4]\n", "")],
        "bos_per_visit": [("ids = [1]", "ids = []"), ("ids += [3]", "ids += [1, 3]")],
        "eos_per_visit": [("    ids += [2]\n", ""), ("ids += [4]", "ids += [4, 2]")],
        "bos_and_eos_per_visit": [
            ("ids = [1]", "ids = []"),
            ("ids += [3]", "ids += [1, 3]"),
            ("    ids += [2]\n", ""),
            ("ids += [4]", "ids += [4, 2]"),
        ],
        "no_eos": [("    ids += [2]\n", "")],
        "no_bos": [("ids = [1]", "ids = []")],
        "no_bos_and_no_eos": [("ids = [1]", "ids = []"), ("    ids += [2]\n", "")],
        "lists_in_a_list": _VISITS_AS_LISTS,
        "list_of_visits": [
            ("ids = [1]", "ids = []"),
            *_VISITS_AS_LISTS,
            ("    ids += [2]\n", ""),
        ],
        "barts_bos": [("ids = [1]", "ids = [0]")],
        "first_visit_only": [("in visits:", "in visits[:1]:")],
        "sorts_codes": [("for code in visit", "for code in sorted(visit)")],
        "numbers_the_codes_anew": [("code_ids[code]", "7 + list(code_ids).index(code)")],
        "ends_with_end": [("ids += [2]", "ids += [5]")],
    },
    "07.4": {
        "loses_visit_boundaries": [
            ("visits = []", "visits = [[]]"),
            ("visits.append([])", "continue"),
        ],
        "flat_list": [
            ("visits.append([])", "continue"),
            ("visits[-1].append", "visits.append"),
        ],
        "special_tokens_as_codes": [
            ("        if token == 2:\n            break\n", ""),
            ("elif token >= 7:", "elif token != 4 and visits:"),
        ],
        "every_token_as_code": [
            ("visits = []", "visits = [[]]"),
            ("        if token == 2:\n            break\n", ""),
            ("if token == 3:", "if token == 4:"),
            ("        elif token >= 7:\n            visits", "        visits"),
        ],
        "every_token_flat": [
            ("        if token == 2:\n            break\n", ""),
            ("        if token == 3:\n            visits.append([])\n", ""),
            ("        elif token >= 7:\n            visits[-1]", "        visits"),
        ],
        "forgets_offset": [("[token - 7]", "[token]")],
        "mask_as_code": [("elif token >= 7:", "elif token not in (0, 1, 4):")],
        "one_list_for_all_visits": [
            ("visits = []", "visits, visit = [], []"),
            ("visits.append([])", "visits.append(visit)"),
        ],
        "drops_empty_visit": [("return visits", "return [v for v in visits if v]")],
    },
    "07.5": {
        "pads_left": [
            ("ids + [0] * padding", "[0] * padding + ids"),
            ("[1] * len(ids) + [0] * padding", "[0] * padding + [1] * len(ids)"),
        ],
        "inverted_mask": [("[1] * len(ids) + [0] * padding", "[0] * len(ids) + [1] * padding")],
        "barts_pad_id": [("ids + [0]", "ids + [1]")],
        "barts_mask": [(_BATCH, "torch.tensor(rows), torch.tensor(rows) != 1")],
        "barts_pad_id_and_mask": [
            ("ids + [0]", "ids + [1]"),
            (_BATCH, "torch.tensor(rows), torch.tensor(rows) != 1"),
        ],
        "hides_special_tokens": [(_BATCH, "torch.tensor(rows), torch.tensor(rows) >= 7")],
        "float_ids": [(_BATCH, "torch.tensor(rows).float(), torch.tensor(masks)")],
        "batch_last": [(_BATCH, "torch.tensor(rows).T, torch.tensor(masks).T")],
        "mask_first": [(_BATCH, "torch.tensor(masks), torch.tensor(rows)")],
        "mask_of_ones": [("[1] * len(ids) + [0] * padding", "[1] * longest")],
        "cuts_to_shortest": [
            ("longest = max(", "longest = min("),
            (
                "    for ids in sequences:\n",
                "    for ids in sequences:\n        ids = ids[:longest]\n",
            ),
        ],
        "ids_only": [(_BATCH, "torch.tensor(rows)")],
        "lists_for_tensors": [(_BATCH, "rows, masks")],
    },
    "07.6": {
        "greedy_longest_match": [
            (
                "    best = [0.0]",
                "    pieces = []\n"
                "    while text:\n"
                "        size = max(n for n in range(len(text) + 1) if text[:n] in scores)\n"
                "        pieces.append(text[:size])\n"
                "        text = text[size:]\n"
                "    return pieces\n"
                "    best = [0.0]",
            )
        ],
        "best_next_piece": [
            (
                "    best = [0.0]",
                "    pieces = []\n"
                "    while text:\n"
                "        fitting = [p for p in scores if text.startswith(p)]\n"
                "        pieces.append(max(fitting, key=scores.get))\n"
                "        text = text[len(pieces[-1]):]\n"
                "    return pieces\n"
                "    best = [0.0]",
            )
        ],
        "multiplies_probabilities": [
            ("[0.0] + [-math.inf]", "[1.0] + [-1.0]"),
            ("best[start] + scores[piece]", "best[start] * math.exp(scores[piece])"),
        ],
        "multiplies_probabilities_keeps_last": [
            ("[0.0] + [-math.inf]", "[1.0] + [-1.0]"),
            ("best[start] + scores[piece]", "best[start] * math.exp(scores[piece])"),
            ("score > best[end]", "score >= best[end]"),
        ],
        "multiplies_probabilities_from_zero": [
            ("[0.0] + [-math.inf]", "[1.0] + [0.0]"),
            ("best[start] + scores[piece]", "best[start] * math.exp(scores[piece])"),
        ],
        "fewest_pieces": [("best[start] + scores[piece]", "best[start] - 1")],
        "least_likely": [
            ("[-math.inf]", "[math.inf]"),
            ("score > best[end]", "score < best[end]"),
        ],
        "reversed_pieces": [("return pieces[::-1]", "return pieces")],
        "returns_score": [("return pieces[::-1]", "return best[-1]")],
    },
}
