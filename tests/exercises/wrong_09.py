"""Lesson 09: each misconception as a change to the worked answer."""

_SHARE = "share = math.exp(-mean) * mean**draw / math.factorial(draw)"
_LENGTH = "length = max(draw, 1)"
_DRAWS = "for draw in range(longest):"
_TO_LONGEST = "for draw in range(longest + 1):"
_LANDS = "shares[length - 1] += share"
_REST = "    shares[-1] += 1 - sum(shares)\n"
_SHARES = "return shares"
_FROM_ONE = (_DRAWS, "for draw in range(1, longest):")
_TAIL = "1 - sum(shares) - math.exp(-mean)"

_BEFORE = "before = codes[:start]"
_AFTER = "after = codes[start + length :]"
_FILLED = "return [3, *before, 6, *after, 4]"

_KEPT = "kept = [code for code, draw in pairs if draw >= p]"
_EMPTY = "if not kept:"
_SPARED = "kept = [codes[spare]]"
_DELETED = "return [3, *kept, 4]"

_OTHERS = "others = [t for t in range(7, n_tokens) if t != code]"
_CHOSEN = "code = others[int(pick * len(others))]"
_IF_REPLACED = "if draw < p:"
_REPLACED = "return [3, *new, 4]"

_START = "torch.full_like(clean[:, :1], 2)"
_SHIFTED = "torch.cat([start, clean[:, :-1]], dim=1)"
_COPY = "labels = clean.clone()"
_UNSCORED = "labels[~scored] = -100"
_PADDING = "    labels[clean == 0] = -100\n"
_TARGETS = "return labels, decoder_input_ids"
_LABELS_OF_CORRUPTED = [
    (_COPY, "labels = corrupted.clone()"),
    (_PADDING, "    labels[corrupted == 0] = -100\n"),
]
_SHIFT_OF_CORRUPTED = (_SHIFTED, "torch.cat([start, corrupted[:, :-1]], dim=1)")
_SHIFT_OF_LABELS = "decoder_input_ids = torch.cat([start, labels[:, :-1]], dim=1)"
_SHIFT_OF_PADDED_LABELS = (
    _TARGETS,
    f"{_SHIFT_OF_LABELS}\n"
    "    decoder_input_ids = decoder_input_ids.masked_fill(decoder_input_ids < 0, 0)\n"
    f"    {_TARGETS}",
)

WRONG = {
    "09.1": {
        "forgets_the_clamp": [_FROM_ONE, ("1 - sum(shares)", _TAIL)],
        "zero_is_a_length": [
            ("[0.0] * longest", "[0.0] * (longest + 1)"),
            (_LANDS, "shares[draw] += share"),
        ],
        "lengths_from_zero": [(_LANDS, "shares[draw] += share"), (_REST, "")],
        "draws_again": [
            _FROM_ONE,
            ("1 - sum(shares)", _TAIL),
            (_SHARES, "return [share / sum(shares) for share in shares]"),
        ],
        "draws_again_at_both_ends": [
            (_DRAWS, "for draw in range(1, longest + 1):"),
            (_REST, ""),
            (_SHARES, "return [share / sum(shares) for share in shares]"),
        ],
        "loses_the_long_ones": [(_DRAWS, _TO_LONGEST), (_REST, "")],
        "no_clamp_at_all": [(_DRAWS, "for draw in range(1, longest + 1):"), (_REST, "")],
        "last_one_too_late": [
            (_DRAWS, _TO_LONGEST),
            (_REST, "    shares[-1] = 1 - sum(shares)\n"),
        ],
        "adds_one": [
            (_DRAWS, "for draw in range(longest - 1):"),
            (_LENGTH, "length = draw + 1"),
        ],
        "always_three": [("    shares = [", "    mean = 3.0\n    shares = [")],
        "mean_upside_down": [("    shares = [", "    mean = 1 / mean\n    shares = [")],
        "adds_up_as_it_goes": [(_SHARES, "return [sum(shares[: k + 1]) for k in range(longest)]")],
        "rounds": [(_SHARES, "return [round(share, 4) for share in shares]")],
    },
    "09.2": {
        "one_mask_a_token": [
            ("before, 6,", "before, *[6 for _ in codes[start : start + length]],")
        ],
        "one_mask_a_token_uncut": [("before, 6,", "before, *[6] * length,")],
        "one_mask_a_token_and_the_marker": [
            (
                _FILLED,
                "row = list(visit)\n"
                "    for i in range(1 + start, min(1 + start + length, len(row))):\n"
                "        row[i] = 6\n"
                "    return row",
            )
        ],
        "masks_the_whole_visit": [(_FILLED, "return [3, 6, 4]")],
        "masks_the_markers_too": [(_FILLED, "return [6]")],
        "masks_to_the_end": [(", *after, 4", ", 4")],
        "masks_one_code": [("start + length", "start + 1")],
        "one_code_too_many": [("start + length", "start + length + 1")],
        "one_code_too_few": [("start + length", "start + length - 1")],
        "forgets_the_marker_before": [
            (_FILLED, "return visit[:start] + [6] + visit[start + length:]")
        ],
        "forgets_the_marker_before_and_cuts": [
            (
                _FILLED,
                "return visit[:start] + [6] + visit[min(start + length, len(visit) - 1) :]",
            )
        ],
        "swallows_the_closing_marker": [
            (_FILLED, "return visit[:start + 1] + [6] + visit[start + 1 + length:]")
        ],
        "keeps_the_codes": [("start + length :", "start:")],
        "no_mask": [(" 6,", "")],
        "drops_the_markers": [(_FILLED, "return [*before, 6, *after]")],
        "mask_id_of_bart": [(" 6,", " 50264,")],
    },
    "09.3": {
        "can_empty_a_visit": [(_EMPTY, "if not codes:")],
        "keeps_the_first": [("codes[spare]", "codes[0]")],
        "keeps_the_last": [("codes[spare]", "codes[-1]")],
        "keeps_the_largest_draw": [("codes[spare]", "codes[draws.index(max(draws))]")],
        "takes_everything_back": [(_SPARED, "kept = codes")],
        "spare_is_never_deleted": [
            (
                "pairs = zip(codes, draws, strict=True)",
                "pairs = zip(codes, [d + (i == spare) for i, d in enumerate(draws)], strict=True)",
            )
        ],
        "spare_counts_the_marker": [("codes[spare]", "visit[spare]")],
        "deletes_above_p": [("draw >= p", "draw <= p")],
        "deletes_at_p": [("draw >= p", "draw > p")],
        "masks_instead": [(_KEPT, "kept = [code if draw >= p else 6 for code, draw in pairs]")],
        "drops_the_markers": [(_DELETED, "return kept")],
        "deletes_every_copy": [
            (
                _KEPT,
                "gone = [code for code, draw in pairs if draw < p]\n"
                "    kept = [code for code in codes if code not in gone]",
            )
        ],
        "draw_of_the_first_copy": [
            (_KEPT, "kept = [code for code in codes if draws[codes.index(code)] >= p]")
        ],
    },
    "09.4": {
        "draws_special_tokens": [(_OTHERS, "others = list(range(n_tokens))")],
        "draws_special_tokens_but_not_itself": [("range(7, n_tokens)", "range(n_tokens)")],
        "replaces_by_itself": [(_OTHERS, "others = list(range(7, n_tokens))")],
        "counts_without_stepping_over": [(_CHOSEN, "code = 7 + int(pick * len(others))")],
        "the_next_one_instead": [
            (_OTHERS, "new_code = 7 + int(pick * (n_tokens - 7))"),
            (_CHOSEN, "code = new_code + 1 if new_code == code else new_code"),
        ],
        "counts_six_special_tokens": [("range(7, n_tokens)", "range(6, n_tokens)")],
        "leaves_out_the_whole_visit": [("t != code", "t not in codes")],
        "chooses_within_the_visit": [
            (_OTHERS, "others = [t for t in codes if t != code] or [code]")
        ],
        "one_pick_for_all": [("int(pick *", "int(picks[0] *")],
        "draws_as_picks": [("int(pick *", "int(draw *")],
        "replaces_above_p": [(_IF_REPLACED, "if draw > p:")],
        "replaces_at_p": [(_IF_REPLACED, "if draw <= p:")],
        "masks_instead": [(_CHOSEN, "code = 6")],
        "drops_the_markers": [(_REPLACED, "return new")],
    },
    "09.5": {
        "leak": [*_LABELS_OF_CORRUPTED, _SHIFT_OF_CORRUPTED],
        "leak_and_masked_labels": [*_LABELS_OF_CORRUPTED, _SHIFT_OF_PADDED_LABELS],
        "labels_from_corrupted": _LABELS_OF_CORRUPTED,
        "decoder_input_from_corrupted": [_SHIFT_OF_CORRUPTED],
        "shift_of_masked_labels": [_SHIFT_OF_PADDED_LABELS],
        "masked_labels_in_the_decoder": [(_TARGETS, f"{_SHIFT_OF_LABELS}\n    {_TARGETS}")],
        "padding_kept": [(_PADDING, "")],
        "ignores_scored": [(f"    {_UNSCORED}\n", "")],
        "scored_upside_down": [("~scored", "scored")],
        "pad_instead_of_minus_100": [
            (_UNSCORED, "labels[~scored] = 0"),
            (_PADDING, ""),
        ],
        "starts_with_bos": [("1], 2)", "1], 1)")],
        "starts_with_padding": [("1], 2)", "1], 0)")],
        "not_shifted": [(_SHIFTED, "clean")],
        "shifted_to_the_left": [(_SHIFTED, "torch.cat([clean[:, 1:], start * 0], dim=1)")],
        "shifted_twice": [
            (
                _TARGETS,
                f"labels = torch.cat([labels[:, 1:], start * 0 - 100], dim=1)\n    {_TARGETS}",
            )
        ],
        "one_position_too_long": [(_SHIFTED, "torch.cat([start, clean], dim=1)")],
        "decoder_input_first": [(_TARGETS, "return decoder_input_ids, labels")],
    },
}
