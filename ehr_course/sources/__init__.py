"""Where patient records come from: an embedded hospital, MIMIC tables, and MEDS folders."""
