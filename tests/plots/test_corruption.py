"""A patient before and after corruption: the alignment, the words and the picture."""

import matplotlib.text
import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch

from ehr_course.batches.corruption import STRATEGIES, Corruption
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.plots.corruption import (
    Fate,
    align,
    corrupt_visits,
    describe_corruption,
    draw_corruption,
    summarise,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

CLEAN = ["4280", "486", "5849", "0389"]
HEART = PatientRecord(1, "F", 64, (Visit(("4280", "42731")), Visit(("V4581",))))
STRONG = Corruption(p_visit=1, p_delete=0.5, p_replace=0.5)


def fates(steps):
    return [step.fate for step in steps]


def texts(picture):
    return [text for text in picture.findobj(matplotlib.text.Text) if text.get_text().strip()]


# ---------------------------------------------------------------------- alignment


def test_a_mask_stands_under_the_first_code_of_its_span():
    steps = align(CLEAN, ["4280", "<mask>", "0389"])
    assert [step.after for step in steps] == ["4280", "<mask>", "", "0389"]
    assert fates(steps) == [Fate.KEPT, Fate.HIDDEN, Fate.HIDDEN, Fate.KEPT]


def test_a_mask_for_the_whole_visit():
    assert fates(align(["4280"], ["<mask>"])) == [Fate.HIDDEN]


def test_deleted_codes_leave_gaps():
    steps = align(CLEAN, ["486", "0389"])
    assert fates(steps) == [Fate.DELETED, Fate.KEPT, Fate.DELETED, Fate.KEPT]


def test_replaced_codes_stand_under_the_old_ones():
    steps = align(CLEAN, ["4280", "25000", "5849", "V103"])
    assert fates(steps) == [Fate.KEPT, Fate.REPLACED, Fate.KEPT, Fate.REPLACED]


@pytest.mark.parametrize("other", [["25000"], [*CLEAN, "25000"], ["25000", "<mask>"]])
def test_what_is_no_corruption_is_refused(other):
    with pytest.raises(ValueError, match="is no corruption of"):
        align(CLEAN, other)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_aligned_is_what_the_library_corrupts(patient, code_tokenizer, strategy):
    corruption = Corruption(p_visit=1, p_delete=0.5, p_replace=0.5, strategies=(strategy,))
    for seed in range(5):
        visits = corrupt_visits(patient, code_tokenizer, corruption, seed=seed)
        clean = Ragged.from_lists([code_tokenizer.encode(patient)])
        corrupted = corruption.apply(clean, code_tokenizer, rng=np.random.default_rng(seed))
        tokens = code_tokenizer.tokens(corrupted.values)
        assert [step.before for steps in visits for step in steps] == list(patient.codes)
        assert [step.after for steps in visits for step in steps if step.after] == [
            token for token in tokens if token not in ("<BOS>", "<v>", "<\\v>", "<EOS>")
        ]


def test_an_empty_record_cannot_be_laid_under_a_clean_one(code_tokenizer):
    with pytest.raises(InputError, match="p_empty"):
        corrupt_visits(HEART, code_tokenizer, Corruption(p_empty=0.5), seed=0)


# ---------------------------------------------------------------------- words


def test_the_title_counts_what_is_gone():
    visits = [
        align(CLEAN, ["4280", "<mask>", "0389"]),
        align(CLEAN, ["486", "5849", "0389"]),
        align(CLEAN, ["4280", "25000", "5849", "V103"]),
    ]
    assert summarise(visits) == "5 of 12 codes are gone: 2 hidden, 1 deleted and 2 replaced"


def test_a_title_for_nothing_corrupted():
    assert summarise([align(CLEAN, CLEAN)]) == "Nothing is corrupted: 4 codes as before"


def test_the_alternative_text():
    visits = [align(["42731"], ["42731"]), align(CLEAN, ["4280", "<mask>", "0389"])]
    assert describe_corruption(visits) == (
        "A patient of 2 visits before and after corruption, 1 of them corrupted. 2 of 5 codes "
        "are gone: 2 hidden behind 1 <mask>; 486, for instance, is hidden."
    )


# ---------------------------------------------------------------------- the picture


def test_drawing_twice_gives_the_same_bytes(patient, code_tokenizer):
    first, second = (draw_corruption(patient, code_tokenizer, STRONG, seed=3) for _ in range(2))
    assert first.png() == second.png()


def test_another_seed_gives_another_picture(code_tokenizer):
    alternatives = {
        draw_corruption(HEART, code_tokenizer, STRONG, seed=seed).alternative_text
        for seed in range(8)
    }
    assert len(alternatives) > 1


def test_the_picture_carries_title_and_alternative_text(patient, code_tokenizer):
    picture = draw_corruption(patient, code_tokenizer, STRONG, seed=1)
    visits = corrupt_visits(patient, code_tokenizer, STRONG, seed=1)
    assert picture.alternative_text == describe_corruption(visits)
    assert summarise(visits) in [text.get_text() for text in texts(picture)]


def test_every_clean_and_every_corrupted_token_is_shown(code_tokenizer):
    infilling = Corruption(p_visit=1, strategies=("infill",))
    picture = draw_corruption(HEART, code_tokenizer, infilling, seed=0)
    shown = sorted(t.get_text() for t in texts(picture) if not t.get_parse_math())
    visits = corrupt_visits(HEART, code_tokenizer, infilling, seed=0)
    after = [step.after for steps in visits for step in steps if step.after]
    assert shown == sorted([*HEART.codes, *after, *["<v>", "<\\v>"] * 4])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_text_is_cut_off_and_no_text_lies_on_another(patient, code_tokenizer, strategy, drawn):
    corruption = Corruption(p_visit=1, p_delete=0.5, p_replace=0.5, strategies=(strategy,))
    result = drawn(draw_corruption(patient, code_tokenizer, corruption, seed=2))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_token_fits_its_box(patient, code_tokenizer, strategy, drawn):
    corruption = Corruption(p_visit=1, p_delete=0.5, p_replace=0.5, strategies=(strategy,))
    picture = draw_corruption(patient, code_tokenizer, corruption, seed=2)
    result = drawn(picture)
    frames = [result.extent(box) for box in picture.findobj(FancyBboxPatch)]
    for extent in (result.extent(text) for text in result.texts if not text.get_parse_math()):
        x, y = (extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2
        around = [frame for frame in frames if frame.contains(x, y)]
        assert around
        assert all(f.x0 <= extent.x0 and extent.x1 <= f.x1 for f in around)


def test_what_does_not_fit_is_said(code_tokenizer):
    picture = draw_corruption(HEART, code_tokenizer, STRONG, seed=0, most_lines=1)
    # the second visit: <v> V4581 <\v>
    assert "and 3 more tokens" in [text.get_text() for text in texts(picture)]


def test_an_unseen_code_raises_under_the_policy_raise():
    with pytest.raises(InputError, match="42731"):
        draw_corruption(HEART, CodeTokenizer(["4280", "V4581"]), STRONG, seed=0)
