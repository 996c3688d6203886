"""Lesson 15: each misconception as a change to the worked answer."""

_RISE = "return peak * (step + 1) / warmup_steps"
_ENDS = "    if step >= total_steps:\n        return 0.0\n"
_SHARE = "share = (step - warmup_steps) / (total_steps - warmup_steps)"
_FALL = "return peak * (1 + math.cos(math.pi * share)) / 2"

_COUNT = "count = sum((labels != -100).sum() for _, labels in parts)"
_DIVIDED = "(loss / count).backward()"
_OWN = "(loss / (labels != -100).sum()).backward()"
_STEP = "        optimizer.step()\n        optimizer.zero_grad()\n"
_STEP_INSIDE = "            optimizer.step()\n            optimizer.zero_grad()\n"

_HALF = "half = (gradient * scale).half()"
_GOOD = "if half.isfinite().all():"
_APPLIED = "applied.append(half.float() / scale)"
_SKIPPED = "applied.append(torch.zeros_like(gradient))"
_SHRINKS = "scale, good = scale / 2, 0"
_GROWS = "scale, good = scale * 2, 0"
_FULL = "if good == growth_interval:"
_NOTED = "        scales.append(scale)"

_UNSCALED = "unscaled = [gradient / scale for gradient in gradients]"
_NORM = "norm = norms.norm()"
_STOPS = "    if not norm.isfinite():\n        return None\n"
_FACTOR = "factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)"
_RESULT = "return [gradient * factor for gradient in unscaled]"


def _lost(*lines: str) -> list[tuple[str, str]]:
    """The lines of `load` for some parts, gone."""
    return [(_LOADS[line], "    pass\n") for line in lines]


_LOADS = {
    name: f'    training.{name}.load_state_dict(saved["{name}"])\n'
    for name in ("model", "optimizer", "schedule", "scaler")
} | {
    "random": '    torch.set_rng_state(saved["random"])\n',
    "epoch": '    training.epoch = saved["epoch"]\n',
    "batch": '    training.batch = saved["batch"]\n',
}

_EQUAL = "torch.equal(wanted[name], made[name])"
_NEW = '    resumed = make("parts")\n'
_BEGAN = "    began = resumed.step\n"
_RUN = "    resumed.run()\n"
_WANTED = "wanted = whole.model.state_dict()"

WRONG = {
    "15.1": {
        "begins_at_zero": [("(step + 1)", "step")],
        "cosine_from_step_0": [(_SHARE, "share = step / total_steps")],
        "never_reaches_zero": [("(total_steps - warmup_steps)", "total_steps")],
        "degrees": [("math.pi * share", "180 * share")],
        "rises_again": [(_ENDS, "")],
        "straight_line": [(_ENDS, ""), (_FALL, "return peak * (1 - share)")],
        "quarter_of_a_turn": [
            (_ENDS, ""),
            (_FALL, "return peak * math.cos(math.pi / 2 * share)"),
        ],
        "whole_turn": [("math.pi * share", "2 * math.pi * share")],
        "not_halved": [(" / 2", "")],
        "cosine_alone": [(_FALL, "return peak * math.cos(math.pi * share)")],
        "whole_number_division": [
            (_RISE, "return peak * ((step + 1) // warmup_steps)"),
            (_SHARE, _SHARE.replace("/", "//")),
        ],
        "one_step_early": [("(step - warmup_steps)", "(step + 1 - warmup_steps)")],
        "zero_at_the_last_step": [
            ("(total_steps - warmup_steps)", "(total_steps - warmup_steps - 1)")
        ],
        "warm_up_one_step_too_long": [("step < warmup_steps", "step <= warmup_steps")],
        "forgets_the_peak": [
            (_RISE, "return (step + 1) / warmup_steps"),
            (_FALL, _FALL.replace("peak * ", "")),
        ],
    },
    "15.2": {
        "mean_of_means": [(_DIVIDED, _OWN.replace("(loss / ", "(loss / len(parts) / "))],
        "sum_of_means": [(_DIVIDED, _OWN)],
        "divides_by_the_parts": [(_COUNT, "count = len(parts)")],
        "divides_by_the_rows": [("(labels != -100).sum()", "len(labels)")],
        "counts_what_is_not_scored": [("(labels != -100).sum()", "labels.numel()")],
        "never_divides": [("loss / count", "loss")],
        "keeps_gradients": [("        optimizer.zero_grad()\n", "")],
        "steps_in_each_part": [(_STEP, _STEP_INSIDE)],
        "each_part_a_batch": [(_DIVIDED, _OWN), (_STEP, _STEP_INSIDE)],
        "last_part_alone": [
            (
                f"            {_DIVIDED}",
                f"            optimizer.zero_grad()\n            {_DIVIDED}",
            )
        ],
        "count_of_all_batches": [
            (_COUNT, _COUNT.replace("in parts", "in sum(batches, [])")),
        ],
        "one_step_for_all_batches": [
            (_STEP + "    return", "    optimizer.step()\n    return"),
        ],
        "first_batch_alone": [("    return table.detach()", "        return table.detach()")],
    },
    "15.3": {
        "no_float16": [(_HALF, "half = gradient * scale")],
        "gives_the_true_gradient": [(_APPLIED, "applied.append(gradient)")],
        "rounds_before_it_scales": [(_HALF, "half = gradient.half() * scale")],
        "never_unscales": [(_APPLIED, "applied.append(half.float())")],
        "unscales_with_the_new_scale": [
            (f"            {_APPLIED}\n", ""),
            (f"                {_GROWS}\n", f"                {_GROWS}\n            {_APPLIED}\n"),
        ],
        "unscales_in_float16": [(_APPLIED, "applied.append((half / scale).float())")],
        "steps_anyway": [(_SKIPPED, _APPLIED)],
        "drops_only_what_overflowed": [
            (
                _SKIPPED,
                "kept = torch.where(half.isfinite(), half, 0).float()\n"
                "            applied.append(kept / scale)",
            )
        ],
        "sees_infinity_alone": [(_GOOD, "if not half.isinf().any():")],
        "sees_nan_alone": [(_GOOD, "if not half.isnan().any():")],
        "all_must_be_infinite": [("isfinite().all()", "isfinite().any()")],
        "doubles_on_overflow": [(_SHRINKS, _GROWS)],
        "stays_after_overflow": [(_SHRINKS, "good = 0")],
        "skip_does_not_reset": [(_SHRINKS, "scale = scale / 2")],
        "counts_skipped_steps": [
            (
                _SHRINKS,
                "scale, good = scale / 2, good + 1\n"
                "            if good == growth_interval:\n"
                "                scale, good = 2 * scale, 0",
            )
        ],
        "keeps_growing": [
            (_GROWS, "scale = scale * 2"),
            (_FULL, "if good >= growth_interval:"),
        ],
        "grows_every_step": [(_FULL, "if good:")],
        "never_grows": [(_GROWS, "pass")],
        "grows_one_step_late": [(_FULL, "if good > growth_interval:")],
        "tries_again": [
            (
                f"        {_GOOD}",
                "        while gradient.isfinite().all() and not half.isfinite().all():\n"
                "            scale, good = scale * 0.5, 0\n"
                "            half = (gradient * scale).half()\n"
                f"        {_GOOD}",
            )
        ],
        "scales_before": [
            (f"{_NOTED}\n", ""),
            (f"        {_HALF}\n", f"        {_HALF}\n{_NOTED}\n"),
        ],
    },
    "15.4": {
        "clips_first": [
            (_UNSCALED, "unscaled = gradients"),
            (_RESULT, "return [gradient * factor / scale for gradient in unscaled]"),
        ],
        "never_unscales": [(_UNSCALED, "unscaled = gradients")],
        "never_clips": [(_RESULT, "return unscaled")],
        "unscales_twice": [("gradient / scale", "gradient / scale / scale")],
        "unscales_again_after": [
            (_RESULT, "return [gradient * factor / scale for gradient in unscaled]")
        ],
        "clips_each_tensor": [
            (_FACTOR, "factors = (max_norm / (norms + 1e-6)).clamp(max=1.0)"),
            (_RESULT, "return [g * f for g, f in zip(unscaled, factors)]"),
        ],
        "clips_by_value": [
            (_RESULT, "return [g.clamp(-max_norm, max_norm) for g in unscaled]"),
        ],
        "adds_up_the_norms": [(_NORM, "norm = norms.sum()")],
        "largest_norm": [(_NORM, "norm = norms.max()")],
        "forgets_the_root": [(_NORM, "norm = (norms**2).sum()")],
        "sums_sizes": [
            ("[gradient.norm() for", "[gradient.abs().sum() for"),
            (_NORM, _NORM[:13] + "sum()"),
        ],
        "lengthens_too": [(_FACTOR, "factor = max_norm / norm")],
        "applies_what_is_not_finite": [(_STOPS, "")],
        "sees_infinity_alone": [("not norm.isfinite()", "norm.isinf()")],
        "drops_what_is_not_finite": [
            (_UNSCALED, "unscaled = [(g / scale).nan_to_num(0, 0, 0) for g in gradients]")
        ],
    },
    "15.5": {
        "weights_alone": _lost("optimizer", "schedule", "scaler", "random", "epoch", "batch"),
        "weights_and_optimizer": _lost("schedule", "scaler", "random", "epoch", "batch"),
        "no_random_numbers_and_no_place": _lost("random", "epoch", "batch"),
        "forgets_the_weights": _lost("model"),
        "forgets_the_optimizer": _lost("optimizer"),
        "forgets_the_schedule": _lost("schedule"),
        "forgets_the_scaler": _lost("scaler"),
        "forgets_the_random_numbers": _lost("random"),
        "seeds_again": [(_LOADS["random"], "    torch.manual_seed(training.seed)\n")],
        "scale_alone": [
            (
                _LOADS["scaler"],
                "    training.scaler = torch.amp.GradScaler(\n"
                '        "cpu", init_scale=saved["scaler"]["scale"], growth_interval=2\n'
                "    )\n",
            )
        ],
        "forgets_the_place": _lost("epoch", "batch"),
        "forgets_the_batch": _lost("batch"),
        "forgets_the_epoch": _lost("epoch"),
        "restores_nothing": _lost(*_LOADS),
    },
    "15.6": {
        "nearly_equal": [("torch.equal", "torch.allclose")],
        "first_weight_alone": [("for name in wanted)", "for name in list(wanted)[:1])")],
        "same_trainer_goes_on": [(_NEW, "    resumed = stopped\n")],
        "another_folder": [(_NEW, '    resumed = make("again")\n')],
        "step_at_the_end": [(_BEGAN + _RUN, _RUN + _BEGAN)],
        "trusts_stop": [(_BEGAN, "    began = stop\n")],
        "never_runs_the_rest": [(_RUN, "")],
        "compares_with_itself": [(_WANTED, "wanted = resumed.model.state_dict()")],
        "compares_with_the_stopped_one": [(_WANTED, "wanted = stopped.model.state_dict()")],
    },
}
