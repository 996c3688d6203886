"""Where patient records and notes come from: embedded ones, MIMIC, MEDS, and tables of notes."""
