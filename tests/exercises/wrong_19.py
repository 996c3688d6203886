"""Lesson 19: each misconception as a change to the worked answer."""

_SCALE = "logits = logits / temperature"
_KTH = "values[:, -1:]"
_BELOW = "logits < smallest, -math.inf"
_SORT = "probs.sort(dim=-1, descending=True)"
_BEFORE = "before = likeliest.cumsum(dim=-1) - likeliest"
_DROP = "kept = likeliest.masked_fill(before >= p, 0.0)"
_BACK = "kept = torch.zeros_like(probs).scatter(-1, order, kept)"
_DRAWN = "return kept / kept.sum(dim=-1, keepdim=True)"
_PROBS = "probs = logits.softmax(dim=-1)"

_SHARES = "p, q = real / real.sum(), synthetic / synthetic.sum()"
_MEAN = "m = (p + q) / 2"
_ROOT = "return math.sqrt(divergence)"
_LOG = "np.log2(share[seen] / m[seen])"
_SIDES = "for share in (p, q):"
_SEEN = "seen = share > 0"
_HALF = "divergence += terms.sum() / 2"
_KL_ONLY = [
    (_SIDES, "for share in (p,):"),
    (_MEAN, "m = q"),
    (_HALF, "divergence += terms.sum()"),
]

_WHY = "why = icd9.why_impossible(code, age=age, sex=sex)"
_FLAG = "flags.append(why is not None)"
_CODES = "codes += flags"
_MINE = "mine.append(any(flags))"
_VISITS = "visits += mine"
_PEOPLE = "people.append(any(mine))"
_THREE = "return fmean(codes), fmean(visits), fmean(people)"
_WHO = "who = icd9.who_can_have(code)"
_HISTORY = "for visit in history:"

_GIVEN = "log_probs(visits[:t], visit)"
_OF_CODES = "of_codes += scores[:-1]"
_OF_VISITS = "of_visits.append(sum(scores))"
_PER_CODE = "per_code = math.exp(-fmean(of_codes))"
_PER_VISIT = "per_visit = math.exp(-fmean(of_visits))"
_BOTH = "return per_code, per_visit"
_LISTS = "of_codes, of_visits = [], []"
_PATIENTS = "for visits in patients:"

_NEAREST = "return distances.min(axis=1)"
_DIAGONAL = "np.fill_diagonal(distances, np.inf)"
_DISTANCES = "distances = 1 - shared / either"
_NEARER = "return ((own < other) + 0.5 * (own == other)).mean()"
_REAL_SIDE = "share_nearer(nearest(train, train, True), to_synthetic)"
_WRITTEN_SIDE = "share_nearer(of_synthetic, nearest(synthetic, train))"
_ACCURACY = "accuracy = (real_side + written_side) / 2"
_OTHERS = "others = nearest(held_out, synthetic)"
_AUROC = "auroc = share_nearer(to_synthetic[:, None], others)"
_ANSWER = "return accuracy, auroc"

_ABOVE = "above = low > floor"
_UNKNOWN = "if any(math.isnan(x) for x in (value, low, high, floor)):"
_INSIDE = "low <= floor <= high"
_BETTER = 'better != "near" and above == (better == "high")'
_KEPT = "verdicts[name] = said"
_GOOD = 'good = "at the floor", "better than the floor"'
_ALLOWED = "allowed = [verdicts.get(name) in good for name in names]"
_IF_FORBIDDEN = "if not allowed or not all(allowed):"


def _pair_ties(value: float) -> list[tuple[str, str]]:
    """Ties of the AUROC alone."""
    tie = "(to_synthetic[:, None] == others)"
    return [(_AUROC, f"auroc = ((to_synthetic[:, None] < others) + {value} * {tie}).mean()")]


def _side_ties(value: float) -> list[tuple[str, str]]:
    """Ties of the accuracy alone: the AUROC keeps its halves."""
    tie = "0.5 * (to_synthetic[:, None] == others)"
    return [
        (_NEARER, _NEARER.replace("0.5", str(value))),
        (_AUROC, f"auroc = ((to_synthetic[:, None] < others) + {tie}).mean()"),
    ]


def _held_against(floor: str, low: str = "low", high: str = "high") -> list[tuple[str, str]]:
    """Another interval, or another floor."""
    return [
        (_ABOVE, f"above = {low} > {floor}"),
        (_INSIDE, f"{low} <= {floor} <= {high}"),
    ]


def _asks(which: str, *, by_sides: bool = False) -> list[tuple[str, str]]:
    """Asks for nan in some numbers alone, and compares in one of two ways."""
    edits = [(_UNKNOWN, f"if any(math.isnan(x) for x in ({which})):")]
    return edits if by_sides else [*edits, (_INSIDE, "not (low > floor or high < floor)")]


WRONG = {
    "19.1": {
        "crossing_token_dropped": [
            (_DROP, _DROP.replace("before >= p", "before + likeliest > p"))
        ],
        "crossing_token_dropped_unless_first": [
            (
                _DROP,
                "too_far = before + likeliest > p\n    too_far[:, 0] = False\n    "
                "kept = likeliest.masked_fill(too_far, 0.0)",
            )
        ],
        "top_p_before_top_k": [
            (_SCALE, f"{_SCALE}\n    everything = logits.softmax(dim=-1)"),
            (
                _BEFORE,
                "every = everything.gather(-1, order)\n    before = every.cumsum(dim=-1) - every",
            ),
        ],
        "temperature_last": [
            (_SCALE, "pass"),
            (_DRAWN, "return (kept.log() / temperature).softmax(dim=-1)"),
        ],
        "temperature_multiplied": [(_SCALE, _SCALE.replace("/", "*"))],
        "temperature_ignored": [
            (_SCALE, "pass"),
            (_DRAWN, "kept = kept / temperature\n    " + _DRAWN),
        ],
        "unlikely_tokens_first": [(_SORT, "probs.sort(dim=-1)")],
        "not_sorted": [
            (f"likeliest, order = {_SORT}", "likeliest = probs"),
            (_BACK, "pass"),
        ],
        "left_in_sorted_order": [(_BACK, "pass")],
        "mask_left_in_sorted_order": [
            (_DROP, "kept = probs.masked_fill(before >= p, 0.0)"),
            (_BACK, "pass"),
        ],
        "one_token_beyond_p": [
            (
                _DROP,
                "too_far = before >= p\n    too_far[:, 1:] = too_far[:, :-1].clone()\n    "
                "kept = likeliest.masked_fill(too_far, 0.0)",
            )
        ],
        "sum_below_1": [(_DRAWN, "return kept")],
        "logit_0_for_dropped": [(_BELOW, "logits < smallest, 0.0")],
        "one_token_too_few": [(_BELOW, "logits <= smallest, -math.inf")],
        "one_token_too_many": [
            ("logits.topk(k, dim=-1).values[:, -1:]", "logits.topk(k + 1, dim=-1).values[:, -1:]")
        ],
        "one_threshold_for_all_rows": [("values[:, -1:]", "values.min()")],
        "p_is_what_is_dropped": [(_DROP, _DROP.replace("before >= p", "before >= 1 - p"))],
        "probabilities_of_at_least_p": [(_DROP, _DROP.replace("before >= p", "likeliest < p"))],
        "logits_returned": [(_DRAWN, "return torch.where(kept > 0, logits, -math.inf)")],
        "log_probabilities_returned": [
            (_DRAWN, "return (kept / kept.sum(dim=-1, keepdim=True)).log()")
        ],
    },
    "19.2": {
        "divergence": [(_ROOT, "return divergence")],
        "divergence_in_nats": [(_ROOT, "return divergence"), (_LOG, _LOG.replace("log2", "log"))],
        "natural_logarithm": [(_LOG, _LOG.replace("log2", "log"))],
        "base_10": [(_LOG, _LOG.replace("log2", "log10"))],
        "only_kullback_leibler": [*_KL_ONLY, (_ROOT, "return divergence")],
        "root_of_kullback_leibler": _KL_ONLY,
        "both_ways_without_the_mean": [
            (_LOG, "np.log2(share[seen] / (p + q - share)[seen])"),
            (_MEAN, "pass"),
        ],
        "real_side_alone": [
            (_SIDES, "for share in (p,):"),
            (_HALF, "divergence += terms.sum()"),
        ],
        "sum_for_mean": [(_HALF, "divergence += terms.sum()")],
        "mean_of_roots": [
            (_HALF, "divergence += math.sqrt(terms.sum()) / 2"),
            (_ROOT, "return divergence"),
        ],
        "sum_in_the_middle": [(_MEAN, "m = p + q")],
        "codes_of_the_real_cohort_alone": [(_SEEN, "seen = (share > 0) & (p > 0)")],
        "counts_not_shares": [(_SHARES, "p, q = real, synthetic")],
        "pooled_mean": [(_MEAN, "m = (real + synthetic) / (real.sum() + synthetic.sum())")],
        "zero_times_logarithm_of_zero": [(_SEEN, "seen = slice(None)")],
        "common_codes_alone": [
            (
                _SHARES,
                "both = (real > 0) & (synthetic > 0)\n    real, synthetic = real[both], "
                f"synthetic[both]\n    {_SHARES}",
            ),
        ],
        "terms_of_common_codes_alone": [(_SEEN, "seen = (p > 0) & (q > 0)")],
        "one_added_to_each_count": [
            (_SHARES, f"real, synthetic = real + 1, synthetic + 1\n    {_SHARES}")
        ],
        "mean_over_codes": [(_HALF, "divergence += terms.sum() / len(p) / 2")],
        "total_variation": [(_ROOT, "return abs(p - q).sum() / 2")],
        "one_minus_distance": [(_ROOT, "return 1 - math.sqrt(divergence)")],
    },
    "19.3": {
        "age_alone": [
            (_WHY, _WHO),
            (
                _FLAG,
                "flags.append(who is not None and not who.min_age <= age <= who.max_age)",
            ),
        ],
        "sex_alone": [
            (_WHY, _WHO),
            (_FLAG, "flags.append(who is not None and who.sex not in (None, sex))"),
        ],
        "codes_that_are_possible": [(_FLAG, "flags.append(why is None)")],
        "codes_with_a_rule": [(_WHY, _WHO), (_FLAG, "flags.append(who is not None)")],
        "share_of_codes_with_a_rule": [
            (
                _CODES,
                "codes += [f for c, f in zip(visit, flags) if icd9.who_can_have(c) is not None]",
            ),
            (_THREE, _THREE.replace("fmean(codes)", "fmean(codes or [math.nan])")),
        ],
        "mean_of_the_patients_shares": [
            ("mine = []", "mine, of_mine = [], []"),
            (_CODES, "of_mine += flags"),
            (_VISITS, f"codes.append(fmean(of_mine))\n        {_VISITS}"),
        ],
        "mean_of_the_visits_shares": [(_CODES, "codes.append(fmean(flags))")],
        "means_of_the_patients_shares": [
            ("mine = []", "mine, of_mine = [], []"),
            (_CODES, "of_mine += flags"),
            (_VISITS, "codes.append(fmean(of_mine))\n        visits.append(fmean(mine))"),
        ],
        "one_code_a_visit": [
            (_CODES, "codes += [any(flags)] + [False] * (len(flags) - 1)"),
        ],
        "each_code_once_a_patient": [
            ("mine = []", "mine, seen = [], {}"),
            (_CODES, "seen.update(zip(visit, flags))"),
            (_VISITS, f"codes += seen.values()\n        {_VISITS}"),
        ],
        "codes_for_visits": [
            (_CODES, "codes += flags\n            visits.append(sum(flags))"),
            (_VISITS, "pass"),
        ],
        "visits_for_patients": [(_PEOPLE, "people.append(sum(mine))")],
        "codes_for_patients": [
            ("mine = []", "mine, found = [], 0"),
            (_CODES, "codes += flags\n            found += sum(flags)"),
            (_PEOPLE, "people.append(found)"),
        ],
        "visits_over_patients_codes": [
            (_THREE, "return fmean(codes), fmean(codes), fmean(codes)"),
        ],
        "patients_for_all": [(_THREE, "return fmean(people), fmean(people), fmean(people)")],
        "whole_visits_and_patients": [
            (_MINE, "mine.append(all(flags))"),
            (_PEOPLE, "people.append(all(mine))"),
        ],
        "first_visits_alone": [(_HISTORY, "for visit in history[:1]:")],
        "counts": [(_THREE, "return float(sum(codes)), float(sum(visits)), float(sum(people))")],
        "patients_first": [(_THREE, "return fmean(people), fmean(visits), fmean(codes)")],
        "percentages": [
            (_THREE, "return 100 * fmean(codes), 100 * fmean(visits), 100 * fmean(people)")
        ],
    },
    "19.4": {
        "whole_record_given": [(_GIVEN, "log_probs(visits, visit)")],
        "visit_itself_given": [(_GIVEN, "log_probs(visits[: t + 1], visit)")],
        "all_other_visits_given": [(_GIVEN, "log_probs(visits[:t] + visits[t + 1 :], visit)")],
        "last_visit_alone_given": [(_GIVEN, "log_probs(visits[:t][-1:], visit)")],
        "nothing_given": [(_GIVEN, "log_probs([], visit)")],
        "patients_before_given": [
            (_LISTS, f"{_LISTS}\n    known = []"),
            (_GIVEN, "log_probs(known, visit)"),
            (_OF_VISITS, f"{_OF_VISITS}\n            known = [*known, visit]"),
        ],
        "first_visits_left_out": [
            ("for t, visit in enumerate(visits):", "for t, visit in list(enumerate(visits))[1:]:")
        ],
        "latest_visit_first": [(_GIVEN, "log_probs(visits[:t][::-1], visit)")],
        "ends_among_the_codes": [(_OF_CODES, "of_codes += scores")],
        "visit_without_its_end": [(_OF_VISITS, "of_visits.append(sum(scores[:-1]))")],
        "mean_over_the_tokens_of_a_visit": [(_OF_VISITS, "of_visits.append(fmean(scores))")],
        "mean_of_exponentials": [
            (_PER_CODE, "per_code = fmean(math.exp(-x) for x in of_codes)"),
            (_PER_VISIT, "per_visit = fmean(math.exp(-x) for x in of_visits)"),
        ],
        "mean_of_the_visits_means": [(_OF_CODES, "of_codes.append(fmean(scores[:-1]))")],
        "mean_of_the_patients_perplexities": [
            (_LISTS, "all_codes, all_visits = [], []"),
            (_PATIENTS, f"{_PATIENTS}\n        {_LISTS}"),
            (
                _OF_VISITS,
                f"{_OF_VISITS}\n        all_codes.append(math.exp(-fmean(of_codes)))"
                "\n        all_visits.append(math.exp(-fmean(of_visits)))",
            ),
            (_PER_CODE, "per_code = fmean(all_codes)"),
            (_PER_VISIT, "per_visit = fmean(all_visits)"),
        ],
        "mean_of_the_patients_means": [
            (_LISTS, "all_codes, all_visits = [], []"),
            (_PATIENTS, f"{_PATIENTS}\n        {_LISTS}"),
            (
                _OF_VISITS,
                f"{_OF_VISITS}\n        all_codes.append(fmean(of_codes))"
                "\n        all_visits.append(fmean(of_visits))",
            ),
            (_PER_CODE, "per_code = math.exp(-fmean(all_codes))"),
            (_PER_VISIT, "per_visit = math.exp(-fmean(all_visits))"),
        ],
        "two_to_the_power": [
            (_PER_CODE, "per_code = 2 ** -fmean(of_codes)"),
            (_PER_VISIT, "per_visit = 2 ** -fmean(of_visits)"),
        ],
        "probability_for_perplexity": [
            (_PER_CODE, "per_code = math.exp(fmean(of_codes))"),
            (_PER_VISIT, "per_visit = math.exp(fmean(of_visits))"),
        ],
        "loss_for_perplexity": [
            (_PER_CODE, "per_code = -fmean(of_codes)"),
            (_PER_VISIT, "per_visit = -fmean(of_visits)"),
        ],
        "perplexity_of_a_visit_first": [(_BOTH, "return per_visit, per_code")],
    },
    "19.5": {
        "own_nearest_neighbour": [(_DIAGONAL, "pass")],
        "twins_left_out": [(_DIAGONAL, "distances[distances == 0] = np.inf")],
        "tie_as_own": _side_ties(1.0),
        "tie_as_other": _side_ties(0.0),
        "tie_of_auroc_as_member": _pair_ties(1.0),
        "tie_of_auroc_as_other": _pair_ties(0.0),
        "all_ties_as_nearer": [(_NEARER, "return (own <= other).mean()")],
        "all_ties_as_farther": [(_NEARER, "return (own < other).mean()")],
        "same_place_left_out": [
            (_REAL_SIDE, _REAL_SIDE.replace("to_synthetic", "nearest(train, synthetic, True)")),
            (_WRITTEN_SIDE, _WRITTEN_SIDE.replace("train)", "train, True)")),
        ],
        "auroc_of_the_distance": [(_ANSWER, "return accuracy, 1 - auroc")],
        "other_cohort_nearer": [(_ANSWER, "return 1 - accuracy, auroc")],
        "training_patients_alone": [(_ACCURACY, "accuracy = real_side")],
        "synthetic_patients_alone": [(_ACCURACY, "accuracy = written_side")],
        "sum_of_both_sides": [(_ACCURACY, "accuracy = real_side + written_side")],
        "accuracy_on_held_out_patients": [
            (_REAL_SIDE, "share_nearer(nearest(held_out, held_out, True), held_to)"),
            (_WRITTEN_SIDE, "share_nearer(of_synthetic, nearest(synthetic, held_out))"),
            (
                "to_synthetic = nearest(train, synthetic)",
                "to_synthetic = nearest(train, synthetic)\n    "
                "held_to = nearest(held_out, synthetic)",
            ),
        ],
        "mean_distance": [
            (_NEAREST, "return np.ma.masked_invalid(distances).mean(axis=1).data"),
        ],
        "farthest_patient": [
            (_DIAGONAL, "np.fill_diagonal(distances, -np.inf)"),
            (_NEAREST, "return distances.max(axis=1)"),
        ],
        "number_of_codes_that_differ": [
            (_DISTANCES, "distances = (either - shared).astype(float)")
        ],
        "number_of_codes_in_common": [(_DISTANCES, "distances = -shared.astype(float)")],
        "nearest_training_patient": [
            (_OTHERS, "others = nearest(held_out, train)"),
            (_AUROC, "auroc = share_nearer(nearest(train, train)[:, None], others)"),
        ],
        "asks_the_synthetic_patients": [
            (_OTHERS, "others = nearest(synthetic, held_out)"),
            (_AUROC, "auroc = share_nearer(nearest(synthetic, train)[:, None], others)"),
        ],
        "auroc_first": [(_ANSWER, "return auroc, accuracy")],
    },
    "19.6": {
        "zero_for_the_floor": _held_against("0.0"),
        "value_without_its_interval": _held_against("floor", "value", "value"),
        "side_of_the_value": [(_ABOVE, "above = value > floor")],
        "low_is_always_better": [(_BETTER, "not above")],
        "near_as_low": [(_BETTER, 'above == (better == "high")')],
        "near_as_high": [(_BETTER, 'above == (better != "low")')],
        "low_and_high_exchanged": [(_BETTER, _BETTER.replace('"high"', '"low"'))],
        "every_difference_is_worse": [(_BETTER, "False")],
        "ends_of_the_interval_left_out": [
            (_INSIDE, "low < floor < high"),
            (_ABOVE, "above = low >= floor"),
        ],
        "unknown_is_at_the_floor": [('said = "too few to say"', 'said = "at the floor"')],
        "comparisons_with_nan": _asks(""),
        "comparisons_with_nan_outside": _asks("", by_sides=True),
        "value_alone_may_be_unknown": _asks("value,"),
        "value_alone_may_be_unknown_outside": _asks("value,", by_sides=True),
        "interval_alone_may_be_unknown": _asks("low, high"),
        "interval_alone_may_be_unknown_outside": _asks("low, high", by_sides=True),
        "unknown_is_worse": [('said = "too few to say"', 'said = "worse than the floor"')],
        "one_good_measure_allows": [(_IF_FORBIDDEN, "if not any(allowed):")],
        "use_without_a_measure_allowed": [(_IF_FORBIDDEN, "if not all(allowed):")],
        "missing_measure_allowed": [
            (_ALLOWED, 'allowed = [verdicts.get(n, "at the floor") in good for n in names]')
        ],
        "missing_measure_and_none_allowed": [
            (_ALLOWED, 'allowed = [verdicts.get(n, "at the floor") in good for n in names]'),
            (_IF_FORBIDDEN, "if not all(allowed):"),
        ],
        "too_few_allowed": [(_GOOD, _GOOD + ', "too few to say"')],
        "only_worse_forbids": [
            (
                _ALLOWED,
                'allowed = [verdicts.get(n) != "worse than the floor" for n in names]',
            ),
            (_IF_FORBIDDEN, "if not all(allowed):"),
        ],
        "better_forbidden": [(_GOOD, 'good = ("at the floor",)')],
        "allowed_uses_listed": [(_IF_FORBIDDEN, "if allowed and all(allowed):")],
    },
}
