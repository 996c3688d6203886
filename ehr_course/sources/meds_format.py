"""The names of MEDS 0.4, copied from the package ``meds``, which takes seconds to import."""

data_subdirectory = "data"
code_metadata_filepath = "metadata/codes.parquet"
dataset_metadata_filepath = "metadata/dataset.json"
subject_splits_filepath = "metadata/subject_splits.parquet"

birth_code = "MEDS_BIRTH"

train_split = "train"
tuning_split = "tuning"
held_out_split = "held_out"
