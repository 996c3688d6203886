"""Lesson 18: each misconception as a change to the worked answer."""

_KEYS = "keys = torch.cat([before_k, k], dim=2)"
_VALUES = "values = torch.cat([before_v, v], dim=2)"
_SEEN = "seen = torch.cat([torch.ones(target, n).bool(), mask], dim=1)"
_SCALE = "/ head_dim**0.5"
_FILL = 'scores.masked_fill(~seen, float("-inf"))'
_WEIGH = "return scores.softmax(dim=-1) @ values"
_FINITE = (100, 1000, 10000, 100000, 1000000)
_PREFIX_PART = "(q @ prefix_k.mT / head_dim**0.5).softmax(dim=-1) @ prefix_v"
_SEQUENCE_PART = '(q @ k.mT / head_dim**0.5).masked_fill(~mask, float("-inf")).softmax(dim=-1) @ v'

_PARTS = "parts = table.reshape(batch, n, n_layers, 2, n_heads, head_dim)"
_PERMUTE = "return parts.permute(2, 3, 0, 4, 1, 5)"

_WIDTH = "width = n_layers * 2 * d_model"
_PROMPT = "prompt = n_tokens * d_model"
_PREFIX = "prefix = n_tokens * width"
_FIRST = "first = d_model * d_hidden + d_hidden"
_SECOND = "second = d_hidden * width + width"
_COUNTS = "return prompt, prefix, prompt + first + second"

_HIDDEN = "torch.tanh(table @ w1.T + b1)"
_FOLDED = "folded = hidden @ w2.T + b2"
_COUNT = "return folded, folded.numel()"

_BEATS = "return all(losses[one][s] < losses[other][s] for s in seeds)"
_PAIRS = "zip(losses[one].values(), losses[other].values())"
_MEDIAN = "spread[method] = values[0], median(values), values[-1]"
_KEPT = "if not any(beats(other, method) for other in losses)"
_OTHERS = "for other in losses if other != method)"
_SORTED = "return spread, sorted(kept, key=trained.get)"
_BEST = "return spread, [min(losses, key=lambda m: {}(losses[m].values()))]"

WRONG = {
    "18.1": {
        "no_prefix": [(_SEEN, _SEEN.replace("torch.ones", "torch.zeros"))],
        "prefix_in_the_queries": [
            (_SEEN, "q = torch.cat([before_k, q], dim=2)"),
            (
                _FILL,
                "scores.masked_fill("
                '~nn.functional.pad(mask, (n, 0, n, 0), value=True), float("-inf"))',
            ),
        ],
        "scaled_by_d_model": [(_SCALE, "/ (q.shape[1] * head_dim) ** 0.5")],
        "not_scaled": [(_SCALE, "")],
        "divided_without_the_root": [(_SCALE, "/ head_dim")],
        "scaled_by_the_length": [(_SCALE, "/ keys.shape[2] ** 0.5")],
        "mask_extended_at_the_end": [
            (_SEEN, "seen = torch.cat([mask, torch.ones(target, n).bool()], dim=1)")
        ],
        "prefix_at_the_end": [
            (_KEYS, "keys = torch.cat([k, before_k], dim=2)"),
            (_VALUES, "values = torch.cat([v, before_v], dim=2)"),
        ],
        "causal_over_prefix_and_sequence": [
            (_SEEN, "seen = torch.ones(target, keys.shape[2]).tril().bool()")
        ],
        "mask_left_out": [(_FILL, "scores")],
        "mask_the_other_way_round": [(_SEEN, _SEEN.replace(", mask]", ", ~mask]"))],
        "hidden_where_the_mask_is_true": [(_FILL, _FILL.replace("~seen", "seen"))],
        "zero_times_minus_infinity": [(_FILL, 'scores + (~seen).float() * float("-inf")')],
        "mask_added_as_numbers": [(_FILL, "scores + seen.float()")],
        "causal_mask_of_its_own": [
            (_SEEN, "seen = torch.ones(target, keys.shape[2]).tril(n).bool()")
        ],
        "two_softmaxes_added": [(_WEIGH, f"return {_PREFIX_PART} + {_SEQUENCE_PART}")],
        "two_softmaxes_averaged": [(_WEIGH, f"return ({_PREFIX_PART} + {_SEQUENCE_PART}) / 2")],
        "keys_and_values_swapped": [
            (_KEYS, _KEYS.replace("before_k", "before_v")),
            (_VALUES, _VALUES.replace("before_v", "before_k")),
        ],
        "values_of_the_prefix_left_out": [(_WEIGH, "return scores.softmax(dim=-1)[..., n:] @ v")],
        "softmax_over_the_queries": [(_WEIGH, "return scores.softmax(dim=-2) @ values")],
        "masked_after_the_softmax": [
            (_FILL, "scores"),
            (_WEIGH, "return (scores.softmax(dim=-1) * seen) @ values"),
        ],
        "masked_scores_are_0": [(_FILL, "scores * seen")],
        "masked_after_and_divided_again": [
            (_FILL, "scores.softmax(dim=-1) * seen"),
            (_WEIGH, "return scores / scores.sum(dim=-1, keepdim=True) @ values"),
        ],
        **{
            f"masked_scores_are_minus_{number}": [(_FILL, f"scores.masked_fill(~seen, -{number})")]
            for number in _FINITE
        },
        **{
            f"minus_{number}_is_added": [(_FILL, f"scores + (~seen).float() * -{number}.0")]
            for number in _FINITE
        },
        "formula_of_softmax_overflows": [
            (_FILL, "scores.exp() * seen"),
            (_WEIGH, "return scores / scores.sum(dim=-1, keepdim=True) @ values"),
        ],
    },
    "18.2": {
        "view_alone": [
            (_PERMUTE, "return table.reshape(n_layers, 2, batch, n_heads, n, head_dim)")
        ],
        "view_as_the_document_has_it": [
            (_PARTS, "parts = table.reshape(batch, n_layers, 2, n_heads, n, head_dim)"),
            (_PERMUTE, "return parts.permute(1, 2, 0, 3, 4, 5)"),
        ],
        "all_keys_first": [
            (_PARTS, "parts = table.reshape(batch, n, 2, n_layers, n_heads, head_dim)"),
            (_PERMUTE, "return parts.permute(3, 2, 0, 4, 1, 5)"),
        ],
        "key_and_value_in_each_head": [
            (_PARTS, "parts = table.reshape(batch, n, n_layers, n_heads, 2, head_dim)"),
            (_PERMUTE, "return parts.permute(2, 4, 0, 3, 1, 5)"),
        ],
        "heads_before_layers": [
            (_PARTS, "parts = table.reshape(batch, n, n_heads, n_layers, 2, head_dim)"),
            (_PERMUTE, "return parts.permute(3, 4, 0, 2, 1, 5)"),
        ],
        "channels_before_heads": [
            (_PARTS, "parts = table.reshape(batch, n, n_layers, 2, head_dim, n_heads)"),
            (_PERMUTE, "return parts.permute(2, 3, 0, 5, 1, 4)"),
        ],
        "tokens_inside_layers": [
            (_PARTS, "parts = table.reshape(batch, n_layers, n, 2, n_heads, head_dim)"),
            (_PERMUTE, "return parts.permute(1, 3, 0, 4, 2, 5)"),
        ],
        "layers_outermost": [
            (_PARTS, "parts = table.reshape(n_layers, 2, batch, n, n_heads, head_dim)"),
            (_PERMUTE, "return parts.transpose(3, 4)"),
        ],
        "heads_by_reshape": [
            (_PARTS, "parts = table.reshape(batch, n, n_layers, 2, -1).permute(2, 3, 0, 1, 4)"),
            (_PERMUTE, "return parts.reshape(n_layers, 2, batch, n_heads, n, head_dim)"),
        ],
        "values_first": [(_PERMUTE, f"{_PERMUTE}[:, [1, 0]]")],
        "tokens_before_heads": [(_PERMUTE, "return parts.permute(2, 3, 0, 1, 4, 5)")],
        "keys_transposed": [(_PERMUTE, "return parts.permute(2, 3, 0, 4, 5, 1)")],
        "batch_first": [(_PERMUTE, "return parts.permute(0, 2, 3, 4, 1, 5)")],
        "key_and_value_first": [(_PERMUTE, "return parts.permute(3, 2, 0, 4, 1, 5)")],
    },
    "18.3": {
        "no_biases": [
            (_FIRST, "first = d_model * d_hidden"),
            (_SECOND, "second = d_hidden * width"),
        ],
        "no_bias_of_the_output": [(_SECOND, "second = d_hidden * width")],
        "no_bias_of_the_hidden_layer": [(_FIRST, "first = d_model * d_hidden")],
        "biases_as_long_as_the_inputs": [
            (_FIRST, "first = d_model * d_hidden + d_model"),
            (_SECOND, "second = d_hidden * width + d_hidden"),
        ],
        "keys_only": [(_WIDTH, "width = n_layers * d_model")],
        "prompt_in_every_layer": [
            (_COUNTS, "return prompt * n_layers, prefix, prompt + first + second")
        ],
        "prefix_of_one_layer": [(_WIDTH, "width = 2 * d_model")],
        "table_left_out": [(_COUNTS, "return prompt, prefix, first + second")],
        "both_tables": [(_COUNTS, "return prompt, prefix, prefix + first + second")],
        "first_layer_reads_the_wide_table": [
            (_FIRST, "first = width * d_hidden + d_hidden"),
            (_COUNTS, "return prompt, prefix, prefix + first + second"),
        ],
        "two_attentions_in_each_layer": [(_WIDTH, "width = n_layers * 4 * d_model")],
        "all_three_tables": [(_COUNTS, "return prompt, prefix, prompt + prefix + first + second")],
        "after_folding": [(_COUNTS, "return prompt, prefix, prefix")],
        "a_projection_for_each_token": [
            (_COUNTS, "return prompt, prefix, prompt + n_tokens * (first + second)")
        ],
        "a_projection_for_each_layer": [
            (_COUNTS, "return prompt, prefix, prompt + n_layers * first + second")
        ],
        "output_as_wide_as_the_model": [(_SECOND, "second = d_hidden * d_model + d_model")],
        "order_of_the_three": [(_COUNTS, "return prompt, prompt + first + second, prefix")],
    },
    "18.4": {
        "without_tanh": [(_HIDDEN, "table @ w1.T + b1")],
        "without_the_first_bias": [(_HIDDEN, "torch.tanh(table @ w1.T)")],
        "without_the_second_bias": [(_FOLDED, "folded = hidden @ w2.T")],
        "without_biases": [
            (_HIDDEN, "torch.tanh(table @ w1.T)"),
            (_FOLDED, "folded = hidden @ w2.T"),
        ],
        "bias_after_tanh": [(_HIDDEN, "torch.tanh(table @ w1.T) + b1")],
        "tanh_at_the_end": [
            (_HIDDEN, "table @ w1.T + b1"),
            (_FOLDED, "folded = torch.tanh(hidden @ w2.T + b2)"),
        ],
        "tanh_twice": [(_FOLDED, "folded = torch.tanh(hidden @ w2.T + b2)")],
        "tanh_of_the_table": [(_HIDDEN, "torch.tanh(table) @ w1.T + b1")],
        "relu_for_tanh": [(_HIDDEN, "torch.relu(table @ w1.T + b1)")],
        "mean_of_the_tokens": [
            (_FOLDED, "folded = (hidden @ w2.T + b2).mean(0).repeat(len(table), 1)")
        ],
        "transposed": [(_FOLDED, "folded = (hidden @ w2.T + b2).T")],
        "first_weight_not_transposed": [(_HIDDEN, "torch.tanh(table @ w1 + b1)")],
        "weights_not_transposed": [
            (_HIDDEN, "torch.tanh(table @ w1 + b1)"),
            (_FOLDED, "folded = hidden @ w2 + b2"),
        ],
        "weights_reshaped": [
            (_HIDDEN, "torch.tanh(table @ w1.reshape(w1.shape[1], -1) + b1)"),
            (_FOLDED, "folded = hidden @ w2.reshape(w2.shape[1], -1) + b2"),
        ],
        "projection_counted_too": [
            (
                _COUNT,
                "return folded, sum(t.numel() for t in (table, w1, b1, w2, b2, folded))",
            )
        ],
        "layers_counted_too": [
            (_COUNT, "return folded, sum(t.numel() for t in (w1, b1, w2, b2, folded))")
        ],
        "projection_counted": [
            (_COUNT, "return folded, sum(t.numel() for t in (table, w1, b1, w2, b2))")
        ],
        "old_table_counted": [(_COUNT, "return folded, table.numel()")],
        "rows_counted": [(_COUNT, "return folded, len(folded)")],
    },
    "18.5": {
        "best_single_seed": [(_SORTED, _BEST.format("min"))],
        "lowest_mean": [(_SORTED, _BEST.format("sum"))],
        "lowest_median": [(_SORTED, _BEST.format("median"))],
        "higher_is_better": [(_BEATS, _BEATS.replace("<", ">"))],
        "ranges_apart": [
            (_BEATS, "return max(losses[one].values()) < min(losses[other].values())")
        ],
        "seeds_in_the_order_of_the_rows": [(_BEATS, f"return all(a < b for a, b in {_PAIRS})")],
        "sorted_losses": [
            (
                _BEATS,
                "pairs = zip(sorted(losses[one].values()), sorted(losses[other].values()))\n"
                "        return all(a < b for a, b in pairs)",
            )
        ],
        "most_seeds": [
            (
                _BEATS,
                "better = [losses[one][s] < losses[other][s] for s in losses[other]]\n"
                "        return sum(better) > len(better) / 2",
            )
        ],
        "any_seed": [(_BEATS, _BEATS.replace("all(", "any("))],
        "ties_beat": [
            (_BEATS, _BEATS.replace("<", "<=")),
            (_KEPT, f"if not any(beats(other, method) {_OTHERS}"),
        ],
        "equal_in_one_seed": [
            (
                _BEATS,
                "a, b = ([losses[m][s] for s in seeds] for m in (one, other))\n"
                "        return a != b and all(x <= y for x, y in zip(a, b))",
            )
        ],
        "mean_decides": [
            (_BEATS, "return sum(losses[one].values()) < sum(losses[other].values())")
        ],
        "median_decides": [
            (_BEATS, "return median(losses[one].values()) < median(losses[other].values())")
        ],
        "three_numbers_decide": [
            (
                _BEATS,
                "a, b = losses[one].values(), losses[other].values()\n"
                "        return all(f(a) < f(b) for f in (min, median, max))",
            )
        ],
        "best_with_some_seed": [
            (
                _KEPT,
                "if any(\n"
                "            losses[method][s] == min(of[s] for of in losses.values())\n"
                "            for s in losses[method]\n"
                "        )",
            )
        ],
        "compared_with_the_best_alone": [
            (
                _KEPT,
                "if not beats(min(losses, key=lambda m: median(losses[m].values())), method)",
            )
        ],
        "only_cheaper_ones_beat": [
            (_BEATS, _BEATS.replace("return all", "return trained[one] < trained[other] and all"))
        ],
        "has_to_beat_all": [(_KEPT, f"if all(beats(method, other) {_OTHERS}")],
        "the_beaten_ones": [(_KEPT, _KEPT.replace("not any", "any"))],
        "most_parameters_first": [(_SORTED, _SORTED.replace(")", ", reverse=True)"))],
        "in_the_order_of_the_rows": [(_SORTED, "return spread, kept")],
        "lowest_median_first": [
            (_SORTED, "return spread, sorted(kept, key=lambda m: spread[m][1])")
        ],
        "by_name": [(_SORTED, "return spread, sorted(kept)")],
        "mean_for_the_median": [
            (_MEDIAN, _MEDIAN.replace("median(values)", "sum(values) / len(values)"))
        ],
        "middle_of_the_range": [
            (_MEDIAN, _MEDIAN.replace("median(values)", "(values[0] + values[-1]) / 2"))
        ],
        "upper_of_the_middle_two": [
            (_MEDIAN, _MEDIAN.replace("median(values)", "values[len(values) // 2]"))
        ],
        "lower_of_the_middle_two": [
            (_MEDIAN, _MEDIAN.replace("median(values)", "values[(len(values) - 1) // 2]"))
        ],
        "middle_row": [
            (
                _MEDIAN,
                "rows_of = list(of_seed.values())\n"
                "        i = len(rows_of)\n"
                "        middle = (rows_of[(i - 1) // 2] + rows_of[i // 2]) / 2\n"
                "        spread[method] = values[0], middle, values[-1]",
            )
        ],
        "median_first": [(_MEDIAN, "spread[method] = median(values), values[0], values[-1]")],
    },
}
