"""The code tokenizer: ids, encoding, decoding, unseen codes, its file."""

import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

PAD, BOS, EOS, START, STOP, END, MASK = range(7)


@pytest.fixture
def tokenizer():
    return CodeTokenizer(["V3001", "4280", "0389", "E8497", "42731"])


def patient(*visits, subject_id=1):
    return PatientRecord(subject_id, "F", 64, tuple(Visit(tuple(codes)) for codes in visits))


def random_patients(n, seed):
    rng = random.Random(seed)
    vocabulary = [f"{number:03d}{rng.randrange(100):02d}" for number in range(1, 200)]
    return [
        patient(
            *(rng.sample(vocabulary, rng.randint(1, 12)) for _ in range(rng.randint(1, 5))),
            subject_id=i,
        )
        for i in range(n)
    ]


# ---------------------------------------------------------------------- the vocabulary


def test_special_tokens_have_the_ids_of_chapter_07(tokenizer):
    names = ["<PAD>", "<BOS>", "<EOS>", "<v>", "<\\v>", "<END>", "<mask>"]
    assert [tokenizer.id_to_token(i) for i in range(7)] == names
    assert list(SPECIAL_TOKENS) == names
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2)
    assert (tokenizer.visit_start_id, tokenizer.visit_end_id) == (3, 4)
    assert tokenizer.mask_id == 6


def test_codes_follow_in_sorted_order_from_7(tokenizer):
    assert [
        tokenizer.code_to_id(code) for code in ["0389", "42731", "4280", "E8497", "V3001"]
    ] == [
        7,
        8,
        9,
        10,
        11,
    ]
    assert len(tokenizer) == 12


def test_6985_codes_give_6992_tokens():
    assert len(CodeTokenizer(f"{number:05d}" for number in range(6985))) == 6992


def test_the_order_in_which_codes_are_given_does_not_matter(tokenizer):
    assert CodeTokenizer(["0389", "42731", "4280", "4280", "E8497", "V3001"]) == tokenizer


def test_from_records_takes_every_training_code_once_and_no_other():
    train = random_patients(30, seed=0)
    assert CodeTokenizer.from_records(train).codes == tuple(
        sorted({code for record in train for visit in record.visits for code in visit.codes})
    )


@pytest.mark.parametrize("wrong", ["428.0", "e8497", "", "<EOS>", 4280])
def test_a_vocabulary_of_other_things_than_codes_is_refused(wrong):
    with pytest.raises(InputError, match="undotted code in upper case"):
        CodeTokenizer(["0389", wrong])


def test_an_empty_vocabulary_is_refused():
    with pytest.raises(InputError, match="the list is empty"):
        CodeTokenizer.from_records([])


def test_one_text_is_not_taken_for_a_list_of_codes():
    with pytest.raises(InputError, match=r"Write \['4280'\]"):
        CodeTokenizer("4280")


def test_membership_is_of_codes_alone(tokenizer):
    assert "4280" in tokenizer
    assert "V103" not in tokenizer
    assert "<EOS>" not in tokenizer


# ---------------------------------------------------------------------- encoding


def test_a_visit_is_its_codes_between_markers(tokenizer):
    assert tokenizer.encode_visit(Visit(("4280", "0389"))) == [START, 9, 7, STOP]
    assert tokenizer.encode_visit(["4280", "0389"]) == [START, 9, 7, STOP]


def test_a_patient_is_visits_between_bos_and_eos(tokenizer):
    expected = [BOS, START, 9, 7, STOP, START, 11, STOP, EOS]
    assert tokenizer.encode(patient(["4280", "0389"], ["V3001"])) == expected
    assert tokenizer.encode([Visit(("4280", "0389")), ["V3001"]]) == expected


def test_tokens_spell_out_what_was_encoded(tokenizer):
    ids = tokenizer.encode([["4280"], ["V3001", "E8497"]])
    assert " ".join(tokenizer.tokens(ids)) == ("<BOS> <v> 4280 <\\v> <v> V3001 E8497 <\\v> <EOS>")


@pytest.mark.parametrize("one_visit", ["4280", Visit(("4280",))])
def test_one_visit_is_not_taken_for_a_patient(tokenizer, one_visit):
    with pytest.raises(InputError, match="encode_visit"):
        tokenizer.encode(one_visit)


def test_one_code_is_not_taken_for_a_visit(tokenizer):
    with pytest.raises(InputError, match=r"Write \['4280'\]"):
        tokenizer.encode(["4280", "0389"])


# ---------------------------------------------------------------------- unseen codes


def test_an_unseen_code_raises_with_its_name_and_the_remedy(tokenizer):
    with pytest.raises(InputError, match="V103") as caught:
        tokenizer.encode(patient(["4280", "V103"]))
    assert 'unseen="skip"' in caught.value.remedy


def test_a_dotted_code_is_told_how_it_is_written(tokenizer):
    with pytest.raises(InputError, match="Write '4280'"):
        tokenizer.code_to_id("428.0")


def test_a_near_miss_is_told_the_nearest_code(tokenizer):
    with pytest.raises(InputError, match="nearest code it has is '42731'"):
        tokenizer.code_to_id("42732")


def test_skip_leaves_out_unseen_codes():
    tokenizer = CodeTokenizer(["0389", "4280"], unseen="skip")
    assert tokenizer.encode_visit(["V103", "4280", "25000"]) == [START, 8, STOP]


def test_skip_leaves_out_a_visit_of_unseen_codes_alone():
    tokenizer = CodeTokenizer(["0389", "4280"], unseen="skip")
    ids = tokenizer.encode(patient(["4280"], ["V103", "25000"], ["0389"]))
    assert ids == [BOS, START, 8, STOP, START, 7, STOP, EOS]
    assert tokenizer.encode_visit(["V103"]) == []


def test_unseen_codes_are_counted_by_occurrence():
    records = [patient(["4280", "V103"], ["V103"]), patient(["25000"], ["0389"], subject_id=2)]
    assert CodeTokenizer(["0389", "4280"]).unseen_codes(records) == {"V103": 2, "25000": 1}


def test_another_policy_is_refused():
    with pytest.raises(InputError, match='"raise" or "skip"'):
        CodeTokenizer(["4280"], unseen="ignore")


# ---------------------------------------------------------------------- decoding


def test_decoding_undoes_encoding():
    train = random_patients(50, seed=1)
    tokenizer = CodeTokenizer.from_records(train)
    for record in train:
        decoded = tokenizer.decode(tokenizer.encode(record))
        assert decoded == [list(visit.codes) for visit in record.visits]


def test_encoding_undoes_decoding_with_an_empty_visit(tokenizer):
    ids = [BOS, START, 9, STOP, START, STOP, START, 7, STOP, EOS]
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_decode_takes_lists_arrays_and_tensors(tokenizer, kind):
    assert tokenizer.decode(kind([BOS, START, 9, 7, STOP, EOS])) == [["4280", "0389"]]


def test_decode_takes_a_list_of_tensor_elements(tokenizer):
    assert tokenizer.decode(list(torch.tensor([BOS, START, 9, STOP, EOS]))) == [["4280"]]


def test_an_empty_visit_stays(tokenizer):
    assert tokenizer.decode([BOS, START, STOP, START, 9, STOP, EOS]) == [[], ["4280"]]


def test_reading_stops_at_eos(tokenizer):
    assert tokenizer.decode([BOS, START, 9, STOP, EOS, START, 7, STOP]) == [["4280"]]


def test_the_start_token_of_bart_does_not_end_the_record(tokenizer):
    assert tokenizer.decode([EOS, BOS, START, 9, STOP, EOS, PAD]) == [["4280"]]
    assert tokenizer.decode([EOS, START, 9, STOP, EOS, START, 7]) == [["4280"]]
    assert tokenizer.decode([PAD, PAD, EOS, BOS, START, 9, STOP, EOS]) == [["4280"]]


def test_mask_and_padding_stand_for_no_code(tokenizer):
    ids = [PAD, BOS, START, 9, MASK, STOP, START, MASK, STOP, EOS, PAD, PAD]
    assert tokenizer.decode(ids) == [["4280"], []]


def test_a_truncated_record_keeps_its_last_visit(tokenizer):
    assert tokenizer.decode([BOS, START, 9, STOP, START, 7, 8]) == [["4280"], ["0389", "42731"]]


def test_a_visit_that_is_never_closed_ends_where_the_next_opens(tokenizer):
    assert tokenizer.decode([BOS, START, 9, START, 7, STOP, EOS]) == [["4280"], ["0389"]]


def test_a_code_outside_of_any_visit_opens_one(tokenizer):
    ids = [BOS, 9, 8, STOP, 7, START, 7, STOP, EOS]
    assert tokenizer.decode(ids) == [["4280", "42731"], ["0389"], ["0389"]]


def test_nothing_decodes_to_no_visits(tokenizer):
    assert tokenizer.decode([]) == []
    assert tokenizer.decode([EOS]) == []
    assert tokenizer.decode(tokenizer.encode([])) == []


@pytest.mark.parametrize("wrong", [12, -1, -100])
def test_an_unknown_id_raises_with_its_place(tokenizer, wrong):
    with pytest.raises(InputError, match=rf"place 3: {wrong} is not the id"):
        tokenizer.decode([BOS, START, 9, wrong, STOP, EOS])


@pytest.mark.parametrize("wrong", [9.0, True, "9", None])
def test_an_id_that_is_no_whole_number_raises(tokenizer, wrong):
    with pytest.raises(InputError, match=r"place 1.*is not the id of a token"):
        tokenizer.decode([BOS, wrong])


def test_a_batch_is_not_taken_for_a_record(tokenizer):
    with pytest.raises(InputError, match="batch_decode"):
        tokenizer.decode(torch.tensor([[BOS, START, 9, STOP, EOS]]))


# ---------------------------------------------------------------------- as an object


def test_equality_is_of_the_vocabulary(tokenizer):
    assert tokenizer != CodeTokenizer(["4280"])
    assert hash(tokenizer) == hash(CodeTokenizer(tokenizer.codes))
    assert tokenizer != tokenizer.codes


def test_importing_the_code_tokenizer_does_not_import_torch():
    program = (
        "import sys, ehr_course.tokenizers.codes;"
        "print([m for m in ('torch', 'transformers', 'sentencepiece') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


ICD10_PATIENT = PatientRecord(1, "F", 70, (Visit(("E119", "I10"), system="ICD10CM"),))


def test_a_tokenizer_takes_its_system_from_the_records_and_keeps_it(tmp_path):
    tokenizer = CodeTokenizer.from_records([ICD10_PATIENT])
    assert tokenizer.system == "ICD10CM"
    tokenizer.save(tmp_path / "tokenizer.json")
    assert CodeTokenizer.load(tmp_path / "tokenizer.json") == tokenizer
    of_icd9 = CodeTokenizer(tokenizer.codes)
    assert of_icd9 != tokenizer and of_icd9.fingerprint != tokenizer.fingerprint


def test_a_visit_of_the_other_system_is_refused():
    for tokenizer in (CodeTokenizer(["E119", "I10"]), CodeTokenizer(["E119"], unseen="skip")):
        with pytest.raises(InputError) as caught:
            tokenizer.encode(ICD10_PATIENT)
        assert caught.value.problem == (
            "it is coded in ICD-10-CM, and this vocabulary is ICD-9-CM"
        )


def test_records_of_two_systems_have_no_one_vocabulary():
    older = PatientRecord(2, "F", 70, (Visit(("4280",)), Visit(("I509",), system="ICD10CM")))
    with pytest.raises(InputError) as caught:
        CodeTokenizer.from_records([older])
    assert (caught.value.thing, caught.value.place) == ("patient 2", "visit 2")
