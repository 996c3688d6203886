"""What a full record of the course's own vocabulary consists of, in ids."""

from __future__ import annotations

from ehr_course.tokenizers.codes import SPECIAL_TOKENS

FIRST_CODE = len(SPECIAL_TOKENS)
"""The smallest id of a code; all smaller ones are special tokens."""

SHORTEST = 5
"""The tokens of the shortest record: <BOS>, one visit of one code with its markers, <EOS>."""
