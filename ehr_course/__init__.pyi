# The public names: the module that each one is loaded from.
from .batches.collate import (
    SEXES as SEXES,
    Batch as Batch,
    check_batch as check_batch,
    shift_right as shift_right,
)
from .batches.corruption import (
    EMPTY_RECORD as EMPTY_RECORD,
    Corruption as Corruption,
    Ragged as Ragged,
    delete_codes as delete_codes,
    infill_masks as infill_masks,
    replace_codes as replace_codes,
    span_lengths as span_lengths,
)
from .batches.datasets import (
    BatchKey as BatchKey,
    RecordDataset as RecordDataset,
)
from .batches.note_dataset import NoteDataset as NoteDataset
from .batches.sampler import (
    POOL as POOL,
    LengthBatchSampler as LengthBatchSampler,
    data_loader as data_loader,
)
from .course_files import (
    checkpoint_folder as checkpoint_folder,
    solutions_folder as solutions_folder,
)
from .errors import InputError as InputError
from .evaluation.code_table import (
    carried_over as carried_over,
    code_tables as code_tables,
)
from .evaluation.distances import (
    adversarial_accuracy as adversarial_accuracy,
    js_distance as js_distance,
    js_divergence as js_divergence,
)
from .evaluation.privacy import (
    distance_scores as distance_scores,
    likelihood_scores as likelihood_scores,
    membership_auroc as membership_auroc,
    membership_interval as membership_interval,
)
from .evaluation.measure import what_is_shown as what_is_shown
from .evaluation.perplexity import (
    ScoredRecords as ScoredRecords,
    perplexity as perplexity,
)
from .evaluation.summaries import (
    names_in as names_in,
    names_recovered as names_recovered,
    repetition as repetition,
    rouge as rouge,
)
from .evaluation.validity import (
    impossible_share as impossible_share,
    impossible_share_of as impossible_share_of,
    validity as validity,
)
from .exercises.copied_visit import copied_visit as copied_visit
from .exercises.loops_to_test import Loop as Loop
from .exercises.lost_code import (
    AgeSexTable as AgeSexTable,
    CodeNetwork as CodeNetwork,
    PairTable as PairTable,
    lose_one as lose_one,
    share_found as share_found,
    which_found as which_found,
)
from .exercises.tiny_training import (
    TinyTraining as TinyTraining,
    through_a_file as through_a_file,
)
from .exercises.trainers_to_test import (
    Stopped as Stopped,
    Trainers as Trainers,
)
from .generation.baselines import IndependentCodes as IndependentCodes
from .generation.beam_search import (
    BeamSettings as BeamSettings,
    beam_search as beam_search,
    expand_beams as expand_beams,
    length_penalty as length_penalty,
    reorder_beams as reorder_beams,
)
from .generation.calibration import (
    calibrate as calibrate,
    calibrated_for as calibrated_for,
    count_ends as count_ends,
)
from .generation.patients import (
    EligibleOnly as EligibleOnly,
    PatientProfile as PatientProfile,
    Sampling as Sampling,
    generate_patients as generate_patients,
    sample_profiles as sample_profiles,
)
from .generation.summaries import (
    summarize as summarize,
    trace_summary as trace_summary,
)
from .icd import (
    code_meaning as code_meaning,
    icd9 as icd9,
    icd10 as icd10,
    translate as translate,
)
from .losses import (
    NOT_SCORED as NOT_SCORED,
    LossTerm as LossTerm,
    classification_loss as classification_loss,
    co_occurrence_penalty as co_occurrence_penalty,
    coverage_loss as coverage_loss,
    language_model_loss as language_model_loss,
    log_mixture as log_mixture,
    loss_counts as loss_counts,
    never_together as never_together,
    weighted_total as weighted_total,
)
from .models.pointer_generator import (
    PointerGenerator as PointerGenerator,
    PointerGeneratorConfig as PointerGeneratorConfig,
)
from .models.prefix_tuning import (
    Prefix as Prefix,
    PrefixConfig as PrefixConfig,
    PrefixTuned as PrefixTuned,
    prefix_parameters as prefix_parameters,
)
from .models.prompt_bart import (
    AGE_BRACKETS as AGE_BRACKETS,
    AGE_SCALE as AGE_SCALE,
    CategoricalPrompt as CategoricalPrompt,
    FourierPrompt as FourierPrompt,
    NumericalPrompt as NumericalPrompt,
    PromptBart as PromptBart,
    PromptBartConfig as PromptBartConfig,
    SequenceAge as SequenceAge,
    TokenAge as TokenAge,
    TokenSex as TokenSex,
    age_bracket as age_bracket,
    codes_read as codes_read,
    last_real as last_real,
)
from .models.saved import (
    load_checkpoint as load_checkpoint,
    load_model as load_model,
    save_model as save_model,
)
from .opened_alone import after_installation as after_installation
from .records import (
    NotePair as NotePair,
    PatientRecord as PatientRecord,
    Visit as Visit,
    system_of as system_of,
)
from .report import (
    report_on_frames as report_on_frames,
    verdict as verdict,
    write_report as write_report,
)
from .sources.any_cohort import (
    choose_patients as choose_patients,
    load_cohort as load_cohort,
    real_data as real_data,
)
from .sources.cohort import (
    Change as Change,
    Reason as Reason,
)
from .sources.grouping import completed_years as completed_years
from .sources.meds import write_meds as write_meds
from .sources.mimic import (
    load_mimic3 as load_mimic3,
    load_mimic4 as load_mimic4,
)
from .sources.note_corpus import (
    choose_notes as choose_notes,
    real_notes as real_notes,
    split_notes as split_notes,
)
from .sources.splits import split_by_patient as split_by_patient
from .sources.synthetic import (
    Dirt as Dirt,
    drug_names as drug_names,
    make_cohort as make_cohort,
    make_notes as make_notes,
    write_mimic3 as write_mimic3,
    write_mimic4 as write_mimic4,
)
from .sources.tables import find_tables as find_tables
from .tokenizers.codes import CodeTokenizer as CodeTokenizer
from .tokenizers.notes import NoteTokenizer as NoteTokenizer
from .tokenizers.words import WordTokenizer as WordTokenizer
from .training.checkpoints import checkpoints as checkpoints
from .training.config import TrainingConfig as TrainingConfig
from .training.memory import (
    MemoryTrace as MemoryTrace,
    activation_bytes as activation_bytes,
    held_bytes as held_bytes,
)
from .training.trainer import (
    Trainer as Trainer,
    decay_groups as decay_groups,
    train as train,
    warmup_cosine_factor as warmup_cosine_factor,
)
from .widgets.attention import record_attention as record_attention
from .widgets.chance import imagined_studies as imagined_studies
from .widgets.loss_terms import (
    contributions as contributions,
    measure_terms as measure_terms,
)
from .widgets.prompt import next_token_probabilities as next_token_probabilities
from .widgets.prefix_attention import prefix_attention as prefix_attention
