"""From records and notes to token ids: one token a code, one a word, or SentencePiece pieces."""
