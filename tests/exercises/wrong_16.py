"""Lesson 16: each misconception as a change to the worked answer."""

_KEYS = "keys = states @ w_h.T"
_ASKED = "asked = query @ w_d.T"
_ENERGY = "energy = torch.tanh(keys + asked[:, None])"
_SCORES = "scores = energy @ v"
_MASKED = "scores = scores.masked_fill(mask == 0, -torch.inf)"
_WEIGHTS = "weights = scores.softmax(dim=1)"
_CONTEXT = "context = (weights[:, :, None] * states).sum(dim=1)"
_BOTH = "return weights, context"
_NOT_MASKED = (_MASKED, "pass")

_FEATURES = "torch.cat([context, state, embedded], dim=1)"
_LOGIT = "logit = features @ weight + bias"
_SIGMOID = "return torch.sigmoid(logit)"

_GATE = "gate = p_gen[:, None]"
_OUTSIDE = "outside = torch.zeros(len(p_vocab), n_outside)"
_GENERATED = "generated = torch.cat([gate * p_vocab, outside], dim=1)"
_COPIED = "copied = (1 - gate) * attention"
_ADDED = "return generated.scatter_add(1, ids, copied)"
_WIDE_COPY = (
    "wide = torch.cat([p_vocab, outside], dim=1)\n"
    "    copy = torch.zeros_like(wide).scatter_add(1, ids, attention)\n    "
)

_NEW = "if word not in known and word not in outside:"
_FIND = f"    for word in note:\n        {_NEW}"
_EXTENDED = "extended = {word: first + i for i, word in enumerate(outside)}"
_FIRST = "first = len(vocabulary)"
_NOTE_IDS = "note_ids = [ids[word] for word in note]"
_SUMMARY_IDS = "summary_ids = [ids.get(word, 0) for word in summary]"
_EACH_TIME = (
    "places = iter(range(first, first + len(note)))\n"
    "    note_ids = [known[w] if w in known else next(places) for w in note]"
)

_LOG_VOCAB = "log_vocab = logits.log_softmax(dim=1)"
_HERE = "here = (ids == targets[:, None]) & scores.isfinite()"
_LOG_ATTENTION = "log_attention = scores.log_softmax(dim=1)"
_SOFTMAX_OF_LOGITS = (_LOG_VOCAB, "log_vocab = logits.softmax(dim=1).log()")
_SOFTMAX_OF_SCORES = (_LOG_ATTENTION, "log_attention = scores.softmax(dim=1).log()")
_PLACES = "places = log_attention.masked_fill(~here, -torch.inf)"
_FILLS = {"100": "-100", "10000": "-1e4", "a_billion": "-1e9"}
_COPIED_LOG = "copied = places.logsumexp(dim=1)"
_WAYS = "ways = logsigmoid(gate) + generated, logsigmoid(-gate) + copied"
_LOG_P = "log_p = torch.logaddexp(*ways)"
_MEAN = "return -log_p.mean()"
_NO_LONGER_KNOWN = "generated = generated.masked_fill(~inside, -torch.inf)"
_BY_PROBABILITIES = (
    "copy = (scores.softmax(1) * (ids == targets[:, None])).sum(1)\n"
    "    p_gen = gate.sigmoid()\n"
    "    vocab = logits.softmax(1).gather(1, known[:, None])[:, 0] * inside\n"
    "    p = p_gen * vocab + (1 - p_gen) * copy\n"
)

_WIDE = "wide = pad(tokens, (0, n * chunk - source))"
_FOLDED = "folded = wide.reshape(batch, n, chunk)"
_INSIDE = "inside = (lengths[:, None] - starts).clamp(0, chunk)"
_UNFOLDED = "states = states.reshape(batch, n * chunk, 2)"
_LAST = "last = (lengths - 1) // chunk"
_FORWARDS = "forwards = ends[torch.arange(batch), last, 0]"
_BACKWARDS = "backwards = ends[:, 0, 1]"
_BACK_LAST = "backwards = ends[torch.arange(batch), last, 1]"
_CUT = "return states[:, :source], end"
_EVERY_NTH = (_FOLDED, "folded = wide.reshape(batch, chunk, n).transpose(1, 2)")

WRONG = {
    "16.1": {
        "mask_after_the_softmax": [
            _NOT_MASKED,
            (_WEIGHTS, "weights = scores.softmax(dim=1) * mask"),
        ],
        "mask_after_the_softmax_and_divided_again": [
            _NOT_MASKED,
            (
                _WEIGHTS,
                "weights = scores.softmax(dim=1) * mask\n"
                "    weights = weights / weights.sum(dim=1, keepdim=True)",
            ),
        ],
        "mask_ignored": [_NOT_MASKED],
        "mask_inverted": [("mask == 0", "mask == 1")],
        "scores_of_0": [(_MASKED, "scores = scores * mask")],
        "mask_before_the_tanh": [
            _NOT_MASKED,
            (_KEYS, f"{_KEYS}\n    keys = keys.masked_fill((mask == 0)[..., None], -torch.inf)"),
        ],
        "minus_100": [("-torch.inf", "-100")],
        "minus_10000": [("-torch.inf", "-1e4")],
        "minus_a_billion": [("-torch.inf", "-1e9")],
        "minus_1e20": [("-torch.inf", "-1e15")],
        "lowered_by_10000": [(_MASKED, "scores = scores - (1 - mask) * 1e4")],
        "lowered_by_1e20": [(_MASKED, "scores = scores + (1 - mask) * -1e15")],
        "softmax_over_the_batch": [(_WEIGHTS, "weights = scores.softmax(dim=0)")],
        "tanh_forgotten": [(_ENERGY, "energy = keys + asked[:, None]")],
        "tanh_after_v": [
            (_ENERGY, "energy = keys + asked[:, None]"),
            (_SCORES, "scores = torch.tanh(energy @ v)"),
        ],
        "dot_product": [(_ENERGY, "energy = torch.tanh(keys * asked[:, None])")],
        "scaled": [(_SCORES, "scores = energy @ v / len(v) ** 0.5")],
        "query_not_transposed": [(_ASKED, "asked = query @ w_d")],
        "query_forgotten": [(_ENERGY, "energy = keys.tanh() + asked.tanh()[:, None]")],
        "context_of_the_keys": [(_CONTEXT, _CONTEXT.replace("states", "keys"))],
        "context_is_a_mean": [(_CONTEXT, _CONTEXT.replace(".sum(", ".mean("))],
        "context_first": [(_BOTH, "return context, weights")],
        "weights_alone": [(_BOTH, "return weights")],
    },
    "16.2": {
        "state_first": [(_FEATURES, "torch.cat([state, context, embedded], dim=1)")],
        "embedding_first": [(_FEATURES, "torch.cat([embedded, context, state], dim=1)")],
        "embedding_before_the_state": [
            (_FEATURES, "torch.cat([context, embedded, state], dim=1)")
        ],
        "embedding_first_context_last": [
            (_FEATURES, "torch.cat([embedded, state, context], dim=1)")
        ],
        "context_last": [(_FEATURES, "torch.cat([state, embedded, context], dim=1)")],
        "bias_forgotten": [(_LOGIT, "logit = features @ weight")],
        "bias_of_each_feature": [(_LOGIT, "logit = (features * weight + bias).sum(dim=1)")],
        "bias_subtracted": [(_LOGIT, "logit = features @ weight - bias")],
        "bias_after_the_sigmoid": [
            (_LOGIT, "logit = features @ weight"),
            (_SIGMOID, "return torch.sigmoid(logit) + bias"),
        ],
        "no_sigmoid": [(_SIGMOID, "return logit")],
        "softmax": [(_SIGMOID, "return logit.softmax(dim=0)")],
        "tanh": [(_SIGMOID, "return torch.tanh(logit)")],
        "probability_of_copying": [(_SIGMOID, "return 1 - torch.sigmoid(logit)")],
        "one_gate_a_feature": [(_LOGIT, "logit = features * weight + bias")],
        "mean_of_the_products": [(_LOGIT, "logit = (features * weight).mean(dim=1) + bias")],
        "mean_of_the_gates": [
            (_LOGIT, "logit = features * weight + bias"),
            (_SIGMOID, "return torch.sigmoid(logit).mean(dim=1)"),
        ],
        "one_dimension_too_many": [(_LOGIT, "logit = features @ weight[:, None] + bias")],
    },
    "16.3": {
        "last_place_alone": [
            (
                _ADDED,
                "rows = torch.arange(len(ids))[:, None]\n"
                "    generated[rows, ids] += copied\n"
                "    return generated",
            )
        ],
        "first_place_alone": [
            (
                _ADDED,
                "rows = torch.arange(len(ids))[:, None]\n"
                "    generated[rows, ids.flip(1)] += copied.flip(1)\n"
                "    return generated",
            )
        ],
        "largest_place_alone": [
            (
                _ADDED,
                "nothing = torch.zeros_like(generated)\n"
                '    return generated + nothing.scatter_reduce(1, ids, copied, "amax")',
            )
        ],
        "generated_part_overwritten": [(_ADDED, _ADDED.replace("scatter_add", "scatter"))],
        "p_gen_swapped": [(_GATE, "gate = 1 - p_gen[:, None]")],
        "copy_not_weighted": [(_COPIED, "copied = attention")],
        "vocabulary_not_weighted": [
            (_GENERATED, "generated = torch.cat([p_vocab, outside], dim=1)")
        ],
        "both_by_p_gen": [(_COPIED, "copied = gate * attention")],
        "half_and_half": [(_GATE, "gate = 0.5")],
        "hard_switch": [(_GATE, "gate = (p_gen > 0.5).float()[:, None]")],
        "product": [(_ADDED, f"{_WIDE_COPY}return wide**gate * copy ** (1 - gate)")],
        "softmax_again": [(_ADDED, f"{_ADDED}.softmax(dim=1)")],
        "outside_as_unknown": [
            (_ADDED, "ids = ids.where(ids < p_vocab.shape[1], 0)\n    " + _ADDED)
        ],
        "outside_left_out": [
            (
                _ADDED,
                "mixed = generated.scatter_add(1, ids, copied)\n"
                "    return torch.cat([mixed[:, : p_vocab.shape[1]], outside], dim=1)",
            )
        ],
        "no_room_for_the_outside": [(_ADDED, f"{_ADDED}[:, : p_vocab.shape[1]]")],
        "places_for_ids": [
            (
                _ADDED,
                "width = min(copied.shape[1], generated.shape[1])\n"
                "    generated[:, :width] += copied[:, :width]\n"
                "    return generated",
            )
        ],
    },
    "16.4": {
        "outside_is_unknown": [
            (_NOTE_IDS, "note_ids = [known.get(word, 0) for word in note]"),
            (_SUMMARY_IDS, "summary_ids = [known.get(word, 0) for word in summary]"),
        ],
        "starts_one_too_late": [(_FIRST, "first = len(vocabulary) + 1")],
        "starts_one_too_early": [(_FIRST, "first = len(vocabulary) - 1")],
        "starts_at_0": [(_FIRST, "first = 0")],
        "a_new_id_each_time": [(_NEW, "if word not in known:"), (_NOTE_IDS, _EACH_TIME)],
        "a_new_id_each_time_and_the_first_in_the_summary": [
            (_NEW, "if word not in known:"),
            (_NOTE_IDS, _EACH_TIME),
            (_EXTENDED, "extended = {word: first + outside.index(word) for word in outside}"),
        ],
        "sorted": [(_FIRST, f"outside.sort()\n    {_FIRST}")],
        "place_in_the_note": [
            (_EXTENDED, "extended = {word: first + note.index(word) for word in outside}")
        ],
        "known_words_too": [(_NEW, "if word not in outside:")],
        "summary_unknown": [
            (_SUMMARY_IDS, "summary_ids = [known.get(word, 0) for word in summary]")
        ],
        "words_of_the_summary_too": [(_FIND, _FIND.replace("in note:", "in note + summary:"))],
        "summary_first": [(_FIND, _FIND.replace("in note:", "in summary + note:"))],
        "unknown_left_out": [
            (_SUMMARY_IDS, "summary_ids = [ids[word] for word in summary if word in ids]")
        ],
        "outside_of_the_summary_alone": [
            (_NEW, "if word in summary and word not in known and word not in outside:"),
            (_NOTE_IDS, "note_ids = [ids.get(word, 0) for word in note]"),
        ],
    },
    "16.5": {
        "probability_kept_from_0_by_1e_8": [
            (_LOG_P, f"{_BY_PROBABILITIES}    log_p = (p + 1e-8).log()")
        ],
        "probability_kept_from_0_by_1e_10": [
            (_LOG_P, f"{_BY_PROBABILITIES}    log_p = p.clamp(min=1e-10).log()")
        ],
        "probability_kept_from_0_by_1e_12": [
            (_LOG_P, f"{_BY_PROBABILITIES}    log_p = (p + 1e-12).log()")
        ],
        "logarithm_of_the_mixture": [(_LOG_P, f"{_BY_PROBABILITIES}    log_p = p.log()")],
        "logarithm_of_the_copied_sum": [
            (_COPIED_LOG, "copied = (scores.softmax(dim=1) * here).sum(dim=1).log()")
        ],
        "logarithm_of_a_softmax_of_logits": [_SOFTMAX_OF_LOGITS],
        "logarithm_of_a_softmax_of_scores": [_SOFTMAX_OF_SCORES],
        "logarithm_of_a_softmax_of_both": [_SOFTMAX_OF_LOGITS, _SOFTMAX_OF_SCORES],
        "logarithm_of_the_sigmoid": [
            (
                _WAYS,
                "p_gen = gate.sigmoid()\n"
                "    ways = p_gen.log() + generated, (1 - p_gen).log() + copied",
            )
        ],
        **{
            f"closed_ways_minus_{name}": [
                (_NO_LONGER_KNOWN, _NO_LONGER_KNOWN.replace("-torch.inf", fill)),
                (_PLACES, _PLACES.replace("-torch.inf", fill)),
            ]
            for name, fill in _FILLS.items()
        },
        **{
            f"no_place_minus_{name}": [(_PLACES, _PLACES.replace("-torch.inf", fill))]
            for name, fill in _FILLS.items()
        },
        "copied_if_in_the_note": [
            (_LOG_P, "log_p = torch.where(here.any(dim=1), ways[1], ways[0])")
        ],
        "generated_if_known": [(_LOG_P, "log_p = torch.where(inside, ways[0], ways[1])")],
        "likelier_way_alone": [(_LOG_P, "log_p = torch.maximum(*ways)")],
        "masked_places": [(_HERE, "here = ids == targets[:, None]")],
        "largest_place_alone": [(_COPIED_LOG, "copied = places.amax(dim=1)")],
        "scores_not_normalised": [(_LOG_ATTENTION, "log_attention = scores")],
        "logits_not_normalised": [(_LOG_VOCAB, "log_vocab = logits")],
        "outside_generated_as_unknown": [(_NO_LONGER_KNOWN, "pass")],
        "generated_alone": [(_NO_LONGER_KNOWN, "pass"), (_LOG_P, "log_p = generated")],
        "copied_alone": [(_LOG_P, "log_p = copied")],
        "gate_swapped": [
            (_WAYS, "ways = logsigmoid(-gate) + generated, logsigmoid(gate) + copied")
        ],
        "gate_left_out": [(_WAYS, "ways = generated, copied")],
        "mean_of_the_logarithms": [
            (_LOG_P, "log_p = gate.sigmoid() * generated + (1 - gate.sigmoid()) * copied")
        ],
        "sum_of_the_losses": [(_MEAN, "return -log_p.sum()")],
        "opposite_sign": [(_MEAN, "return log_p.mean()")],
    },
    "16.6": {
        "whole": [(_WIDE, "return read(tokens, lengths)")],
        "every_nth_token": [
            _EVERY_NTH,
            (_UNFOLDED, "states = states.transpose(1, 2).reshape(batch, n * chunk, 2)"),
        ],
        "every_nth_token_not_put_back": [_EVERY_NTH],
        "notes_mixed": [
            (
                _UNFOLDED,
                "states = states.reshape(n, batch, chunk, 2).transpose(0, 1)\n"
                "    states = states.reshape(batch, n * chunk, 2)",
            )
        ],
        "chunks_reversed": [(_UNFOLDED, _UNFOLDED.replace("states.re", "states.flip(1).re"))],
        "chunks_of_even_size": [(_WIDE, f"chunk = -(-source // n)\n    {_WIDE}")],
        "padding_of_shorter_notes_read": [
            (_INSIDE, "inside = (source - starts).clamp(0, chunk).repeat(batch, 1)"),
            (_LAST, "last = torch.full((batch,), n - 1)"),
        ],
        "padding_read": [(_INSIDE, "inside = torch.full((batch, n), chunk)")],
        "empty_chunks_read": [(_INSIDE, _INSIDE.replace("clamp(0,", "clamp(1,"))],
        "lengths_of_the_first_chunk": [
            (_INSIDE, "inside = lengths[:, None].clamp(max=chunk).repeat(1, n)")
        ],
        "forwards_from_the_first_chunk": [(_FORWARDS, "forwards = ends[:, 0, 0]")],
        "backwards_from_the_last_chunk": [(_BACKWARDS, _BACK_LAST)],
        "ends_swapped": [(_FORWARDS, "forwards = ends[:, 0, 0]"), (_BACKWARDS, _BACK_LAST)],
        "last_chunk_of_the_batch": [(_FORWARDS, "forwards = ends[:, -1, 0]")],
        "last_chunk_counted_wrong": [(_LAST, "last = lengths // chunk")],
        "mean_of_the_ends": [
            (_FORWARDS, "forwards = ends[:, :, 0].sum(1) / (last + 1)"),
            (_BACKWARDS, "backwards = ends[:, :, 1].sum(1) / (last + 1)"),
        ],
        "width_of_the_longest_note": [(_CUT, "return states[:, : lengths.max()], end")],
        "width_of_the_chunks": [(_CUT, "return states, end")],
    },
}
