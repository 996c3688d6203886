"""Lesson 12: each misconception as a change to the worked answer."""

_VECTORS = "return values * weight + bias"
_PROJECTED = "return vectors @ matrix.T"
_OFFSETS = "[sum(cardinalities[:f]) for f in range(len(cardinalities))]"
_CAT = "torch.cat(parts, dim=1)"
_SUM = "prompts.sum(dim=1, keepdim=True)"
_INPUTS = "inputs = torch.cat([prompts, embeddings], dim=1)"
_SEEN = "attention_mask.new_ones(prompts.shape[:2])"
_MASK = "mask = torch.cat([seen, attention_mask], dim=1)"
_LAST = (_INPUTS, "inputs = torch.cat([embeddings, prompts], dim=1)")
_TURNS = "ages[:, None] / 90 * frequencies"
_ANGLES = "angles = 2 * math.pi * turns"
_FEATURES = "torch.cat([angles.sin(), angles.cos()], dim=1)"
_BEND = "before - 2 * middle + after"
_VALUE = "value = (x_num / AGE_SCALE)[..., None]"
_HIDDEN = "hidden = value * self.num_weight + self.num_bias"
_ROWS = "rows = x_cat + self.first_rows"
_FIRST = "[sum(cardinalities[:f]) for f in range(n_cat)]"
_TOGETHER = "torch.cat([age, categories], dim=1)"
_AGE_BY = "age = self.num_project(hidden)"
_CATEGORIES_BY = "categories = self.cat_project(looked_up)"

WRONG = {
    "12.1": {
        "no_bias": [(_VECTORS, "return values * weight")],
        "sums_over_features": [(_VECTORS, "return (values * weight + bias).sum(1)")],
        "matrix_product": [(_VECTORS, "return x_num @ weight + bias")],
        "broadcasts_as_they_are": [(_VECTORS, "return x_num * weight + bias")],
        "axis_in_the_middle": [("x_num.unsqueeze(-1)", "x_num.unsqueeze(1)")],
        "bias_inside": [(_VECTORS, "return weight * (values + bias)")],
        "features_first": [
            ("    return", "    values = x_num.T.unsqueeze(-1)\n    return"),
            ("weight + bias", "weight[:, None] + bias[:, None]"),
        ],
        "features_in_one_row": [(_VECTORS, "return (values * weight + bias).flatten(1)")],
    },
    "12.2": {
        "not_transposed": [(_PROJECTED, "return vectors @ matrix")],
        "reshaped_instead_of_transposed": [
            (_PROJECTED, "return vectors @ matrix.view(matrix.shape[1], matrix.shape[0])")
        ],
        "loses_the_axis_of_one_feature": [(_PROJECTED, "return vectors.squeeze(1) @ matrix.T")],
        "sums_over_features": [(_PROJECTED, "return vectors.sum(1) @ matrix.T")],
        "mean_over_features": [(_PROJECTED, "return vectors.mean(1) @ matrix.T")],
        "with_relu": [(_PROJECTED, "return (vectors @ matrix.T).relu()")],
    },
    "12.3": {
        "no_offset": [(_OFFSETS, "[0]")],
        "own_cardinality": [(_OFFSETS, "cardinalities")],
        "sum_including_itself": [("cardinalities[:f]", "cardinalities[:f + 1]")],
        "only_the_feature_before": [(_OFFSETS, "[0] + cardinalities[:-1]")],
        "number_of_the_feature": [("sum(cardinalities[:f])", "f")],
        "blocks_of_the_largest": [("sum(cardinalities[:f])", "f * max(cardinalities)")],
        "features_behind": [("cardinalities[:f]", "cardinalities[f + 1:]")],
        "counts_from_one": [("return x_cat", "return 1 + x_cat")],
    },
    "12.4": {
        "along_the_width": [(_CAT, 'torch.cat(parts, dim=2 if combination == "concat" else 1)')],
        "along_the_batch": [(_CAT, 'torch.cat(parts, dim=0 if combination == "concat" else 1)')],
        "categorical_first": [("[numerical, categorical]", "[categorical, numerical]")],
        "never_sums": [('combination == "sum"', 'combination == "add"')],
        "always_sums": [('combination == "sum"', "combination")],
        "sum_loses_its_axis": [(", keepdim=True", "")],
        "mean_instead_of_sum": [("prompts.sum", "prompts.mean")],
        "adds_part_to_part": [(_SUM, "parts[0] + parts[1] if len(parts) == 2 else parts[0]")],
        "sums_only_both": [('combination == "sum"', 'combination == "sum" and len(parts) > 1')],
        "needs_both": [("    parts = [part for part in parts if part is not None]\n", "")],
    },
    "12.5": {
        "mask_not_extended": [(_MASK, "mask = attention_mask")],
        "prompt_last": [_LAST, (_MASK, "mask = torch.cat([attention_mask, seen], dim=1)")],
        "prompt_last_mask_first": [_LAST],
        "mask_extended_at_the_end": [(_MASK, "mask = torch.cat([attention_mask, seen], dim=1)")],
        "zeros_for_prompts": [("new_ones", "new_zeros")],
        "mask_of_ones": [(_MASK, "mask = torch.ones(inputs.shape[:2])")],
        "one_mask_position": [(_SEEN, "attention_mask.new_ones(len(prompts), 1)")],
        "along_the_width": [(_INPUTS, _INPUTS.replace("dim=1", "dim=2"))],
        "added_to_the_tokens": [
            (_INPUTS, "inputs = embeddings + prompts.sum(dim=1, keepdim=True)"),
            (_MASK, "mask = attention_mask"),
        ],
        "overwrites_the_tokens": [
            (_INPUTS, "inputs = torch.cat([prompts, embeddings[:, prompts.shape[1]:]], dim=1)"),
            (_MASK, "mask = attention_mask"),
        ],
    },
    "12.6": {
        "degrees": [(_ANGLES, "angles = 360 * turns")],
        "unscaled_age": [(_TURNS, "ages[:, None] * frequencies")],
        "no_two_pi": [(_ANGLES, "angles = turns")],
        "half_a_turn": [(_ANGLES, "angles = math.pi * turns")],
        "divides_by_the_frequency": [(_TURNS, "ages[:, None] / 90 / frequencies")],
        "no_cosine": [(_FEATURES, "angles.sin()")],
        "cosine_first": [("[angles.sin(), angles.cos()]", "[angles.cos(), angles.sin()]")],
        "interleaved": [
            (_FEATURES, "torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)")
        ],
        "first_difference": [(_BEND, "features[1:] - features[:-1]")],
        "difference_of_the_neighbours": [(_BEND, "after - before")],
        "middle_once": [("2 * middle", "middle")],
        "half_the_bend": [(_BEND, "(before + after) / 2 - middle")],
        "opposite_sign": [(_BEND, "2 * middle - before - after")],
        "across_the_features": [
            (
                "features[:-2], features[1:-1], features[2:]",
                "features[:, :-2], features[:, 1:-1], features[:, 2:]",
            )
        ],
        "bend_of_the_angles": [
            (
                "features[:-2], features[1:-1], features[2:]",
                "angles[:-2], angles[1:-1], angles[2:]",
            )
        ],
    },
    "12.7": {
        "unscaled_age": [(_VALUE, "value = x_num[..., None]")],
        "scales_the_bias_too": [
            (_VALUE, "value = x_num[..., None]"),
            (_AGE_BY, "age = self.num_project(hidden / AGE_SCALE)"),
        ],
        "no_bias_of_the_age": [(_HIDDEN, "hidden = value * self.num_weight")],
        "no_bias_of_the_categories": [(" + self.cat_bias", "")],
        "one_projection_for_both": [(_CATEGORIES_BY, "categories = self.num_project(looked_up)")],
        "projections_swapped": [
            (_AGE_BY, "age = self.cat_project(hidden)"),
            (_CATEGORIES_BY, "categories = self.num_project(looked_up)"),
        ],
        "no_offset": [(_ROWS, "rows = x_cat")],
        "only_the_feature_before": [(_FIRST, "[0, *cardinalities[:-1]]")],
        "categories_first": [(_TOGETHER, "torch.cat([categories, age], dim=1)")],
        "along_the_width": [(_TOGETHER, "torch.cat([age, categories], dim=2)")],
        "summed": [(_TOGETHER, "torch.cat([age, categories], dim=1).sum(1, keepdim=True)")],
        "added": [(_TOGETHER, "age + categories")],
    },
}
