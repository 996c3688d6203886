"""Lesson 11: each misconception as a change to the worked answer."""

_SCALE = "    scores = scores / math.sqrt(query.shape[-1])\n"
_MASKED = "    if mask is not None:\n        scores = scores.masked_fill(~mask, -math.inf)\n"
_SOFTMAX = "weights = scores.softmax(dim=-1)"
_BY_HAND = "weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"
_READ = "return weights @ value"

_MAY = "return causal & real"
_TRIANGLE = "torch.ones(length, length, dtype=torch.bool).tril()"
_PROMPTS_TO_ALL = "    causal[:n_prompts] = True\n"

_START = "torch.full_like(labels, 2)"
_MOVE = "    shifted[:, 1:] = labels[:, :-1]\n"
_FILL = "return shifted.masked_fill(shifted == -100, 0)"

_NORM = "norm = 2 * d_model"
_ATTENTION = "4 * (d_model * d_model + d_model)"
_FFN = "2 * d_model * ffn_dim + (ffn_dim + d_model)"
_TOKENS = "tokens = vocab_size * d_model"
_PLACES = "2 * (positions + 2) * d_model"
_ENCODER = "norm + encoder_layers *"
_DECODER = "norm + decoder_layers *"

_QUERY = "decoder_states @ w_query"
_KEY = "encoder_states @ w_key"
_VALUE = "encoder_states @ w_value"
_HIDE = "    scores = scores.masked_fill(hidden, -math.inf)\n"
_CROSS_SCALE = "query @ key.T / math.sqrt(query.shape[-1])"
_CROSS_WEIGHTS = "weights = scores.softmax(dim=-1)  # (target, source)"

_VECTORS = "torch.cat([prompts, tokens])"
_ROWS = "torch.arange(len(vectors)) + 2"
_PLACED = "return vectors + position_table[rows]"

WRONG = {
    "11.1": {
        "no_scale": [(_SCALE, "")],
        "divides_by_the_width": [("math.sqrt(query.shape[-1])", "query.shape[-1]")],
        "scales_by_the_number_of_keys": [("query.shape[-1]", "len(key)")],
        "multiplies_by_the_root": [("scores / math", "scores * math")],
        "scales_the_weights": [
            (_SCALE, ""),
            (_READ, "return weights / math.sqrt(query.shape[-1]) @ value"),
        ],
        "wrong_axis": [("softmax(dim=-1)", "softmax(dim=0)")],
        "no_softmax": [(_SOFTMAX, "weights = scores")],
        "bare_exponentials": [(_SOFTMAX, _BY_HAND)],
        "mask_inverted": [("~mask", "mask")],
        "mask_ignored": [(_MASKED, "")],
        "mask_after_softmax": [
            (_MASKED, ""),
            (
                _SOFTMAX,
                f"{_SOFTMAX}\n    if mask is not None:\n"
                "        weights = weights.masked_fill(~mask, 0.0)",
            ),
        ],
        "hidden_scores_are_zero": [("scores.masked_fill(~mask, -math.inf)", "scores * mask")],
        "adds_the_mask": [("scores.masked_fill(~mask, -math.inf)", "scores + mask")],
        "keys_as_values": [(_READ, "return weights @ key")],
        "queries_as_keys": [("query @ key.T", "query @ query.T")],
        "returns_the_weights": [(_READ, "return weights")],
    },
    "11.2": {
        "prompts_see_the_future": [(_MAY, f"{_PROMPTS_TO_ALL.strip()}\n    {_MAY}")],
        "tokens_cannot_see_the_prompts": [
            (_MAY, f"causal[n_prompts:, :n_prompts] = False\n    {_MAY}")
        ],
        "prompts_see_each_other": [(_MAY, f"causal[:n_prompts, :n_prompts] = True\n    {_MAY}")],
        "prompts_see_only_themselves": [
            (
                _MAY,
                "causal[:n_prompts, :n_prompts] = torch.eye(n_prompts, dtype=torch.bool)\n"
                f"    {_MAY}",
            )
        ],
        "future_is_visible": [(_TRIANGLE, "torch.ones(length, length, dtype=torch.bool)")],
        "padding_is_visible": [(_MAY, "return causal")],
        "cannot_see_itself": [(".tril()", ".tril(-1)")],
        "diagonal_moved_by_the_prompts": [(".tril()", ".tril(n_prompts)")],
        "transposed": [(".tril()", ".triu()")],
        "inverted": [(_MAY, "return ~(causal & real)")],
        "additive": [(_MAY, "return torch.where(causal & real, 0.0, -torch.inf)")],
        "no_prompts": [("torch.cat([prompts, attention_mask.bool()])", "attention_mask.bool()")],
        "no_rows_for_the_prompts": [(_MAY, "return (causal & real)[n_prompts:]")],
        "prompts_behind_the_padding": [
            ("[prompts, attention_mask.bool()]", "[attention_mask.bool(), prompts]")
        ],
        "hides_the_rows_of_padding": [(_MAY, "return causal & real[:, None]")],
    },
    "11.3": {
        "starts_with_bos": [(_START, "torch.full_like(labels, 1)")],
        "starts_with_padding": [(_START, "torch.zeros_like(labels)")],
        "leaves_minus_100": [(_FILL, "return shifted")],
        "pads_with_barts_id": [("-100, 0)", "-100, 1)")],
        "pads_with_eos": [("-100, 0)", "-100, 2)")],
        "shifts_left": [(_MOVE, "    shifted[:, :-1] = labels[:, 1:]\n")],
        "rolls": [(_START, "labels.roll(1, dims=1)"), (_MOVE, "")],
        "wraps_the_last_token": [
            (
                _START,
                "labels.gather(1, (labels != -100).sum(1, keepdim=True) - 1)"
                ".repeat(1, labels.shape[1])",
            )
        ],
        "grows_by_one": [
            (_START, "torch.full((len(labels), labels.shape[1] + 1), 2)"),
            ("labels[:, :-1]", "labels"),
        ],
        "overwrites_the_first_token": [("labels[:, :-1]", "labels[:, 1:]")],
        "not_shifted": [(_START, "labels"), (_MOVE, "")],
        "drops_the_end_of_the_record": [
            (_MOVE, "    shifted[:, 1:] = labels.masked_fill(labels == 2, 0)[:, :-1]\n")
        ],
    },
    "11.4": {
        "times_heads": [(_ATTENTION, f"heads * {_ATTENTION}")],
        "weights_times_heads": [
            (_ATTENTION, "4 * (heads * d_model * d_model + d_model)"),
        ],
        "vocabulary_counted_twice": [(_TOKENS, "tokens = 2 * vocab_size * d_model")],
        "vocabulary_counted_three_times": [(_TOKENS, "tokens = 3 * vocab_size * d_model")],
        "output_layer_with_a_bias": [(_TOKENS, "tokens = vocab_size * d_model + vocab_size")],
        "position_offset_forgotten": [(_PLACES, "2 * positions * d_model")],
        "one_position_table": [(_PLACES, "(positions + 2) * d_model")],
        "one_short_position_table": [(_PLACES, "positions * d_model")],
        "biases_forgotten": [
            (_ATTENTION, "4 * d_model * d_model"),
            (_FFN, "2 * d_model * ffn_dim"),
        ],
        "attention_biases_forgotten": [(_ATTENTION, "4 * d_model * d_model")],
        "ffn_biases_forgotten": [(_FFN, "2 * d_model * ffn_dim")],
        "layer_norms_forgotten": [(_NORM, "norm = 0")],
        "layer_norms_without_bias": [(_NORM, "norm = d_model")],
        "one_embedding_layer_norm": [(_ENCODER, "encoder_layers *")],
        "two_norms_in_a_decoder_layer": [("3 * norm", "2 * norm")],
        "no_cross_attention": [("2 * attention + ffn + 3 * norm", "attention + ffn + 2 * norm")],
        "three_projections": [(_ATTENTION, "3 * (d_model * d_model + d_model)")],
        "one_ffn_matrix": [(_FFN, "d_model * ffn_dim + (ffn_dim + d_model)")],
    },
    "11.5": {
        "encoder_reads_itself": [(_QUERY, "encoder_states @ w_query")],
        "decoder_reads_itself": [
            (_KEY, "decoder_states @ w_key"),
            (_VALUE, "decoder_states @ w_value"),
        ],
        "roles_swapped": [
            (_QUERY, "encoder_states @ w_query"),
            (_KEY, "decoder_states @ w_key"),
            (_VALUE, "decoder_states @ w_value"),
        ],
        "keys_of_the_decoder": [(_KEY, "decoder_states @ w_key")],
        "values_of_the_decoder": [(_VALUE, "decoder_states @ w_value")],
        "causal": [
            (
                "hidden = encoder_mask == 0",
                "hidden = (encoder_mask == 0) | ~torch.ones_like(scores).tril().bool()",
            )
        ],
        "padding_is_read": [(_HIDE, "")],
        "mask_inverted": [("encoder_mask == 0", "encoder_mask == 1")],
        "mask_after_softmax": [
            (_HIDE, ""),
            (_CROSS_WEIGHTS, "weights = scores.softmax(dim=-1) * ~hidden"),
        ],
        "no_scale": [(_CROSS_SCALE, "query @ key.T")],
        "bare_exponentials": [(_CROSS_WEIGHTS, _BY_HAND)],
        "no_projections": [
            (_QUERY, "decoder_states"),
            (_KEY, "encoder_states"),
            (_VALUE, "encoder_states"),
        ],
        "values_not_projected": [(_VALUE, "encoder_states")],
        "projections_transposed": [
            (_QUERY, "decoder_states @ w_query.T"),
            (_KEY, "encoder_states @ w_key.T"),
            (_VALUE, "encoder_states @ w_value.T"),
        ],
        "keys_and_values_swapped": [
            (f"key = {_KEY}", "key = encoder_states @ w_value"),
            (f"    value = {_VALUE}", "    value = encoder_states @ w_key"),
        ],
    },
    "11.6": {
        "no_offset": [(_ROWS, "torch.arange(len(vectors))")],
        "offset_of_one": [(_ROWS, "torch.arange(len(vectors)) + 1")],
        "prompts_without_positions": [
            (
                _PLACED,
                "vectors[len(prompts):] += position_table[rows][len(prompts):]"
                "\n    return vectors",
            )
        ],
        "tokens_placed_before_the_prompts_came": [
            (
                _PLACED,
                "vectors[len(prompts):] += position_table[rows][:len(tokens)]\n    return vectors",
            )
        ],
        "positions_start_again": [
            (_ROWS, "torch.cat([torch.arange(len(prompts)), torch.arange(len(tokens))]) + 2")
        ],
        "one_position_for_all_prompts": [
            (
                _ROWS,
                "(torch.arange(len(vectors)) - len(prompts) + 1).clamp(min=0) + 2"
                " - int(len(prompts) == 0)",
            )
        ],
        "prompts_last": [(_VECTORS, "torch.cat([tokens, prompts])")],
        "scales_tokens": [(_VECTORS, "torch.cat([prompts, tokens * math.sqrt(tokens.shape[1])])")],
        "scales_everything": [
            (_VECTORS, "torch.cat([prompts, tokens]) * math.sqrt(tokens.shape[1])")
        ],
        "no_positions": [(_PLACED, "return vectors")],
        "multiplies_positions": [(_PLACED, "return vectors * position_table[rows]")],
        "zeros_for_padding": [
            (
                _PLACED,
                "placed = vectors + position_table[rows]\n"
                "    placed[len(prompts):][token_ids == 0] = 0\n    return placed",
            )
        ],
        "counts_real_tokens": [
            (
                _ROWS,
                "torch.cat([torch.ones(len(prompts)), token_ids != 0]).cumsum(0).long() + 1",
            )
        ],
        "forgets_the_prompts": [(_VECTORS, "tokens")],
    },
}
