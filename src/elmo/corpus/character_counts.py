"""The number of characters of the original text of a split, by which bits per character divide."""

from dataclasses import dataclass

import numpy as np

from elmo.corpus.bptt_segments import FIRST_WORD
from elmo.corpus.shards import Split
from elmo.corpus.token_tables import TokenTables
from elmo.text.tokenizer import CharacterTokenizer

# Words looked up at a time.
CHUNK_WORDS = 2**20


@dataclass(frozen=True)
class CharacterRatio:
    """Characters of the original text per character that the token tables count.

    The tables count one character more for each word and sentence, which differs from the white
    space of the original text. The ratio corrects the count of a whole split exactly, and the count
    of a part of it approximately. It is an estimate from the words if the number of characters of
    the original text is not recorded.
    """

    value: float
    is_estimate: bool


def character_ratio(split: Split, tables: TokenTables, tokenizer: str | None) -> CharacterRatio:
    """Return the ratio for a split.

    If the number of characters is not recorded, it is estimated: words are joined with single
    spaces, or without spaces if they are single characters, and each sentence is a line.
    """
    counted = split.n_sentences
    n_empty = 0
    for shard in split.shards:
        n_empty += int(np.count_nonzero(np.diff(shard.starts) == 0))
        for first in range(0, len(shard.words), CHUNK_WORDS):
            words = shard.words[first : first + CHUNK_WORDS].astype(np.int64)
            counted += int(tables.characters[words + FIRST_WORD].sum())
    if split.n_characters is not None:
        original = split.n_characters
    elif tokenizer == CharacterTokenizer.name:
        original = counted - split.n_words
    else:
        original = counted - split.n_sentences + n_empty
    return CharacterRatio(original / max(1, counted), split.n_characters is None)
