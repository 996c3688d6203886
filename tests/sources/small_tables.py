"""Small MIMIC tables for tests, to be written as they are or with one thing changed."""

from __future__ import annotations

from pathlib import Path

PATIENTS = """\
ROW_ID,SUBJECT_ID,GENDER,DOB,DOD
1,20,F,2094-03-05 00:00:00,
2,10,M,2050-07-01 00:00:00,
"""

ADMISSIONS = """\
ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DIAGNOSIS
1,20,300,2164-10-23 21:09:00,"SEPSIS, ""COLD"" SHOCK"
2,20,200,2165-01-02 08:00:00,FALL
3,10,100,2120-06-30 23:59:00,CHEST PAIN
"""

DIAGNOSES = """\
ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE
1,20,300,1,99591
2,20,300,2,0389
3,20,200,1,E8497
4,10,100,1,4280
5,10,100,2,V3001
"""

PATIENTS_4 = """\
subject_id,gender,anchor_age,anchor_year
1,F,52,2180
2,M,91,2150
"""

ADMISSIONS_4 = """\
subject_id,hadm_id,admittime,dischtime
1,11,2182-05-06 22:23:00,2182-05-07 17:15:00
1,12,2184-01-02 01:00:00,2184-01-04 10:00:00
2,21,2150-03-04 05:06:00,2150-03-05 00:00:00
"""

DIAGNOSES_4 = """\
subject_id,hadm_id,seq_num,icd_code,icd_version
1,11,1,4280   ,9
1,11,2,I50.9,10
1,12,1,U071,10
2,21,1,0389,9
"""


def write_tables(
    folder: Path,
    *,
    patients: str = PATIENTS,
    admissions: str = ADMISSIONS,
    diagnoses: str = DIAGNOSES,
) -> Path:
    """Write MIMIC-III tables into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "PATIENTS.csv").write_text(patients, encoding="utf-8")
    (folder / "ADMISSIONS.csv").write_text(admissions, encoding="utf-8")
    (folder / "DIAGNOSES_ICD.csv").write_text(diagnoses, encoding="utf-8")
    return folder


def write_tables_4(
    folder: Path,
    *,
    patients: str = PATIENTS_4,
    admissions: str = ADMISSIONS_4,
    diagnoses: str = DIAGNOSES_4,
) -> Path:
    """Write MIMIC-IV tables into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "patients.csv").write_text(patients, encoding="utf-8")
    (folder / "admissions.csv").write_text(admissions, encoding="utf-8")
    (folder / "diagnoses_icd.csv").write_text(diagnoses, encoding="utf-8")
    return folder
