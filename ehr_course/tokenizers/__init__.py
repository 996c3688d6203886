"""From records and notes to token ids: one token a code, or SentencePiece for text."""
