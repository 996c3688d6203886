"""The drawings of lesson 09 show the objects that they are given, and can be read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch

from ehr_course.batches.collate import shift_right
from ehr_course.batches.corruption import Corruption, span_lengths
from ehr_course.batches.datasets import RecordDataset
from ehr_course.plots.drawings.corruption import draw_kinds, draw_places, draw_spans
from ehr_course.plots.drawings.corruption_traps import (
    draw_lost_input,
    draw_marks,
    draw_special_tokens,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

SHORT = ("4280", "42731", "486", "5849", "0389")
LONG = tuple(f"V58{i:02}" for i in range(25))
RECORDS = [
    PatientRecord(1, "F", 64, (Visit(SHORT),)),
    PatientRecord(2, "M", 50, (Visit(SHORT[:2]), Visit(SHORT[1:4]))),
    PatientRecord(3, "M", 70, (Visit(LONG),)),
]
CODES = CodeTokenizer.from_records(RECORDS)


def said(picture) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def batch_of(strategy: str, *, leak: bool = False, seed: int = 0):
    corruption = Corruption(p_visit=1.0, p_delete=0.4, p_replace=0.4, strategies=[strategy])
    data = RecordDataset(RECORDS, CODES, corruption=corruption, seed=seed)
    batch = data.batch(range(len(data)))
    if leak:
        ids = batch["input_ids"]
        batch["labels"] = ids.masked_fill(ids == 0, -100)
        batch["decoder_input_ids"] = shift_right(ids)
    return data.tokens.to_lists(), batch


@pytest.mark.parametrize("row", range(len(RECORDS)))
@pytest.mark.parametrize("strategy", ["infill", "delete", "replace"])
@pytest.mark.parametrize("leak", [False, True])
def test_the_four_rows_can_be_read_whatever_the_damage(row, strategy, leak):
    clean, batch = batch_of(strategy, leak=leak)
    assert label_problems(draw_places(CODES, clean[row], batch, row)) == []


@pytest.mark.parametrize("row", [0, 1])
def test_the_four_rows_show_the_tokens_of_the_batch(row):
    clean, batch = batch_of("infill")
    picture = draw_places(CODES, clean[row], batch, row)
    expected = list(CODES.tokens(clean[row]))
    expected += CODES.tokens([i for i in batch["input_ids"][row].tolist() if i])
    expected += CODES.tokens([i for i in batch["labels"][row].tolist() if i >= 0])
    n_labels = int((batch["labels"][row] >= 0).sum())
    expected += CODES.tokens(batch["decoder_input_ids"][row, :n_labels].tolist())
    drawn = [text for text in said(picture) if text in CODES.tokens(range(len(CODES)))]
    assert sorted(drawn) == sorted(expected)
    assert f"A record of {len(clean[row])} tokens" in picture.alternative_text
    assert f"all {n_labels} labels are those of the clean record" in picture.alternative_text


def test_a_leak_is_named_in_title_and_alternative_text():
    clean, batch = batch_of("infill", leak=True)
    picture = draw_places(CODES, clean[0], batch, 0)
    n_labels = int((batch["labels"][0] >= 0).sum())
    assert "A leak: the damage is in the labels too, and <mask> counts as right" in said(picture)
    assert f"1 of {n_labels} labels belongs to the damage" in picture.alternative_text


def test_every_label_is_read_one_place_further_right():
    clean, batch = batch_of("infill", leak=True)
    picture = draw_places(CODES, clean[0], batch, 0)
    arrows = [
        a for a in picture.findobj(FancyArrowPatch) if to_hex(a.get_edgecolor()) == "#9aa3b0"
    ]
    assert len(arrows) == int((batch["labels"][0] >= 0).sum()) - 1
    ends = [arrow._posA_posB for arrow in arrows]
    assert all(start[0] < end[0] for start, end in ends)


def test_a_leak_by_deletion_is_named_though_no_label_looks_wrong():
    clean, batch = batch_of("delete", leak=True)
    lacking = [len(c) - int((y >= 0).sum()) for c, y in zip(clean, batch["labels"], strict=True)]
    row = max(range(len(lacking)), key=lacking.__getitem__)
    missing = lacking[row]
    assert missing > 0
    picture = draw_places(CODES, clean[row], batch, row)
    assert label_problems(picture) == []
    title = next(text for text in said(picture) if text.startswith("A leak without a trace"))
    assert f"{missing} code" in title
    assert f"lack {missing} of the {len(clean[row])} tokens" in picture.alternative_text


@pytest.mark.parametrize("mean", [1.0, 3.0])
def test_the_spans_show_their_own_shares(mean):
    drawn = span_lengths(20_000, mean=mean, rng=np.random.default_rng(0))
    cut = np.minimum(drawn, 3)
    picture = draw_spans(drawn, cut, mean)
    assert label_problems(picture) == []
    assert f"as drawn: mean {drawn.mean():.2f}" in said(picture)
    assert f"cut to the visits: mean {cut.mean():.2f}" in said(picture)
    assert f"{(drawn == 1).mean():.0%}" in said(picture)
    assert any(f"cut to the visits, {(cut == 1).mean():.0%} do" in text for text in said(picture))
    assert f"{(drawn >= 5).mean():.1%} hide 5 or more" in picture.alternative_text


@pytest.mark.parametrize("codes", [SHORT, LONG[:9], LONG])
def test_the_kinds_of_damage_show_each_copy_and_its_length(codes):
    visit = [CODES.code_to_id(code) for code in codes]
    damaged = {
        "infilled": [[visit[0], CODES.mask_id, *visit[3:]]],
        "deleted": [visit[1:], visit[:-2]],
        "replaced": [[CODES.code_to_id("V5803"), *visit[1:]]],
    }
    picture = draw_kinds(CODES, visit, damaged)
    assert label_problems(picture) == []
    n = len(visit)
    assert [text for text in said(picture) if text in {str(n - k) for k in range(4)}] == [
        str(n), str(n - 1), str(n - 1), str(n - 2), str(n)
    ]  # fmt: skip
    assert f"deleted to {n - 1} and {n - 2}" in picture.alternative_text


@pytest.mark.parametrize("scored", [[3], [2, 4], [5]])
@pytest.mark.parametrize("n_codes", [3, 4])
def test_the_decoders_input_shows_what_is_lost_and_where_it_hurts(n_codes, scored):
    clean = torch.tensor(CODES.encode(PatientRecord(1, "F", 64, (Visit(SHORT[:n_codes]),))))
    places = range(len(clean))
    labels = clean.masked_fill(torch.tensor([i not in scored for i in places]), -100)
    shifted = shift_right(clean[None])[0]
    kept = {0, *(i + 1 for i in scored)}
    from_labels = shifted.masked_fill(torch.tensor([i not in kept for i in places]), 0)
    picture = draw_lost_input(CODES, labels, from_labels, shifted)
    assert label_problems(picture) == []
    lost = [i for i in places if i not in kept]
    hurting = [i for i in lost if i <= max(scored)]
    title = said(picture)[0]
    assert f"loses {len(lost)} of {len(clean)} tokens, and {len(hurting)} of these" in title
    assert f"{len(lost)} token" in picture.alternative_text
    assert f"{len(lost) - len(hurting)} behind the last one" in picture.alternative_text
    assert said(picture).count("-100") == len(clean) - len(scored)
    assert said(picture).count("<PAD>") == len(lost)
    runs = sum(i - 1 not in hurting for i in hurting)
    assert said(picture).count("hurts") == runs
    assert said(picture).count("harmless") == (len(lost) > len(hurting))


@pytest.mark.parametrize(("width", "found"), [(2, 1), (1, 2)])
def test_a_mask_over_the_input_shows_what_it_hits(width, found):
    clean = CODES.encode(RECORDS[1])
    assert clean[5] == CODES.visit_start_id
    inputs = [*clean[:2], CODES.mask_id, *clean[2 + width : 6], CODES.mask_id, *clean[7:]]
    inputs += [CODES.pad_id] * (len(clean) - len(inputs))
    hidden = [*range(2, 2 + width), 6]
    picture = draw_marks(CODES, torch.tensor(inputs), torch.tensor(clean), hidden)
    assert label_problems(picture) == []
    assert (
        f"Looking for <mask> in the input finds {found} of the {len(hidden)} hidden codes"
        in said(picture)
    )
    assert f"they mark {found} hidden code" in picture.alternative_text
    assert f"of which {len(hidden) - found} are missed" in picture.alternative_text
    assert said(picture).count("found") == found
    assert said(picture).count("missed") == len(hidden) - found
    assert said(picture).count("wrong") == 2 - found
    assert ("padding: hides the error" in said(picture)) == (width > 1)


@pytest.mark.parametrize("codes", [SHORT, LONG])
@pytest.mark.parametrize("spoilt", [1, 3])
def test_special_tokens_among_the_codes_are_counted(codes, spoilt):
    visit = [CODES.code_to_id(code) for code in codes]
    naive = np.tile(visit, (4, 1))
    naive[:spoilt, 1] = CODES.pad_id
    picture = draw_special_tokens(CODES, visit, naive, visit[::-1], 0)
    assert label_problems(picture) == []
    assert f"{spoilt / 4:.0%} of such visits" in said(picture)[0]
    assert "<PAD>" in picture.alternative_text and f"{spoilt / 4:.0%}" in picture.alternative_text
    assert said(picture).count("<PAD>") == 1
    # All codes but the second are drawn as themselves.
    itself = ", ".join(CODES.tokens(visit[:1] + visit[2:]))
    assert f"Replaced by itself: {itself}." in picture.alternative_text
    assert any("or the same code again" in text for text in said(picture))
    others = np.tile([*visit[1:], visit[0]], (4, 1))
    picture = draw_special_tokens(CODES, visit, others, visit[::-1], 0)
    assert "Replaced by itself: none." in picture.alternative_text
    assert not any("the same code again" in text for text in said(picture))
