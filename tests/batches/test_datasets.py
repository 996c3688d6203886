"""The dataset: encoded once, corrupted reproducibly, and clear about bad patients."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from ehr_course.batches.collate import check_batch
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import BatchKey, RecordDataset
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

COHORT = make_cohort(50, seed=4)
TOKENIZER = CodeTokenizer.from_records(COHORT)
SMALL = CodeTokenizer(["0389", "4019", "41401", "4280", "42731"])


def patient(*visits, subject_id=7, age=64, sex="F"):
    return PatientRecord(subject_id, sex, age, tuple(Visit(codes) for codes in visits))


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def scored(batch):
    return [row[row != -100].tolist() for row in batch["labels"]]


# ---------------------------------------------------------------------- batches


def test_a_batch_holds_the_patients_asked_for_in_that_order():
    batch = RecordDataset(COHORT, TOKENIZER).batch([11, 3, 11])
    asked = [COHORT[11], COHORT[3], COHORT[11]]
    assert scored(batch) == [TOKENIZER.encode(record) for record in asked]
    assert batch["x_num"][:, 0].tolist() == [record.age for record in asked]
    assert batch["x_cat"][:, 0].tolist() == [int(record.sex == "F") for record in asked]


def test_the_corruption_is_that_of_seed_epoch_and_number():
    dataset = RecordDataset(COHORT, TOKENIZER, seed=5)
    batch = dataset.batch([1, 2, 3], epoch=6, number=7)
    expected = Corruption().apply(
        dataset.tokens.take([1, 2, 3]),
        TOKENIZER,
        rng=np.random.default_rng([5, 6, 7]),
    )
    read = [
        ids[mask == 1].tolist()
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    assert read == expected.to_lists()


def test_another_seed_epoch_or_number_gives_another_corruption_of_the_same_targets():
    indices = range(20)
    first = RecordDataset(COHORT, TOKENIZER, seed=0).batch(indices)
    others = [
        RecordDataset(COHORT, TOKENIZER, seed=1).batch(indices),
        RecordDataset(COHORT, TOKENIZER, seed=0).batch(indices, epoch=1),
        RecordDataset(COHORT, TOKENIZER, seed=0).batch(indices, number=1),
    ]
    for other in others:
        assert torch.equal(other["labels"], first["labels"])
        assert not torch.equal(other["input_ids"].sum(), first["input_ids"].sum())
    assert same(first, RecordDataset(COHORT, TOKENIZER, seed=0).batch(indices))


def test_a_key_gives_the_batch_that_it_names():
    dataset = RecordDataset(COHORT, TOKENIZER)
    key = BatchKey(epoch=2, number=3, indices=(4, 5, 6))
    assert same(dataset[key], dataset.batch([4, 5, 6], epoch=2, number=3))


def test_the_encoded_records_cannot_be_written_to_by_mistake():
    dataset = RecordDataset(COHORT, TOKENIZER)
    with pytest.raises(ValueError, match="read-only"):
        dataset.tokens.values[0] = 5


def test_a_dataset_without_corruption_reads_what_it_writes():
    batch = RecordDataset(COHORT, TOKENIZER, corruption=Corruption(p_visit=0)).batch(range(9))
    assert torch.equal(batch["input_ids"], batch["labels"].clamp(min=0))


@pytest.mark.parametrize("indices", [[], [50], [-1], [[0, 1]], 3], ids=str)
def test_places_where_no_patient_is_are_refused(indices):
    with pytest.raises(InputError, match="numbers from 0 to 49"):
        RecordDataset(COHORT, TOKENIZER).batch(indices)


def test_it_is_a_sequence_of_patients():
    dataset = RecordDataset(COHORT, TOKENIZER)
    assert dataset[0] is COHORT[0]
    assert list(dataset) == COHORT


def test_a_plain_loader_makes_batches_of_every_patient():
    dataset = RecordDataset(COHORT, TOKENIZER, max_tokens=9, too_long="cut")
    loader = DataLoader(dataset, batch_size=20, shuffle=True, collate_fn=dataset.collate)
    batches = list(loader)
    for batch in batches:
        check_batch(batch, n_tokens=len(TOKENIZER))
    assert [len(batch["labels"]) for batch in batches] == [20, 20, 10]
    assert sorted(dataset.tokens.to_lists()) == sorted(
        row for batch in batches for row in scored(batch)
    )


def test_the_corruption_of_a_plain_loader_follows_the_seed_of_torch():
    dataset = RecordDataset(COHORT, TOKENIZER)
    torch.manual_seed(1)
    first, other = dataset.collate(COHORT), dataset.collate(COHORT)
    torch.manual_seed(1)
    assert same(dataset.collate(COHORT), first)
    assert not torch.equal(other["input_ids"].sum(), first["input_ids"].sum())


# ---------------------------------------------------------------------- records that are too long

THREE_VISITS = patient(("4280", "42731"), ("4019",), ("0389", "4280", "41401"))
# <BOS> <v> a b <\v> <v> c <\v> <v> d e f <\v> <EOS>: 14 tokens


def test_a_record_that_is_too_long_is_named_with_its_length_the_limit_and_the_way_out():
    with pytest.raises(InputError) as caught:
        RecordDataset([THREE_VISITS], SMALL, max_tokens=13)
    message = str(caught.value)
    assert "patient 7" in message
    assert "14 tokens" in message
    assert "the limit is 13" in message
    assert 'too_long="cut"' in message


@pytest.mark.parametrize("max_tokens", [14, None, 500])
def test_a_record_that_fits_is_not_cut(max_tokens):
    dataset = RecordDataset([THREE_VISITS], SMALL, max_tokens=max_tokens, too_long="cut")
    assert scored(dataset.batch([0])) == [SMALL.encode(THREE_VISITS)]
    assert dataset.cut == 0


@pytest.mark.parametrize(
    ("max_tokens", "visits"),
    [
        (13, [("4280", "42731"), ("4019",)]),
        (9, [("4280", "42731"), ("4019",)]),
        (8, [("4280", "42731")]),
        (6, [("4280", "42731")]),
        (5, [("4280",)]),  # not even the first visit fits: its first code stays
    ],
)
def test_cutting_keeps_whole_visits_from_the_start(max_tokens, visits):
    dataset = RecordDataset([THREE_VISITS], SMALL, max_tokens=max_tokens, too_long="cut")
    assert scored(dataset.batch([0])) == [SMALL.encode(patient(*visits))]
    assert dataset.cut == 1


@pytest.mark.parametrize("max_tokens", range(5, 30))
def test_cut_records_fit_are_well_formed_and_begin_like_the_whole(max_tokens):
    dataset = RecordDataset(COHORT, TOKENIZER, max_tokens=max_tokens, too_long="cut")
    check_batch(dataset.batch(range(50)), n_tokens=len(TOKENIZER))
    for record, cut in zip(COHORT, dataset.tokens.to_lists(), strict=True):
        whole = TOKENIZER.encode(record)
        assert len(cut) <= max_tokens
        visits, kept = TOKENIZER.decode(whole), TOKENIZER.decode(cut)
        assert kept[:-1] == visits[: len(kept) - 1]
        last = visits[len(kept) - 1]
        assert kept[-1] == (last if len(kept) > 1 else last[: len(kept[-1])])
        if len(kept) < len(visits):  # the next visit would not have fitted
            assert len(cut) + len(visits[len(kept)]) + 2 > max_tokens or len(kept) == 1
    assert dataset.cut == sum(len(TOKENIZER.encode(record)) > max_tokens for record in COHORT)


def test_the_ids_of_special_tokens_are_those_of_the_tokenizer():
    base = ("<s>", "<pad>", "</s>", "<unk>", "word", "<mask>")
    batch = RecordDataset(
        [THREE_VISITS, patient(("4280",))],
        CodeTokenizer(SMALL.codes, base_tokens=base),
        corruption=Corruption(p_visit=0),
        max_tokens=8,
        too_long="cut",
    ).batch([0, 1])
    assert batch["input_ids"].tolist() == [[0, 6, 12, 11, 7, 2], [0, 6, 12, 7, 2, 1]]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1, 1, 1, 1, 1, 0]]
    assert batch["decoder_input_ids"].tolist() == [[2, 0, 6, 12, 11, 7], [2, 0, 6, 12, 7, 2]]
    assert batch["labels"].tolist() == [[0, 6, 12, 11, 7, 2], [0, 6, 12, 7, 2, -100]]


# ---------------------------------------------------------------------- unseen codes


def test_an_unseen_code_raises_as_the_tokenizer_says():
    with pytest.raises(InputError, match="V103"):
        RecordDataset([patient(("V103",))], SMALL)


def test_under_skip_a_patient_of_unseen_codes_alone_is_dropped_and_counted():
    skipping = CodeTokenizer(SMALL.codes, unseen="skip")
    patients = [
        patient(("V103",), subject_id=1),
        patient(("V103",), ("4280", "V103"), subject_id=2),
        patient(("V103",), ("V104",), subject_id=3),
    ]
    dataset = RecordDataset(patients, skipping)
    assert [record.subject_id for record in dataset.records] == [2]
    assert dataset.skipped == 2
    assert scored(dataset.batch([0])) == [SMALL.encode([["4280"]])]


def test_when_every_patient_would_be_dropped_the_dataset_is_refused():
    skipping = CodeTokenizer(SMALL.codes, unseen="skip")
    with pytest.raises(InputError, match="none of the codes of these 1 patients"):
        RecordDataset([patient(("V103",))], skipping)


# ---------------------------------------------------------------------- bad input


def test_a_dataset_of_no_patients_is_refused():
    with pytest.raises(InputError, match="records: the list is empty"):
        RecordDataset([], SMALL)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1},
        {"seed": 2**32},
        {"seed": 0.5},
        {"max_tokens": 4},
        {"max_tokens": 0},
        {"too_long": "drop"},
    ],
    ids=str,
)
def test_options_out_of_their_range_are_refused(options):
    with pytest.raises(InputError, match=f"RecordDataset, {next(iter(options))}"):
        RecordDataset(COHORT, TOKENIZER, **options)


def test_a_vocabulary_of_one_code_is_refused_where_codes_are_replaced():
    one = CodeTokenizer(["4280"])
    with pytest.raises(InputError, match="no second code"):
        RecordDataset([patient(("4280",))], one)
