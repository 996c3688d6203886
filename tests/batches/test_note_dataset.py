"""Notes as batches: what is read, what is written, what is cut, and clear about bad pairs."""

import io
import pickle
import random

import pytest
import sentencepiece
import torch

from ehr_course.batches.datasets import BatchKey
from ehr_course.batches.note_dataset import NoteDataset, collate_notes
from ehr_course.batches.sampler import data_loader
from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

WORDS = WordTokenizer(["fever", "given", "no", "was"])  # ids 4 to 7; 8 and up are extended
FEVER, GIVEN, NO, WAS = range(4, 8)
PAIR = NotePair("was given quinapril no rales given digoxin", "given digoxin quinapril", 10006)
# note: <s> was given [8] no [9] given [10] </s>, 9 tokens; summary: <s> given [10] [8] </s>, 5


def made_up_pairs(n=30, seed=0):
    rng = random.Random(seed)
    words = ["fever", "given", "no", "was", "a", "b", "c", "d"]
    return [
        NotePair(
            " ".join(rng.choices(words, k=rng.randint(1, 15))),
            " ".join(rng.choices(words, k=rng.randint(1, 6))),
            number,
        )
        for number in range(n)
    ]


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def read(batch):
    """The rows that the encoder reads, without padding."""
    masks = batch["attention_mask"].bool()
    return [ids[mask].tolist() for ids, mask in zip(batch["input_ids"], masks, strict=True)]


def written(batch):
    """The rows that are scored."""
    return [row[row != -100].tolist() for row in batch["labels"]]


# ---------------------------------------------------------------------- batches


def test_a_note_is_read_and_its_summary_written_in_extended_ids():
    dataset = NoteDataset([PAIR], WORDS)
    batch = dataset.batch([0])
    assert batch["input_ids"].tolist() == [[1, WAS, GIVEN, 8, NO, 9, GIVEN, 10, 2]]
    assert batch["attention_mask"].tolist() == [[1] * 9]
    assert batch["decoder_input_ids"].tolist() == [[1, GIVEN, 10, 8]]
    assert batch["labels"].tolist() == [[GIVEN, 10, 8, 2]]
    assert dataset.oov == [("quinapril", "rales", "digoxin")]


def test_shorter_rows_are_padded_on_the_right():
    batch = NoteDataset([NotePair("no fever", "no"), PAIR], WORDS).batch([0, 1])
    assert batch["input_ids"][0].tolist() == [1, NO, FEVER, 2, 3, 3, 3, 3, 3]
    assert batch["attention_mask"][0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert batch["decoder_input_ids"][0].tolist() == [1, NO, 3, 3]
    assert batch["labels"][0].tolist() == [NO, 2, -100, -100]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_a_batch_is_no_wider_than_its_own_rows():
    batch = NoteDataset([NotePair("no fever", "no"), PAIR], WORDS).batch([0])
    assert batch["input_ids"].shape == (1, 4)
    assert batch["labels"].shape == (1, 2)


@pytest.mark.parametrize("indices", [[0], [7, 3, 7], range(30)], ids=str)
def test_a_batch_holds_what_the_tokenizer_gives_for_the_pairs_asked_for(indices):
    pairs = made_up_pairs()
    dataset = NoteDataset(pairs, WORDS)
    batch = dataset.batch(indices)
    notes = [WORDS.encode_note(pairs[i].note) for i in indices]
    summaries = [
        WORDS.encode_summary(pairs[i].summary, note.oov)
        for i, note in zip(indices, notes, strict=True)
    ]
    assert read(batch) == [note.ids for note in notes]
    assert written(batch) == [ids[1:] for ids in summaries]
    rows = batch["decoder_input_ids"].tolist()
    width = max(map(len, summaries)) - 1
    assert rows == [ids[:-1] + [3] * (width - len(ids) + 1) for ids in summaries]
    assert [dataset.oov[i] for i in indices] == [note.oov for note in notes]


def test_collating_encoded_pairs_gives_the_batch_of_the_dataset():
    pairs = made_up_pairs()
    notes = [WORDS.encode_note(pair.note) for pair in pairs]
    rows = [
        (note.ids, WORDS.encode_summary(pair.summary, note.oov))
        for pair, note in zip(pairs, notes, strict=True)
    ]
    assert same(collate_notes(rows), NoteDataset(pairs, WORDS).batch(range(30)))


def test_lengths_are_those_of_the_notes():
    assert NoteDataset([NotePair("no", "no fever"), PAIR], WORDS).lengths.tolist() == [3, 9]


def test_pieces_make_batches_too():
    pieces = NoteTokenizer.train(["no fever was given", "fever was given"], vocab_size=18)
    dataset = NoteDataset([NotePair("no fever", "fever")], pieces)
    assert read(dataset.batch([0])) == [[1, *pieces.encode("no fever"), 2]]
    assert written(dataset.batch([0])) == [[*pieces.encode("fever"), 2]]
    assert dataset.oov == [()]


def test_a_key_gives_the_batch_that_it_names():
    dataset = NoteDataset(made_up_pairs(), WORDS)
    assert same(dataset[BatchKey(2, 3, (4, 5, 6))], dataset.batch([4, 5, 6]))


def test_a_loader_gives_every_pair_once_in_any_number_of_processes():
    dataset = NoteDataset(made_up_pairs(), WORDS)
    alone = list(data_loader(dataset, 7, seed=1))
    helped = list(data_loader(dataset, 7, seed=1, num_workers=2))
    assert sum(len(batch["labels"]) for batch in alone) == 30
    assert all(same(one, other) for one, other in zip(alone, helped, strict=True))


def test_the_ids_cannot_be_written_to_by_mistake():
    dataset = NoteDataset([PAIR], WORDS)
    dataset.batch([0])["input_ids"].fill_(0)
    assert dataset.sources.values.max() == 10
    for ragged in (dataset.sources, dataset.targets):
        with pytest.raises(ValueError, match="read-only"):
            ragged.values[0] = 5


def test_a_dataset_travels_to_other_processes():
    dataset = NoteDataset([PAIR], WORDS)
    copy = pickle.loads(pickle.dumps(dataset))
    assert same(copy.batch([0]), dataset.batch([0]))
    assert copy.fingerprint == dataset.fingerprint


def test_the_fingerprint_is_that_of_what_is_trained_on():
    first = NoteDataset([PAIR, NotePair("no fever", "no")], WORDS)
    assert NoteDataset(list(first.pairs), WORDS).fingerprint == first.fingerprint
    others = [
        NoteDataset(first.pairs[::-1], WORDS),
        NoteDataset(first.pairs[:1], WORDS),
        NoteDataset([PAIR, NotePair("no fever", "fever")], WORDS),
        NoteDataset([PAIR, NotePair("fever no", "no")], WORDS),
        NoteDataset(first.pairs, WordTokenizer([*WORDS.vocabulary, "zoster"])),
        NoteDataset(first.pairs, WORDS, max_target=4),
    ]
    assert len({dataset.fingerprint for dataset in [first, *others]}) == 7


def test_the_fingerprint_is_that_of_words_too_where_the_ids_are_the_same():
    first = NoteDataset([PAIR], WORDS)
    other_oov = NotePair(
        PAIR.note.replace("digoxin", "warfarin"), PAIR.summary.replace("digoxin", "warfarin")
    )
    other_word = NotePair(PAIR.note.replace("was", "wax"), PAIR.summary)
    others = [
        NoteDataset([other_oov], WORDS),
        NoteDataset([other_word], WordTokenizer(["fever", "given", "no", "wax"])),
    ]
    for other in others:
        assert same(other.batch([0]), first.batch([0]))
        assert other.fingerprint != first.fingerprint


# ---------------------------------------------------------------------- what is too long


@pytest.mark.parametrize(("max_source", "max_target"), [(9, 5), (768, 192)])
def test_what_fits_is_not_cut(max_source, max_target):
    limits = {"max_source": max_source, "max_target": max_target}
    whole = NoteDataset([PAIR], WORDS)
    assert (whole.cut_notes, whole.cut_summaries) == (0, 0)
    dataset = NoteDataset([PAIR], WORDS, **limits)
    assert same(dataset.batch([0]), whole.batch([0]))


def test_a_cut_note_keeps_its_first_tokens_and_ends():
    dataset = NoteDataset([PAIR], WORDS, max_source=7)
    assert read(dataset.batch([0])) == [[1, WAS, GIVEN, 8, NO, 9, 2]]
    assert dataset.lengths.tolist() == [7]
    assert (dataset.cut_notes, dataset.cut_summaries) == (1, 0)


def test_a_word_of_the_part_cut_off_cannot_be_copied():
    dataset = NoteDataset([PAIR], WORDS, max_source=7)
    assert dataset.oov == [("quinapril", "rales")]
    assert written(dataset.batch([0])) == [[GIVEN, 0, 8, 2]]


def test_a_note_cut_before_its_first_word_outside_has_none():
    dataset = NoteDataset([PAIR], WORDS, max_source=4)
    assert dataset.oov == [()]
    assert written(dataset.batch([0])) == [[GIVEN, 0, 0, 2]]


@pytest.mark.parametrize("max_source", range(3, 18))
def test_extended_ids_of_cut_notes_are_the_words_that_are_left(max_source):
    dataset = NoteDataset(made_up_pairs(), WORDS, max_source=max_source)
    rows = zip(dataset.pairs, dataset.sources.to_lists(), dataset.oov, strict=True)
    for pair, ids, oov in rows:
        words = WORDS.words(pair.note)[: max_source - 2]
        assert WORDS.decode(ids, oov) == " ".join(words)
        assert set(oov) == set(words) - set(WORDS.vocabulary)
    assert dataset.lengths.max() <= max_source
    assert dataset.cut_notes == sum(
        len(WORDS.words(pair.note)) + 2 > max_source for pair in dataset.pairs
    )


def test_a_cut_summary_does_not_teach_to_stop():
    dataset = NoteDataset([PAIR], WORDS, max_target=4)
    assert written(dataset.batch([0])) == [[GIVEN, 10, 8]]
    assert dataset.batch([0])["decoder_input_ids"].tolist() == [[1, GIVEN, 10]]
    assert (dataset.cut_notes, dataset.cut_summaries) == (0, 1)


@pytest.mark.parametrize("max_target", range(2, 10))
def test_only_whole_summaries_end(max_target):
    dataset = NoteDataset(made_up_pairs(), WORDS, max_target=max_target)
    whole = NoteDataset(made_up_pairs(), WORDS).targets.to_lists()
    cut = dataset.targets.to_lists()
    assert cut == [ids[:max_target] for ids in whole]
    assert [ids[-1] == 2 for ids in cut] == [len(ids) <= max_target for ids in whole]
    assert dataset.cut_summaries == sum(len(ids) > max_target for ids in whole)


def test_a_note_of_unknown_pieces_alone_is_named():
    pieces = NoteTokenizer.train(["no fever was given", "fever was given"], vocab_size=18)
    with pytest.raises(InputError, match="pair 0, note: the text has no piece that is known"):
        NoteDataset([NotePair("日日日", "fever")], pieces)


def test_a_note_of_which_the_cut_leaves_unknown_pieces_alone_is_named():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["no fever was given"] * 2),
        model_writer=model,
        vocab_size=17,
        add_dummy_prefix=False,  # else a space in front is the first piece, and is known
        hard_vocab_limit=False,
        pad_id=3,
        minloglevel=2,
    )
    pieces = NoteTokenizer(model.getvalue())
    pair = NotePair("日 no fever", "no")
    assert NoteDataset([pair], pieces, max_source=4).cut_notes == 1
    with pytest.raises(InputError, match="pair 0, note: every token that is read"):
        NoteDataset([pair], pieces, max_source=3)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize("pairs", [[], iter(())], ids=["list", "iterator"])
def test_no_pairs_are_refused(pairs):
    with pytest.raises(InputError, match="pairs: the list is empty"):
        NoteDataset(pairs, WORDS)


def test_a_note_of_invisible_characters_is_named():
    with pytest.raises(InputError, match=r"pair 1 \(patient 0\), note: .* has no word"):
        NoteDataset([PAIR, NotePair("\u200b", "no fever", 0)], WORDS)


def test_a_summary_of_invisible_characters_is_named():
    with pytest.raises(InputError, match="pair 0, summary: it has no word"):
        NoteDataset([NotePair("no fever", "\u200b")], WORDS)


@pytest.mark.parametrize(
    "options",
    [{"max_source": 2}, {"max_target": 1}],
    ids=str,
)
def test_options_out_of_their_range_are_refused(options):
    with pytest.raises(InputError, match=f"NoteDataset, {next(iter(options))}"):
        NoteDataset([PAIR], WORDS, **options)


@pytest.mark.parametrize("indices", [[], [1], [-1], [[0]], 0, [0.0], ["a"]], ids=str)
def test_places_where_no_pair_is_are_refused(indices):
    with pytest.raises(InputError, match="numbers from 0 to 0"):
        NoteDataset([PAIR], WORDS).batch(indices)


def test_a_place_gives_a_pair():
    dataset = NoteDataset([PAIR, NotePair("no fever", "no")], WORDS)
    assert dataset[0] == PAIR and dataset[-1].note == "no fever"


def test_what_could_be_text_is_not_shown_as_a_patient():
    with pytest.raises(InputError) as caught:
        NoteDataset([NotePair("no fever", "\u200b", "Mrs Miller has a cough")], WORDS)
    assert str(caught.value).startswith("pair 0, summary: it has no word")
