"""Lesson 14: each misconception as a change to the worked answer."""

_PICKED = "rows, right = logits[scored], labels[scored]"
_LARGEST = "rows = rows - rows.amax(dim=-1, keepdim=True)"
_LOG_P = "log_p = rows - rows.exp().sum(dim=-1, keepdim=True).log()"
_THROUGH_P = (_LOG_P, "log_p = (rows.exp() / rows.exp().sum(dim=-1, keepdim=True)).log()")
_LOSSES = "losses = -log_p[torch.arange(len(right)), right]"
_MEAN = "return losses.mean()"
_EVERY_PLACE = "rows, right = logits.flatten(0, 1), labels.flatten()"
_BY_ROW = (
    "    by_row = torch.zeros(labels.shape)\n"
    "    by_row[scored] = losses\n"
    "    return (by_row.sum(1) / {}).mean()"
)

_LOG_SOFTMAX = "log_p = logits[scored].log_softmax(dim=-1)"
_MIXED = "losses = (1 - smoothing) * right + smoothing * spread"
_SPREAD = "spread = -log_p.mean(dim=-1)"
_OVER_ALL = "spread = -logits.log_softmax(dim=-1).mean(dim=-1)"

_SHARE = "shares.append(total / count)"
_TOTAL = "total = losses[labels != -100].sum()"
_COUNT = "count = sum((labels != -100).sum() for _, labels in parts)"
_EMPTY = "    shares = []\n"
_OWN = "(labels != -100).sum()"
_ROWS = "sum(len(labels) for _, labels in parts)"

_FORBIDDEN = "forbidden = never[read].cummax(dim=1).values"
_P = "logits.softmax(dim=-1)"
_SUM = "mass = (probabilities * forbidden).sum(dim=-1)"
_MASS = "return mass[scored].mean()"
_AMONG = "mass = forbidden.gather(-1, {}[..., None])[..., 0].float()"

_WEIGHTED = "total = total + term.weight * mean"
_DIVIDED = "mean = term.total / counts[term.per]"
_EACH = "for term in terms:"
_RETURN = "return total\n"

WRONG = {
    "14.1": {
        "mean_over_padding": [(_MEAN, "return losses.sum() / labels.numel()")],
        "padding_as_token_0": [
            (_PICKED, "rows, right = logits.flatten(0, 1), labels.clamp(min=0).flatten()")
        ],
        "mean_of_row_means": [(f"    {_MEAN}", _BY_ROW.format("scored.sum(1)"))],
        "mean_of_row_means_without_a_division_by_0": [
            (f"    {_MEAN}", _BY_ROW.format("scored.sum(1).clamp(min=1)"))
        ],
        "mean_of_the_means_of_scored_rows": [
            (f"    {_MEAN}", _BY_ROW.format("scored.sum(1)").replace(".mean()", ".nanmean()"))
        ],
        "sum_of_the_losses": [(_MEAN, "return losses.sum()")],
        "divided_by_rows": [(_MEAN, "return losses.sum() / len(labels)")],
        "exponentials_overflow": [(_LARGEST, "rows = rows * 1.0"), _THROUGH_P],
        "exponentials_overflow_to_infinity": [(_LARGEST, "rows = rows * 1.0")],
        "logarithm_of_softmax": [(_LOG_P, "log_p = rows.softmax(dim=-1).log()")],
        "one_maximum_for_all": [(_LARGEST, "rows = rows - logits.max()"), _THROUGH_P],
        "one_maximum_for_all_to_infinity": [(_LARGEST, "rows = rows - logits.max()")],
        "maximum_not_added_again": [
            (
                _LOSSES,
                "kept = logits[scored][torch.arange(len(right)), right]\n"
                "    losses = rows.exp().sum(dim=-1).log() - kept",
            )
        ],
        "losses_that_are_not_0": [(_MEAN, "return losses.sum() / (losses != 0).sum()")],
        "every_label_at_every_place": [(_LOSSES, "losses = -log_p[:, right]")],
        "mean_over_the_vocabulary": [(_MEAN, "return losses.mean() / logits.shape[-1]")],
        "probabilities_without_a_logarithm": [(_MEAN, "return -(-losses).exp().mean()")],
        "logarithm_of_the_mean": [(_MEAN, "return -(-losses).exp().mean().log()")],
        "bits": [(_MEAN, "return losses.mean() / torch.log(torch.tensor(2.0))")],
        "base_10": [(_MEAN, "return losses.mean() / torch.log(torch.tensor(10.0))")],
        "opposite_sign": [(_LOSSES, _LOSSES.replace("-log_p", "log_p"))],
        "logits_without_softmax": [(_LARGEST, ""), (_LOG_P, "log_p = rows")],
        "softmax_over_the_positions": [
            (_PICKED, "rows, right = logits.log_softmax(dim=1)[scored], labels[scored]"),
            (_LARGEST, ""),
            (_LOG_P, "log_p = rows"),
        ],
        "shifted_again": [
            (
                "scored = labels != -100",
                "logits, labels = logits[:, :-1], labels[:, 1:]\n    scored = labels != -100",
            )
        ],
        "skips_label_0": [("scored = labels != -100", "scored = labels > 0")],
        "minus_100_as_an_index": [(_PICKED, _EVERY_PLACE)],
        "gathers_at_minus_100": [
            (_PICKED, _EVERY_PLACE),
            (_LOSSES, "losses = -log_p.gather(-1, right[:, None])"),
        ],
    },
    "14.2": {
        "wrong_tokens_alone": [
            (_SPREAD, "spread = (-log_p.sum(dim=-1) - right) / (log_p.shape[-1] - 1)")
        ],
        "right_token_loses_its_share": [
            (_SPREAD, "spread = (-log_p.sum(dim=-1) - right) / log_p.shape[-1]")
        ],
        "adds_without_taking_away": [(_MIXED, "losses = right + smoothing * spread")],
        "nothing_is_spread": [(_MIXED, "losses = (1 - smoothing) * right")],
        "weights_swapped": [(_MIXED, "losses = smoothing * right + (1 - smoothing) * spread")],
        "each_token_gets_all_of_it": [(_SPREAD, "spread = -log_p.sum(dim=-1)")],
        "not_smoothed": [(_MIXED, "losses = right")],
        "always_a_tenth": [(_MIXED, "losses = 0.9 * right + 0.1 * spread")],
        "each_wrong_token_gets_all_of_it": [
            (_SPREAD, "spread = -log_p.sum(dim=-1) - right"),
        ],
        "logarithm_of_softmax": [(_LOG_SOFTMAX, "log_p = logits[scored].softmax(dim=-1).log()")],
        "exponentials_overflow": [
            (
                _LOG_SOFTMAX,
                "p = logits[scored].exp()\n    log_p = (p / p.sum(dim=-1, keepdim=True)).log()",
            )
        ],
        "exponentials_overflow_to_infinity": [
            (
                _LOG_SOFTMAX,
                "rows = logits[scored]\n"
                "    log_p = rows - rows.exp().sum(dim=-1, keepdim=True).log()",
            )
        ],
        "every_label_at_every_place": [
            ("-log_p[torch.arange(len(log_p)), labels[scored]]", "-log_p[:, labels[scored]]")
        ],
        "skips_label_0": [("scored = labels != -100", "scored = labels > 0")],
        "predictions_smoothed": [
            (
                _MIXED,
                "losses = -((1 - smoothing) * (-right).exp() + smoothing / log_p.shape[-1]).log()",
            )
        ],
        "padding_is_smoothed": [
            (_SPREAD, _OVER_ALL),
            (_MIXED, "losses = (1 - smoothing) * right.mean() + smoothing * spread"),
        ],
        "padding_is_smoothed_and_counted": [
            (_SPREAD, _OVER_ALL),
            (_MIXED, "losses = (1 - smoothing) * right.sum() + smoothing * spread.sum()"),
            (_MEAN, "return losses / len(labels)"),
        ],
        "padding_as_token_0": [
            ("scored = labels != -100", "scored = labels > -101"),
            ("labels[scored]]", "labels.clamp(min=0)]"),
        ],
        "mean_over_the_vocabulary": [(_MEAN, "return losses.mean() / logits.shape[-1]")],
        "padding_is_counted": [(_MEAN, "return losses.sum() / len(labels)")],
        "sum_of_the_losses": [(_MEAN, "return losses.sum()")],
        "divergence_in_place_of_cross_entropy": [
            (
                "    losses = ",
                "    target = torch.full(log_p.shape, smoothing / log_p.shape[-1])\n"
                "    target[torch.arange(len(log_p)), labels[scored]] += 1 - smoothing\n"
                "    losses = torch.xlogy(target, target).sum(-1) + ",
            )
        ],
        "bits": [(_MEAN, "return losses.mean() / torch.log(torch.tensor(2.0))")],
        "opposite_sign": [(_MEAN, "return -losses.mean()")],
    },
    "14.3": {
        "mean_of_each_part": [(_SHARE, f"shares.append(total / {_OWN})")],
        "mean_of_each_part_without_a_division_by_0": [
            (_SHARE, f"shares.append(total / {_OWN}.clamp(min=1))")
        ],
        "mean_of_means": [(_SHARE, f"shares.append(total / {_OWN} / len(parts))")],
        "mean_of_means_without_a_division_by_0": [
            (_SHARE, f"shares.append(total / {_OWN}.clamp(min=1) / len(parts))")
        ],
        "mean_of_the_means_of_scored_parts": [
            (_SHARE, f"shares.append(total / {_OWN}.clamp(min=1) / filled)"),
            (_EMPTY, f"{_EMPTY}    filled = sum((labels != -100).any() for _, labels in parts)\n"),
        ],
        "sums": [(_SHARE, "shares.append(total)")],
        "divided_by_the_parts": [(_SHARE, "shares.append(total / len(parts))")],
        "divided_by_the_rows": [(_COUNT, f"count = {_ROWS}")],
        "counts_padding": [(_COUNT, "count = sum(labels.numel() for _, labels in parts)")],
        "skips_label_0": [
            (_COUNT, "count = sum((labels > 0).sum() for _, labels in parts)"),
            (_TOTAL, "total = losses[labels > 0].sum()"),
        ],
        "losses_that_are_not_0": [
            (
                _COUNT,
                "count = sum((losses * (labels != -100) != 0).sum() for losses, labels in parts)",
            )
        ],
        "part_left_out": [
            (_TOTAL, f"if (labels == -100).all():\n            continue\n        {_TOTAL}")
        ],
        "added_up_so_far": [
            (_EMPTY, "    shares, total = [], 0\n"),
            (_TOTAL, "total = total + losses[labels != -100].sum()"),
        ],
        "adds_up_padding": [
            (_COUNT, "count = sum(labels.numel() for _, labels in parts)"),
            (_TOTAL, "total = losses.sum()"),
        ],
        "last_count": [(_SHARE, "shares.append(total / (parts[-1][1] != -100).sum())")],
        "first_count": [(_SHARE, "shares.append(total / (parts[0][1] != -100).sum())")],
        "count_so_far": [
            (_COUNT, "count = 0"),
            (_TOTAL, f"{_TOTAL}\n        count = count + {_OWN}"),
        ],
        "means_weighted_by_rows": [
            (_SHARE, f"shares.append(total / {_OWN} * len(labels) / rows)"),
            (_EMPTY, f"{_EMPTY}    rows = {_ROWS}\n"),
        ],
        "means_weighted_by_rows_without_a_division_by_0": [
            (_SHARE, f"shares.append(total / {_OWN}.clamp(min=1) * len(labels) / rows)"),
            (_EMPTY, f"{_EMPTY}    rows = {_ROWS}\n"),
        ],
        "nothing_times_nan": [(_SHARE, f"shares.append(total / {_OWN} * ({_OWN} / count))")],
        "one_number": [("return shares", "return sum(shares)")],
    },
    "14.4": {
        "most_probable_token": [(_SUM, _AMONG.format("logits.argmax(-1)"))],
        "detached": [("probabilities = logits", "probabilities = logits.detach()")],
        "penalises_what_is_read": [(_SUM, _AMONG.format("read"))],
        "penalises_the_labels": [(_SUM, _AMONG.format("labels.clamp(min=0)"))],
        "sums_logits": [(_P, "logits")],
        "sums_log_probabilities": [(_P, "logits.log_softmax(dim=-1)")],
        "sigmoid": [(_P, "logits.sigmoid()")],
        "skips_label_0": [("scored = labels != -100", "scored = labels > 0")],
        "reads_the_labels": [
            (_FORBIDDEN, "forbidden = never[labels.clamp(min=0)].cummax(dim=1).values")
        ],
        "scores_padding": [(_MASS, "return mass.mean()")],
        "divides_by_padding": [(_MASS, "return mass[scored].sum() / scored.numel()")],
        "sum_over_positions": [(_MASS, "return mass[scored].sum()")],
        "mean_of_row_means": [(_MASS, "return ((mass * scored).sum(1) / scored.sum(1)).mean()")],
        "mean_over_the_vocabulary": [(_SUM, _SUM.replace(".sum(dim=-1)", ".mean(dim=-1)"))],
        "mean_over_the_forbidden": [(_SUM, f"{_SUM} / forbidden.sum(dim=-1).clamp(min=1)")],
        "likeliest_forbidden_token_alone": [(_SUM, _SUM.replace(".sum(", ".amax("))],
        "weighted": [(_MASS, "return 0.05 * mass[scored].mean()")],
        "opposite_sign": [(_MASS, "return -mass[scored].mean()")],
        "forbids_what_was_read": [
            (
                _FORBIDDEN,
                "itself = read[..., None] == torch.arange(len(never))\n"
                "    forbidden = itself.cummax(dim=1).values",
            )
        ],
        "last_token_alone": [(_FORBIDDEN, "forbidden = never[read]")],
        "one_token_late": [
            (
                _FORBIDDEN,
                "forbidden = never[read].cummax(dim=1).values.roll(1, 1)\n"
                "    forbidden[:, 0] = False",
            )
        ],
        "reads_ahead": [(_FORBIDDEN, "forbidden = never[read].any(dim=1, keepdim=True)")],
        "reads_the_target": [(_FORBIDDEN, f"{_FORBIDDEN} | never[labels.clamp(min=0)]")],
        "counts_a_token_twice": [(_FORBIDDEN, "forbidden = never[read].cumsum(dim=1)")],
        "penalises_what_is_allowed": [
            (_FORBIDDEN, "forbidden = ~never[read].cummax(dim=1).values")
        ],
    },
    "14.5": {
        "own_counts": [(_DIVIDED, "mean = term.total / term.count")],
        "forgets_the_weights": [(_WEIGHTED, "total = total + mean")],
        "weights_twice": [(_WEIGHTED, "total = total + term.weight**2 * mean")],
        "all_by_tokens": [(_DIVIDED, 'mean = term.total / counts["token"]')],
        "all_by_rows": [(_DIVIDED, 'mean = term.total / counts["row"]')],
        "tokens_and_rows_swapped": [
            (_DIVIDED, 'mean = term.total / counts["row" if term.per == "token" else "token"]')
        ],
        "kind_guessed_from_the_name": [
            (_DIVIDED, 'mean = term.total / counts["row" if term.name == "age" else "token"]')
        ],
        "heads_by_rows": [
            (
                _DIVIDED,
                'mean = term.total / counts["token" if term.name == "language_model" else "row"]',
            )
        ],
        "sums_not_divided": [(_DIVIDED, "mean = term.total")],
        "first_term_alone": [(_EACH, "for term in terms[:1]:")],
        "last_term_alone": [(_EACH, "for term in terms[-1:]:")],
        "first_term_missing": [(_EACH, "for term in terms[1:]:")],
        "last_term_missing": [(_EACH, "for term in terms[:-1]:")],
        "weight_of_the_first_ignored": [
            (_WEIGHTED, "total = total + (1 if term is terms[0] else term.weight) * mean")
        ],
        "mean_of_the_terms": [(_RETURN, "return total / len(terms)\n")],
        "divided_by_the_weights": [
            (_RETURN, "return total / sum(term.weight for term in terms)\n")
        ],
        "one_count_for_all": [(_DIVIDED, "mean = term.total / sum(counts.values())")],
    },
}
