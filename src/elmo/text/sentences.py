"""Words of a paragraph to sentences, by punctuation alone and for any language."""

import re

# A word of nothing but marks that end a sentence, of any script. The full stop of an abbreviation
# is part of its word and does not come here.
_TERMINAL = re.compile("[.!?…‼⁇⁈⁉。！．？｡।॥؟۔።]+")
_CLOSING = frozenset("' '' ) ] } » ” ’ › 」 』 】 〉 》 ） ］ ｝".split())
_QUOTE = '"'


def split_sentences(words: list[str]) -> list[list[str]]:
    """Cut after each full stop, exclamation or question mark and the quotes and brackets it closes.

    Nothing is cut where the next word begins with a lower-case letter ("Stop!" he said).

    Args:
        words: of a paragraph.

    Returns:
        Sentences, none of them empty.
    """
    sentences: list[list[str]] = []
    start = 0
    ended = quoted = False
    for place, word in enumerate(words):
        closes = word in _CLOSING or (quoted and word == _QUOTE)
        quoted ^= word == _QUOTE
        if _TERMINAL.fullmatch(word):
            ended = True
        elif ended and not closes:
            ended = False
            if not word[:1].islower():
                sentences.append(words[start:place])
                start = place
    if start < len(words):
        sentences.append(words[start:])
    return sentences
