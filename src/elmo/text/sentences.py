"""Language-independent sentence splitting, based on punctuation."""

import re

# A word of sentence-final punctuation only, in any script. The full stop of an abbreviation is part
# of its word and does not match.
_TERMINAL = re.compile("[.!?…‼⁇⁈⁉。！．？｡।॥؟۔።]+")
_CLOSING = frozenset("' '' ) ] } » ” ’ › 」 』 】 〉 》 ） ］ ｝".split())
_QUOTE = '"'


def split_sentences(words: list[str]) -> list[list[str]]:
    """Split the words of a paragraph into sentences.

    A sentence ends after a full stop, exclamation mark or question mark and any closing quotes and
    brackets that follow, unless the next word starts with a lowercase letter ("Stop!" he said).
    """
    sentences: list[list[str]] = []
    start = 0
    ended = quoted = False
    for position, word in enumerate(words):
        closes = word in _CLOSING or (quoted and word == _QUOTE)
        quoted ^= word == _QUOTE
        if _TERMINAL.fullmatch(word):
            ended = True
        elif ended and not closes:
            ended = False
            if not word[:1].islower():
                sentences.append(words[start:position])
                start = position
    if start < len(words):
        sentences.append(words[start:])
    return sentences
