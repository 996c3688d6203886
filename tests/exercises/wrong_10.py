"""Lesson 10: each misconception as a change to the worked answer."""

_LONGEST = "longest = max(len(row) for row in rows)"
_FULL = "row + [value] * (longest - len(row))"
_TENSOR = "return torch.tensor(full)"
_INPUT_IDS = "pad(inputs, 0)"
_MASK = "pad(ones, 0)"
_LABELS = "pad(targets, -100)"
_ONES = "ones = [[1] * len(row) for row in inputs]"

_POOL_SIZE = "pool_size = batch_size * pool_batches"
_SORTED = "sorted(lengths[start : start + pool_size])"
_PLACES = "places = 0"
_ADD = "places += len(batch) * max(batch)"
_SHARE = "return 1 - sum(lengths) / places"

_NOISE = "    noise = []\n"
_RNG = "        rng = np.random.default_rng([seed, epoch, number])\n"
_KEY = "[seed, epoch, number]"
_DRAW = "        noise.append(int(rng.integers(1_000)))"

_SHAPES = 'return ["shapes"]\n    found = []'
_TARGET = "t.shape != (batch, target) for t in of_target"
_PATIENT = "        or any(t.shape != (batch, 1) for t in of_patient)\n"
_FLOAT = "x_num.dtype != torch.float32"
_WHOLE = "t.dtype != torch.int64 for t in whole"
_MASKED = "(attention_mask != (input_ids != 0)).any()"
_NO_PAD = "(labels == 0).any()"
_START = "torch.full_like(labels, 2)"
_SHIFT = "expected[:, 1:] = labels[:, :-1]"
_UNMASK = "    expected[expected == -100] = 0\n"
_DECODER = "(decoder_input_ids != expected).any()"
_FOUND = "return found"

_ROW = "row = 8 * (2 * source + 2 * target)"
_PATIENT_BYTES = "row += 4 + 8"
_BYTES = "return batch_size * row"


def _drawn_from(generator: str) -> list[tuple[str, str]]:
    """One generator before the loop in place of one in every round."""
    return [(_NOISE, f"    noise = []\n    rng = {generator}\n"), (_RNG, "")]


def _workers(key: str) -> list[tuple[str, str]]:
    """A generator for each worker, drawn from as its batches come."""
    rngs = f"[np.random.default_rng({key}) for worker in range(n_workers)]"
    return [
        (_NOISE, f"    noise = []\n    rngs = {rngs}\n"),
        (_RNG, "        rng = rngs[number % n_workers]\n"),
    ]


WRONG = {
    "10.1": {
        "pads_to_512": [(_LONGEST, "longest = 512")],
        "one_length_for_both": [
            (_LONGEST, "longest = max(len(row) for row in [*inputs, *targets])")
        ],
        "pads_left": [(_FULL, "[value] * (longest - len(row)) + row")],
        "barts_pad_id": [(_INPUT_IDS, "pad(inputs, 1)")],
        "barts_pad_id_and_mask": [
            (_INPUT_IDS, "pad(inputs, 1)"),
            (_MASK, "(pad(inputs, 1) != 1).long()"),
        ],
        "labels_padded_with_0": [(_LABELS, "pad(targets, 0)")],
        "input_ids_padded_with_minus_100": [(_INPUT_IDS, "pad(inputs, -100)")],
        "inverted_mask": [(_MASK, "1 - pad(ones, 0)")],
        "mask_of_ones": [(_MASK, "torch.ones_like(pad(inputs, 0))")],
        "mask_of_the_targets": [(_ONES, "ones = [[1] * len(row) for row in targets]")],
        "hides_the_mask_token": [(_MASK, "(pad(inputs, 0) > 6).int()")],
        "labels_from_the_inputs": [(_LABELS, "pad(inputs, -100)")],
        "cuts_to_the_shortest": [
            (_LONGEST, "longest = min(len(row) for row in rows)"),
            (_FULL, "row[:longest]"),
        ],
        "float_ids": [(_TENSOR, "return torch.tensor(full).float()")],
        "lists_for_tensors": [(_TENSOR, "return full")],
    },
    "10.2": {
        "never_sorts": [(_SORTED, "lengths[start : start + pool_size]")],
        "sorts_everything": [(_POOL_SIZE, "pool_size = len(lengths)")],
        "sorts_everything_longest_first": [
            (_POOL_SIZE, "pool_size = len(lengths)"),
            (_SORTED, "sorted(lengths, reverse=True)"),
        ],
        "pool_of_few_records": [(_POOL_SIZE, "pool_size = pool_batches")],
        "mean_of_the_shares": [
            (_PLACES, "shares = []"),
            (_ADD, "shares.append(1 - sum(batch) / (len(batch) * max(batch)))"),
            (_SHARE, "return sum(shares) / len(shares)"),
        ],
        "pads_to_the_longest_of_all": [(_ADD, "places += len(batch) * max(lengths)")],
        "pads_to_the_pool": [(_ADD, "places += len(batch) * max(pool)")],
        "pads_to_512": [(_ADD, "places += len(batch) * 512")],
        "padding_per_token": [(_SHARE, "return places / sum(lengths) - 1")],
        "share_of_real_tokens": [(_SHARE, "return sum(lengths) / places")],
        "counts_the_padding": [(_SHARE, "return places - sum(lengths)")],
        "counts_rows": [
            (_ADD, "places += sum(length < max(batch) for length in batch)"),
            (_SHARE, "return places / len(lengths)"),
        ],
        "longest_first": [(_SORTED, "sorted(lengths[start : start + pool_size], reverse=True)")],
        "fills_the_incomplete_batch": [(_ADD, "places += batch_size * max(batch)")],
        "drops_the_incomplete_batch": [
            (_PLACES, "places = real = 0"),
            (
                _ADD,
                "if len(batch) == batch_size:\n                real += sum(batch)\n"
                "                places += len(batch) * max(batch)",
            ),
            (_SHARE, "return 1 - real / places"),
        ],
        "in_percent": [(_SHARE, "return 100 - 100 * sum(lengths) / places")],
    },
    "10.3": {
        "same_noise_in_every_epoch": [(_KEY, "[seed, number]")],
        "same_noise_in_every_batch": [(_KEY, "[seed, epoch]")],
        "same_noise_always": [(_KEY, "seed")],
        "same_noise_in_all_workers": _workers("[seed, epoch]"),
        "same_noise_in_all_workers_and_epochs": _workers("seed"),
        "a_generator_for_each_worker": _workers("[seed, epoch, worker]"),
        "depends_on_the_worker": [(_KEY, "[seed, epoch, number, number % n_workers]")],
        "depends_on_the_worker_before_the_batch": [
            (_KEY, "[seed, epoch, number % n_workers, number]")
        ],
        "worker_in_place_of_the_batch": [(_KEY, "[seed, epoch, number % n_workers]")],
        "adds_the_numbers": [(_KEY, "seed + epoch + number")],
        "adds_epoch_and_batch": [(_KEY, "[seed, epoch + number]")],
        "adds_seed_and_epoch": [(_KEY, "[seed + epoch, number]")],
        "counts_from_the_start": [(_KEY, "[seed, epoch, number - start]")],
        "begins_with_batch_0": [("range(start, n_batches)", "range(n_batches)")],
        "one_generator_from_the_start": _drawn_from("np.random.default_rng([seed, epoch])"),
        "one_generator_for_all_epochs": _drawn_from("np.random.default_rng(seed)"),
        "one_generator_for_the_epoch": [
            *_drawn_from("np.random.default_rng([seed, epoch])"),
            ("range(start, n_batches)", "range(n_batches)"),
            ("return noise", "return noise[start:]"),
        ],
        "running_number": [(_KEY, "[seed, epoch * n_batches + number]")],
        "spawn_key": [(_KEY, "np.random.SeedSequence(seed, spawn_key=(epoch, number))")],
        "batch_before_epoch": [(_KEY, "[seed, number, epoch]")],
    },
    "10.4": {
        "names_the_first_only": [(_FOUND, "return found[:1]")],
        "names_what_holds": [
            (_SHAPES, 'return ["dtypes", "mask", "labels", "decoder"]\n    found = []'),
            (
                _FOUND,
                'clauses = ["shapes", "dtypes", "mask", "labels", "decoder"]\n'
                "    return [name for name in clauses if name not in found]",
            ),
        ],
        "goes_on_after_the_shapes": [
            ("    if (\n        any(t.shape", "    found = []\n    if (\n        any(t.shape"),
            (_SHAPES, 'found.append("shapes")'),
        ],
        "one_length_for_both": [(_TARGET, _TARGET.replace("target)", "source)"))],
        "demographics_of_any_shape": [(_PATIENT, "")],
        "any_whole_numbers": [
            (_FLOAT, "not x_num.is_floating_point()"),
            (_WHOLE, "t.is_floating_point() for t in whole"),
        ],
        "mask_may_be_boolean": [
            (_WHOLE, _WHOLE + " if t is not attention_mask or t.dtype != torch.bool")
        ],
        "mask_hides_padding_only_half": [(_MASKED, "attention_mask[input_ids == 0].any()")],
        "mask_shows_tokens_only_half": [(_MASKED, "(attention_mask[input_ids != 0] != 1).any()")],
        "mask_of_any_number": [(_MASKED, "(attention_mask.bool() != (input_ids != 0)).any()")],
        "counts_the_mask": [(_MASKED, "attention_mask.sum() != (input_ids != 0).sum()")],
        "inverted_mask": [(_MASKED, "(attention_mask != (input_ids == 0)).any()")],
        "labels_must_have_padding": [(_NO_PAD, "-100 not in labels")],
        "decoder_with_minus_100": [(_UNMASK, "")],
        "decoder_starts_with_bos": [(_START, "torch.full_like(labels, 1)")],
        "any_start": [(_DECODER, "(decoder_input_ids != expected)[:, 1:].any()")],
        "decoder_is_the_labels": [(_SHIFT, "expected[:] = labels")],
        "first_row_only": [
            (_MASKED, "(attention_mask != (input_ids != 0))[0].any()"),
            (_NO_PAD, "(labels == 0)[0].any()"),
            (_DECODER, "(decoder_input_ids != expected)[0].any()"),
        ],
    },
    "10.5": {
        "forgets_the_decoder": [(_ROW, "row = 8 * (2 * source + target)")],
        "forgets_the_target": [(_ROW, "row = 8 * 2 * source")],
        "forgets_the_mask": [(_ROW, "row = 8 * (source + 2 * target)")],
        "whole_numbers_of_4_bytes": [
            (_ROW, _ROW.replace("8", "4")),
            (_PATIENT_BYTES, "row += 4 + 4"),
        ],
        "mask_of_1_byte": [(_ROW, "row = 8 * (source + 2 * target) + source")],
        "mask_of_1_bit": [(_ROW, "row = 8 * (source + 2 * target) + source / 8")],
        "float_of_8_bytes": [(_PATIENT_BYTES, "row += 8 + 8")],
        "category_of_4_bytes": [(_PATIENT_BYTES, "row += 4 + 4")],
        "forgets_the_demographics": [(f"    {_PATIENT_BYTES}\n", "")],
        "demographics_once": [
            (f"    {_PATIENT_BYTES}\n", ""),
            (_BYTES, "return batch_size * row + 12"),
        ],
        "counts_numbers": [
            (_ROW, "row = 2 * source + 2 * target"),
            (_PATIENT_BYTES, "row += 1 + 1"),
        ],
        "counts_bits": [(_BYTES, "return 8 * batch_size * row")],
        "one_row": [(_BYTES, "return row")],
        "in_kilobytes": [(_BYTES, "return batch_size * row / 1024")],
    },
}
