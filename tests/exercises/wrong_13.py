"""Lesson 13: each misconception as a change to the worked answer."""

_LAST = "last = real.sum(dim=1) - 1"
_STATE = "return states[rows, last]"
_MASKED = "(states * real[..., None])"
_REACHED = "reached = ages[:, None] >= begins"
_NUMBER = "return reached.sum(dim=1)"
_UP_TO_90 = """edges = [0, *bounds, 90]
    numbers = torch.zeros(len(ages), dtype=torch.long)
    for number, (low, high) in enumerate(zip(edges, edges[1:])):
        numbers[(ages >= low) & (ages < high)] = number
    return numbers"""
_ANSWERS = "answers = logits[:, n_prompts:]"
_SCORED = "scored = labels != -100"
_TRUTH = "truth = classes[:, None].expand(scored.shape)"
_TOTAL = 'total = cross_entropy(answers, truth, reduction="sum")'
_COUNT = "return total, scored.sum()"
_LOSSES = """losses = torch.zeros(labels.shape)
    losses[scored] = cross_entropy(answers, truth, reduction="none")
    lengths = scored.sum(1)
    """
_PICK = "answers, truth = answers[scored], truth[scored]"
_IGNORE = "truth = truth.masked_fill(~scored, -100)"
_OTHER = "other = read(other_prompts, embeddings)"
_LEAK = "leak = (own - other).norm(dim=-1)"
_SUMS = "sums = embeddings.cumsum(dim=1)"
_FOUND = "return leak, sums / counts[:, None]"
_SPREAD = "statistics.stdev(found)"
_DIFFERENCE = "difference = abs(mean[weight] - mean[0.0])"
_SPREADS = "spread[weight] + spread[0.0]"


def _against(other: str) -> list[tuple[str, str]]:
    """Compare with another weight than 0, which this expression names."""
    return [
        (_DIFFERENCE, f"other = {other}\n        " + _DIFFERENCE.replace("0.0", "other")),
        (_SPREADS, _SPREADS.replace("0.0", "other")),
    ]


WRONG = {
    "13.1": {
        "last_column": [(_STATE, "return states[:, -1]")],
        "count_is_no_index": [(_LAST, "last = real.sum(dim=1)")],
        "first_padding": [(_LAST, "last = real.int().argmin(dim=1)")],
        "first_token": [(_LAST, "last = real.int().argmax(dim=1)")],
        "length_of_the_first_row": [(_STATE, "return states[:, last[0]]")],
        "length_of_the_longest_row": [(_STATE, "return states[:, last.max()]")],
        "length_of_the_shortest_row": [(_STATE, "return states[:, last.min()]")],
        "count_kept_in_the_row": [(_LAST, "last = real.sum(dim=1).clamp(max=real.shape[1] - 1)")],
        "one_before_the_last": [(_LAST, "last = real.sum(dim=1) - 2")],
        "every_row_at_every_place": [(_STATE, "return states[:, last]")],
        "keeps_the_axis": [(_STATE, "return states[rows, last].unsqueeze(1)")],
        "mean_of_the_tokens": [(_STATE, f"return {_MASKED}.sum(1) / (last + 1)[:, None]")],
        "sum_of_the_tokens": [(_STATE, f"return {_MASKED}.sum(1)")],
        "last_column_masked": [(_STATE, f"return {_MASKED}[:, -1]")],
    },
    "13.2": {
        "bound_belongs_below": [(">= begins", "> begins")],
        "counts_from_one": [(_NUMBER, "return 1 + reached.sum(dim=1)")],
        "no_bracket_below_the_first_bound": [(_NUMBER, "return reached.sum(dim=1) - 1")],
        "ends_at_90": [(_NUMBER, _UP_TO_90)],
        "two_youngest_in_one": [(_NUMBER, "return (reached.sum(dim=1) - 1).clamp(min=0)")],
        "bracket_for_90": [("torch.tensor(bounds)", "torch.tensor([*bounds, 90])")],
        "zero_above_the_last_bound": [(_NUMBER, "return (~reached).int().argmax(dim=1)")],
        "no_bracket_above_the_last_bound": [
            (_NUMBER, "return reached.sum(dim=1).clamp(max=len(bounds) - 1)")
        ],
        "rounds_the_ages": [("ages[:, None]", "ages.round()[:, None]")],
        "equal_widths": [(_NUMBER, "return (ages // (90 / (len(bounds) + 1))).long()")],
        "counts_bounds_above": [(">= begins", "< begins")],
        "returns_the_bound": [(_NUMBER, "return torch.tensor([0, *bounds])[reached.sum(dim=1)]")],
        "one_hot": [
            (
                _NUMBER,
                "return torch.nn.functional.one_hot(reached.sum(dim=1), len(bounds) + 1)",
            )
        ],
        "floats": [(_NUMBER, "return reached.float().sum(dim=1)")],
        "list_for_a_tensor": [(_NUMBER, "return reached.sum(dim=1).tolist()")],
    },
    "13.3": {
        "prompts_cut_at_the_end": [(_ANSWERS, "answers = logits[:, :labels.shape[1]]")],
        "n_prompts_cut_at_the_end": [(_ANSWERS, "answers = logits[:, :-n_prompts]")],
        "prompts_not_cut": [(_ANSWERS, "answers = logits")],
        "one_prompt_cut": [(_ANSWERS, "answers = logits[:, 1:]")],
        "prompts_scored": [
            (_ANSWERS, "answers = logits"),
            (
                _SCORED,
                "scored = torch.nn.functional.pad(labels, (n_prompts, 0)) != -100",
            ),
        ],
        "padding_scored": [(_SCORED, "scored = torch.ones_like(labels).bool()")],
        "padding_by_its_id": [(_SCORED, "scored = labels != 0")],
        "label_0_left_out": [(_SCORED, "scored = labels > 0")],
        "padding_in_the_sum": [
            (_PICK, ""),
            ("cross_entropy(answers, truth,", "cross_entropy(answers.transpose(1, 2), truth,"),
        ],
        "logits_of_padding_zeroed": [
            (_PICK, "answers = (answers * scored[..., None]).transpose(1, 2)")
        ],
        "padding_in_the_count": [(_COUNT, "return total, labels.numel()")],
        "counts_rows": [(_COUNT, "return total, len(labels)")],
        "count_first": [(_COUNT, "return scored.sum(), total")],
        "means_of_rows": [
            (_COUNT, _LOSSES + "return (losses.sum(1) / lengths).sum(), len(labels)")
        ],
        "mean_for_sum": [('reduction="sum"', 'reduction="mean"')],
        "last_token_only": [
            (
                _COUNT,
                _LOSSES
                + "return losses[torch.arange(len(labels)), lengths - 1].sum(), len(labels)",
            )
        ],
        "classes_run_down_the_batch": [
            (_TRUTH, "truth = classes.repeat(labels.shape[1]).view(labels.shape)")
        ],
        "classes_along_the_columns": [(_TRUTH, "truth = classes.expand(scored.shape)")],
        "classes_on_the_last_axis": [(_PICK, _IGNORE)],
        "reshaped_for_transposed": [
            (_PICK, f"{_IGNORE}\n    answers = answers.reshape(len(labels), -1, labels.shape[1])")
        ],
        "codes_only": [(_SCORED, "scored = labels >= 7")],
        "class_0_ignored": [(_SCORED, "scored = (labels != -100) & (classes[:, None] != 0)")],
        "softmax_twice": [("cross_entropy(answers,", "cross_entropy(answers.softmax(-1),")],
        "no_softmax": [
            (_TOTAL, 'total = torch.nn.functional.nll_loss(answers, truth, reduction="sum")')
        ],
        "log_of_softmax": [
            (
                _TOTAL,
                "chances = answers.softmax(-1).log()\n"
                '    total = torch.nn.functional.nll_loss(chances, truth, reduction="sum")',
            )
        ],
    },
    "13.4": {
        "states_for_features": [(_FOUND, "return leak, own.detach()")],
        "states_without_prompts": [
            (_FOUND, "return leak, read(torch.zeros_like(prompts), embeddings)")
        ],
        "states_under_other_prompts": [(_FOUND, "return leak, other")],
        "mean_of_both_readings": [(_FOUND, "return leak, (own + other) / 2")],
        "subtracts_the_prompts": [(_FOUND, "return leak, own - prompts.mean(1, keepdim=True)")],
        "prompts_in_the_mean": [
            (_SUMS, "sums = embeddings.cumsum(dim=1) + prompts.sum(1, keepdim=True)"),
            ("/ counts[", "/ (counts + prompts.shape[1])["),
        ],
        "reads_the_future": [
            (_FOUND, "return leak, embeddings.mean(1, keepdim=True).expand_as(embeddings)")
        ],
        "each_token_alone": [(_FOUND, "return leak, embeddings")],
        "sum_for_mean": [(_FOUND, "return leak, sums")],
        "divides_by_the_length": [(_FOUND, "return leak, sums / embeddings.shape[1]")],
        "tokens_before": [
            (_SUMS, "sums = embeddings.cumsum(dim=1) - embeddings"),
            ("/ counts[", "/ (counts - 1).clamp(min=1)["),
        ],
        "along_the_batch": [(_SUMS, "sums = embeddings.cumsum(dim=0)")],
        "along_the_width": [(_SUMS, "sums = embeddings.cumsum(dim=2)")],
        "counts_along_the_width": [("counts[:, None]", "counts")],
        "counts_from_zero": [
            ("torch.arange(1, embeddings.shape[1] + 1)", "torch.arange(embeddings.shape[1])")
        ],
        "leak_against_zero_prompts": [
            (_OTHER, "other = read(torch.zeros_like(prompts), embeddings)")
        ],
        "exchanges_the_codes": [(_OTHER, "other = read(prompts, embeddings.roll(1, 0))")],
        "difference_of_norms": [(_LEAK, "leak = own.norm(dim=-1) - other.norm(dim=-1)")],
        "absolute_difference_of_norms": [
            (_LEAK, "leak = (own.norm(dim=-1) - other.norm(dim=-1)).abs()")
        ],
        "relative_leak": [(_LEAK, f"{_LEAK} / own.norm(dim=-1)")],
        "vectors_for_norms": [(_LEAK, "leak = own - other")],
        "squared_norm": [(_LEAK, "leak = (own - other).square().sum(dim=-1)")],
        "sum_of_absolute_values": [(_LEAK, "leak = (own - other).abs().sum(dim=-1)")],
        "mean_of_absolute_values": [(_LEAK, "leak = (own - other).abs().mean(dim=-1)")],
        "norm_along_the_tokens": [(_LEAK, "leak = (own - other).norm(dim=1)")],
        "one_number_a_record": [(_LEAK, "leak = (own - other).norm(dim=(1, 2))")],
        "swapped": [(_FOUND, "return sums / counts[:, None], leak")],
    },
    "13.5": {
        "divides_by_n": [(_SPREAD, "statistics.pstdev(found)")],
        "range_for_spread": [(_SPREAD, "max(found) - min(found)")],
        "variance_for_spread": [(_SPREAD, "statistics.variance(found)")],
        "standard_error_for_spread": [(_SPREAD, "statistics.stdev(found) / len(found) ** 0.5")],
        "median_for_mean": [("statistics.mean(found)", "statistics.median(found)")],
        "any_difference": [(_SPREADS, "0")],
        "own_spread_only": [(_SPREADS, "spread[weight]")],
        "spread_of_weight_0_only": [(_SPREADS, "spread[0.0]")],
        "larger_of_the_spreads": [(_SPREADS, "max(spread[weight], spread[0.0])")],
        "root_of_the_squares": [(_SPREADS, "(spread[weight] ** 2 + spread[0.0] ** 2) ** 0.5")],
        "increases_only": [(_DIFFERENCE, "difference = mean[weight] - mean[0.0]")],
        "decreases_only": [(_DIFFERENCE, "difference = mean[0.0] - mean[weight]")],
        "as_large_as": [("difference > spread", "difference >= spread")],
        "first_run_is_the_baseline": _against("runs[0][0]"),
        "compares_with_the_weight_before": _against(
            "max((w for w in values if w < weight), default=weight)"
        ),
        "compares_with_the_mean_of_all": [
            (_DIFFERENCE, "difference = abs(mean[weight] - statistics.mean(r[2] for r in runs))")
        ],
    },
}
