"""Lesson 17: each misconception as a change to the worked answer."""

_COVERAGE = "return attention.cumsum(dim=0) - attention"
_ZEROS = "torch.cat([torch.zeros_like(attention[:1]), {}])"
_STEPS = "torch.arange(len(attention))[:, None]"

_BEFORE = "before = attention.cumsum(dim=1) - attention"
_MINIMUM = "torch.minimum(attention, before)"
_SUM = ".sum(dim=-1)"
_RETURN = "return (overlap * scored).sum(), scored.sum()"
_TOTAL = "(overlap * scored).sum(),"
_COUNT = ", scored.sum()"

_PENALTY = "((5 + n) / 6) ** alpha"
_SCORE = "scores.append(log_p / penalty)"
_BEST = "scores.index(max(scores))"
_LOG_P = "log_p, n = sum(tokens), len(tokens)"

_LOOP = "range(len(tokens) - 2)"
_SAME = "if tokens[i : i + 2] == tokens[-2:]:"
_ADD = "blocked.add(tokens[i + 2])"
_BLOCKED = "return blocked - {2}"

_TOTALS = "totals = scores[:, :, None] + log_probs"
_TOPK = "best, places = totals.flatten(1).topk(beams, dim=1)"
_PARTS = "return best, places // vocab, places % vocab"
_EACH_BEST = "best, tokens = totals.max(dim=-1)"
_ALL_TOGETHER = (
    "best, places = totals.flatten().topk(len(totals) * beams)\n"
    "    best, places = best.reshape(-1, beams), places.reshape(-1, beams)"
)

_LCS = "common = best[n][m]"
_GUARD = "    if common == 0:\n        return 0.0\n"
_F1 = "return 2 * precision * recall / (precision + recall)"
_EQUAL = "best[i + 1][j + 1] = best[i][j] + 1"
_GREEDY = """common = at = 0
    for word in {}:
        if word in {}[at:]:
            at = {}.index(word, at) + 1
            common += 1"""
_DIFFLIB = "__import__('difflib').SequenceMatcher(None, summary, reference)"
_PRECISION = "precision, recall = common / n, common / m"

WRONG = {
    "17.1": {
        "includes_this_step": [(_COVERAGE, "return attention.cumsum(dim=0)")],
        "mean_of_the_steps": [
            (
                _COVERAGE,
                f"return (attention.cumsum(dim=0) - attention) / {_STEPS}.clamp(min=1)",
            )
        ],
        "mean_with_this_step": [
            (_COVERAGE, f"return attention.cumsum(dim=0) / ({_STEPS} + 1)"),
        ],
        "maximum_of_the_steps": [
            (_COVERAGE, f"return {_ZEROS.format('attention.cummax(dim=0).values[:-1]')}")
        ],
        "maximum_with_this_step": [(_COVERAGE, "return attention.cummax(dim=0).values")],
        "previous_step_alone": [(_COVERAGE, f"return {_ZEROS.format('attention[:-1]')}")],
        "along_the_source": [(_COVERAGE, _COVERAGE.replace("dim=0", "dim=1"))],
        "along_the_source_with_the_word": [(_COVERAGE, "return attention.cumsum(dim=1)")],
        "all_steps": [(_COVERAGE, "return attention.sum(dim=0).repeat(len(attention), 1)")],
        "all_other_steps": [(_COVERAGE, "return attention.sum(dim=0) - attention")],
        "steps_after": [(_COVERAGE, "return attention.sum(dim=0) - attention.cumsum(dim=0)")],
        "total_in_the_first_row": [(_COVERAGE, "return attention.cumsum(dim=0).roll(1, 0)")],
        "one_row_too_many": [(_COVERAGE, f"return {_ZEROS.format('attention.cumsum(dim=0)')}")],
        "first_row_missing": [(_COVERAGE, "return attention.cumsum(dim=0)[:-1]")],
        "cut_at_1": [
            (_COVERAGE, "return (attention.cumsum(dim=0) - attention).clamp(max=1)"),
        ],
    },
    "17.2": {
        "product_for_minimum": [(_MINIMUM, "(attention * before)")],
        "maximum_for_minimum": [(_MINIMUM, "torch.maximum(attention, before)")],
        "coverage_after_the_step": [(_BEFORE, "before = attention.cumsum(dim=1)")],
        "coverage_alone": [(_MINIMUM, "before")],
        "difference": [(_MINIMUM, "(attention - before).abs()")],
        "padding_added_up": [(_TOTAL, "overlap.sum(),")],
        "padding_counted": [(_COUNT, ", scored.numel()")],
        "padding_added_up_and_counted": [
            (_TOTAL, "overlap.sum(),"),
            (_COUNT, ", scored.numel()"),
        ],
        "mean_over_the_source": [(_SUM, ".mean(dim=-1)")],
        "counts_words_of_the_note": [(_COUNT, ", scored.sum() * attention.shape[-1]")],
        "mean_for_the_sum": [(_TOTAL, "(overlap * scored).sum() / scored.sum(),")],
        "largest_overlap_alone": [(_SUM, ".amax(dim=-1)")],
        "previous_step_alone": [
            (_BEFORE, "before = attention.roll(1, 1)\n    before[:, 0] = 0"),
        ],
        "mean_coverage": [
            (
                _BEFORE,
                f"{_BEFORE}\n"
                "    steps = torch.arange(attention.shape[1]).clamp(min=1)\n"
                "    before = before / steps[:, None]",
            )
        ],
        "coverage_along_the_source": [(_BEFORE, _BEFORE.replace("dim=1", "dim=2"))],
        "coverage_along_the_batch": [(_BEFORE, _BEFORE.replace("dim=1", "dim=0"))],
        "first_steps_not_counted": [(_COUNT, ", scored[:, 1:].sum()")],
        "steps_without_cost_not_counted": [(_COUNT, ", ((overlap > 0) & scored).sum()")],
        "rows_counted": [(_COUNT, ", len(scored)")],
        "opposite_sign": [(_TOTAL, "-(overlap * scored).sum(),")],
        "count_first": [(_RETURN, "return scored.sum(), (overlap * scored).sum()")],
    },
    "17.3": {
        "penalty_to_the_power_of_the_length": [(_SCORE, "scores.append(log_p / penalty**n)")],
        "multiplies": [(_SCORE, "scores.append(log_p * penalty)")],
        "smallest_score": [(_BEST, "scores.index(min(scores))")],
        "positive_scores_and_the_largest": [(_SCORE, "scores.append(-log_p / penalty)")],
        "positive_scores": [
            (_SCORE, "scores.append(-log_p / penalty)"),
            (_BEST, "scores.index(min(scores))"),
        ],
        "chosen_by_log_probability": [
            (_BEST, "max(range(len(scores)), key=lambda i: sum(hypotheses[i]))")
        ],
        "alpha_on_the_six": [(_PENALTY, "(5 + n) / 6**alpha")],
        "alpha_on_the_top": [(_PENALTY, "(5 + n) ** alpha / 6")],
        "alpha_on_the_length": [(_PENALTY, "(5 + n**alpha) / 6")],
        "alpha_as_a_factor": [(_PENALTY, "(5 + n) / 6 * alpha")],
        "alpha_left_out": [(_PENALTY, "(5 + n) / 6")],
        "six_apart": [(_PENALTY, "((5 + n) / 5 + 1) ** alpha")],
        "rounded_down": [(_PENALTY, "((5 + n) // 6) ** alpha")],
        "length_without_the_end": [(_LOG_P, "log_p, n = sum(tokens), len(tokens) - 1")],
        "length_with_the_start": [(_LOG_P, "log_p, n = sum(tokens), len(tokens) + 1")],
        "divided_by_the_length": [(_PENALTY, "n**alpha")],
        "mean_of_the_tokens": [(_PENALTY, "n")],
        "place_from_1": [(_BEST, f"{_BEST} + 1")],
        "no_penalty": [(_SCORE, "scores.append(log_p)")],
        "penalty_subtracted": [(_SCORE, "scores.append(log_p - penalty)")],
        "probability_divided": [
            (_SCORE, "scores.append(float(torch.tensor(log_p).double().exp()) / penalty)")
        ],
        "logarithms_multiplied": [
            (_LOG_P, "log_p, n = float(torch.tensor(tokens).double().prod()), len(tokens)")
        ],
        "last_token_alone": [(_LOG_P, "log_p, n = tokens[-1], len(tokens)")],
    },
    "17.4": {
        "bigrams": [
            (_LOOP, "range(len(tokens) - 1)"),
            (_SAME, "if tokens[i] == tokens[-1]:"),
            (_ADD, "blocked.add(tokens[i + 1])"),
        ],
        "runs_of_four": [
            (_LOOP, "range(len(tokens) - 3)"),
            (_SAME, "if tokens[i : i + 3] == tokens[-3:]:"),
            (_ADD, "blocked.add(tokens[i + 3])"),
        ],
        "latest_occurrence_alone": [(_ADD, "blocked = {tokens[i + 2]}")],
        "first_occurrence_alone": [(_ADD, "blocked = blocked or {tokens[i + 2]}")],
        "blocks_the_end": [(_BLOCKED, "return blocked")],
        "every_third_token": [(_SAME, "if True:")],
        "every_token": [(_BLOCKED, "return set(tokens) - {2}")],
        "crashes_on_short_ones": [
            (_LOOP, f"{_LOOP} if [tokens[-2], tokens[-1]] else ()"),
        ],
        "crashes_on_nothing": [
            (_LOOP, f"{_LOOP} if [tokens[-1]] else ()"),
        ],
        "in_steps_of_three": [(_LOOP, "range(0, len(tokens) - 2, 3)")],
        "newest_trigram_missing": [(_LOOP, "range(len(tokens) - 3)")],
        "in_any_order": [(_SAME, "if sorted(tokens[i : i + 2]) == sorted(tokens[-2:]):")],
        "first_token_of_the_run": [(_ADD, "blocked.add(tokens[i])")],
        "one_of_the_two_compared": [(_SAME, "if tokens[i + 1] == tokens[-1]:")],
        "after_the_fact": [
            (
                _SAME,
                "if any(tokens[i : i + 3] == tokens[j : j + 3] for j in range(i)):",
            )
        ],
        "everything_after_a_repetition": [
            (
                _BLOCKED,
                "grams = list(zip(tokens, tokens[1:], tokens[2:]))\n"
                "    if len(set(grams)) < len(grams):\n"
                "        blocked = set(tokens)\n"
                "    return blocked - {2}",
            )
        ],
        "end_taken_away_first": [
            ("blocked = set()", "blocked, tokens = set(), [t for t in tokens if t != 2]"),
        ],
        "no_special_token": [(_BLOCKED, "return blocked - {0, 1, 2, 3}")],
        "digits_alike": [
            (
                _SAME,
                'if "".join(map(str, tokens[i : i + 2])) == "".join(map(str, tokens[-2:])):',
            )
        ],
        "found_in_text": [
            (
                _SAME,
                "if f\"{tokens[i]} {tokens[i + 1]}\".endswith(' '.join(map(str, tokens[-2:]))):",
            ),
        ],
        "only_the_second_repetition": [
            ("blocked = set()", "blocked, once = set(), set()"),
            (
                _ADD,
                "(blocked if tokens[i + 2] in once else once).add(tokens[i + 2])",
            ),
        ],
    },
    "17.5": {
        "each_beam_its_best": [
            (_TOPK, _EACH_BEST),
            (_PARTS, "return best, torch.arange(beams).expand(len(totals), beams), tokens"),
        ],
        "each_beam_its_best_sorted": [
            (_TOPK, f"{_EACH_BEST}\n    best, order = best.sort(dim=1, descending=True)"),
            (_PARTS, "return best, order, tokens.gather(1, order)"),
        ],
        "first_beam_alone": [(_TOPK, _TOPK.replace("totals.flatten(1)", "totals[:, 0]"))],
        "best_beam_alone": [
            (
                _TOPK,
                "first = scores.argmax(1)\n"
                "    best, places = totals[torch.arange(len(totals)), first].topk(beams, dim=1)\n"
                "    places = places + first[:, None] * vocab",
            )
        ],
        "mixes_examples": [
            (_TOPK, _ALL_TOGETHER),
            (_PARTS, "return best, places // vocab % beams, places % vocab"),
        ],
        "mixes_examples_and_beams": [(_TOPK, _ALL_TOGETHER)],
        "one_choice_for_all": [
            (
                _TOPK,
                "places = totals[0].flatten().topk(beams).indices.expand(len(totals), beams)\n"
                "    best = totals.flatten(1).gather(1, places)",
            )
        ],
        "divided_by_the_beams": [(_PARTS, "return best, places // beams, places % beams")],
        "token_by_the_beams": [(_PARTS, "return best, places // vocab, places % beams")],
        "parent_by_the_beams": [(_PARTS, "return best, places // beams, places % vocab")],
        "parents_and_tokens_swapped": [(_PARTS, "return best, places % vocab, places // vocab")],
        "vocabulary_first": [(_PARTS, "return best, places % beams, places // beams")],
        "place_for_token": [(_PARTS, "return best, places // vocab, places")],
        "true_division": [(_PARTS, "return best, places / vocab, places % vocab")],
        "scores_never_added": [(_TOTALS, "totals = log_probs")],
        "scores_added_too_late": [
            (_TOTALS, "totals = log_probs"),
            (
                _PARTS,
                "best = best + scores.gather(1, places // vocab)\n    "
                "return best, places // vocab, places % vocab",
            ),
        ],
        "scores_added_by_place": [
            (_TOTALS, "totals = log_probs"),
            (_PARTS, "return best + scores, places // vocab, places % vocab"),
        ],
        "by_way_of_probabilities": [
            (_TOTALS, "totals = scores.exp()[:, :, None] * log_probs.exp()"),
            (_PARTS, "return best.log(), places // vocab, places % vocab"),
        ],
        "scores_not_in_the_result": [
            (
                _PARTS,
                "best = log_probs.flatten(1).gather(1, places)\n    "
                "return best, places // vocab, places % vocab",
            )
        ],
        "scores_multiplied": [(_TOTALS, "totals = scores[:, :, None] * log_probs")],
        "scores_along_the_vocabulary": [(_TOTALS, "totals = scores[:, None, :] + log_probs")],
        "minus_infinity_as_0": [
            (
                _TOTALS,
                "scores = scores.nan_to_num(neginf=0.0)\n    "
                "totals = scores[:, :, None] + log_probs",
            )
        ],
        "smallest": [(_TOPK, _TOPK.replace("dim=1", "dim=1, largest=False"))],
        "not_sorted": [
            (
                _TOPK,
                f"{_TOPK}\n"
                "    places = places.sort(dim=1).values\n"
                "    best = totals.flatten(1).gather(1, places)",
            )
        ],
        "no_token_twice": [
            (
                _TOPK,
                "most, parents = totals.max(dim=1)\n"
                "    best, tokens = most.topk(beams, dim=1)\n"
                "    places = parents.gather(1, tokens) * vocab + tokens",
            )
        ],
    },
    "17.6": {
        "longest_common_substring": [
            ("best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j])", "pass"),
            (_LCS, "common = max(max(row) for row in best)"),
        ],
        "overlap_of_sets": [
            (
                _LCS,
                "n, m = len(set(summary)), len(set(reference))\n"
                "    common = len(set(summary) & set(reference))",
            )
        ],
        "overlap_of_words": [
            (
                _LCS,
                "counts = [(summary.count(w), reference.count(w)) for w in set(summary)]\n"
                "    common = sum(map(min, counts))",
            )
        ],
        "overlap_of_pairs": [
            (
                _LCS,
                "one = list(zip(summary, summary[1:]))\n"
                "    other = list(zip(reference, reference[1:]))\n"
                "    n, m = len(one), len(other)\n"
                "    common = sum(min(one.count(p), other.count(p)) for p in set(one))",
            )
        ],
        "recall_alone": [(_F1, "return recall")],
        "precision_alone": [(_F1, "return precision")],
        "mean_of_both": [(_F1, "return (precision + recall) / 2")],
        "product_of_both": [(_F1, "return precision * recall")],
        "factor_2_missing": [(_F1, _F1.replace("2 * ", ""))],
        "shared_part_of_all": [(_F1, "return common / (n + m - common)")],
        "over_the_longer": [(_F1, "return common / max(n, m)")],
        "over_the_shorter": [(_F1, "return common / min(n, m)")],
        "length_alone": [(_F1, "return float(common)")],
        "fails_without_a_common_word": [(_GUARD, "")],
        "fails_without_a_common_word_in_two_texts": [
            ("if common == 0:", "if n == 0 or m == 0:"),
        ],
        "fails_on_an_empty_text": [
            ("    if common == 0:", f"    {_PRECISION}\n    if common == 0:"),
            (f"        return 0.0\n    {_PRECISION}\n", "        return 0.0\n"),
        ],
        "fails_on_an_empty_summary": [
            ("    if common == 0:", "    precision = common / n\n    if common == 0:"),
        ],
        "fails_on_an_empty_reference": [
            ("    if common == 0:", "    recall = common / m\n    if common == 0:"),
        ],
        "fails_on_two_empty_texts": [
            (_GUARD, ""),
            (_PRECISION, ""),
            (_F1, "return 2 * common / (n + m)"),
        ],
        "first_place_that_fits": [
            (_LCS, _GREEDY.format("summary", "reference", "reference")),
        ],
        "first_place_in_the_summary": [
            (_LCS, _GREEDY.format("reference", "summary", "summary")),
        ],
        "longest_run_first": [
            (_LCS, f"common = sum(b.size for b in {_DIFFLIB}.get_matching_blocks())")
        ],
        "ratio_of_difflib": [(_LCS, f"return {_DIFFLIB}.ratio()")],
        "two_empty_texts_alike": [
            (_GUARD, "    if common == 0:\n        return float(n + m == 0)\n")
        ],
        "one_row_for_all": [
            ("[[0] * (m + 1) for _ in range(n + 1)]", "[[0] * (m + 1)] * (n + 1)"),
        ],
        "from_the_start": [
            (
                _LCS,
                "common = 0\n"
                "    while common < min(n, m) and summary[common] == reference[common]:\n"
                "        common += 1",
            )
        ],
        "same_places": [
            (_LCS, "common = sum(a == b for a, b in zip(summary, reference))"),
        ],
        "word_used_twice": [
            (_EQUAL, "best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j]) + 1")
        ],
        "letters": [
            (
                "n, m = len(summary), len(reference)",
                'summary, reference = " ".join(summary), " ".join(reference)\n'
                "    n, m = len(summary), len(reference)",
            )
        ],
    },
}
