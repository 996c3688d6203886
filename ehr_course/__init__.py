"""Generative models of electronic health records: data, models, training, evaluation.

Everything a script needs is imported from here, and loaded when it is first asked for. The
names in `__all__` are the ones to begin with; `__init__.pyi` lists all of them.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "CodeTokenizer",
    "Corruption",
    "InputError",
    "NoteDataset",
    "NotePair",
    "NoteTokenizer",
    "PatientRecord",
    "PointerGenerator",
    "PointerGeneratorConfig",
    "PrefixConfig",
    "PrefixTuned",
    "PromptBart",
    "PromptBartConfig",
    "RecordDataset",
    "Trainer",
    "TrainingConfig",
    "Visit",
    "calibrate",
    "generate_patients",
    "icd9",
    "icd10",
    "load_checkpoint",
    "load_cohort",
    "load_model",
    "make_cohort",
    "report_on_frames",
    "sample_profiles",
    "save_model",
    "split_by_patient",
    "summarize",
    "train",
    "write_meds",
    "write_report",
]
