"""Sentences of a request: their types, the tokenizer, and limits on words and characters."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.config.serve import ServeConfig
from elmo.serve.api_error import invalid
from elmo.serve.request_fields import as_list, kind
from elmo.text.tokenizer import Tokenizer

# Characters of a text per word that a sentence may have. The tokenizer holds the interpreter lock
# until it has split a whole text.
CHARACTERS_PER_WORD = 32

Text = str | list[str]


@dataclass(frozen=True)
class RequestSentence:
    """A sentence of a request.

    Attributes:
        words: Words of the sentence.
        offsets: Start and end of each word in the text, in code points; None if the words were
            sent as a list.
    """

    words: list[str]
    offsets: list[tuple[int, int]] | None = None


def read_sentences(value: object, place: str, config: ServeConfig) -> list[Text]:
    """Return the sentences in a field, each a string or a list of words."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise invalid(f"{place} must be a string or a list of sentences, not {kind(value)}.")
    texts = as_list(value, place, config.max_sentences)
    return [read_text(text, f"{place}[{number}]", config) for number, text in enumerate(texts)]


def read_text(value: object, place: str, config: ServeConfig) -> Text:
    """Return a sentence, a string or a list of words."""
    if isinstance(value, str):
        limit = CHARACTERS_PER_WORD * config.max_sentence_words
        if len(value) > limit:
            raise invalid(
                f"{place} has {len(value)} characters, more than {limit}. Split it into sentences."
            )
        return value
    if not isinstance(value, list):
        raise invalid(f"{place} must be a string or a list of words, not {kind(value)}.")
    if set(map(type, value)) - {str}:
        number, word = next(
            (number, word) for number, word in enumerate(value) if not isinstance(word, str)
        )
        raise invalid(f"{place}[{number}] must be a string, not {kind(word)}.")
    check_words(value, place, config)
    return value


def split_texts(
    texts: Sequence[Text], place: str, tokenizer: Tokenizer | None, config: ServeConfig
) -> list[RequestSentence]:
    """Split the texts that are strings, and check the number of words of all.

    Args:
        texts: Sentences of the request.
        place: Name of the field, for messages.
        tokenizer: The tokenizer; None if all texts are lists of words.
        config: The limits.
    """
    sentences = []
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            sentences.append(RequestSentence(text))
            continue
        assert tokenizer is not None
        tokens = tokenizer.tokens(text)
        words = [token.text for token in tokens]
        check_words(words, f"{place}[{number}]", config)
        sentences.append(RequestSentence(words, [(token.start, token.end) for token in tokens]))
    check_total(sum(len(sentence.words) for sentence in sentences), config)
    return sentences


def check_words(words: Sequence[str], place: str, config: ServeConfig) -> None:
    """Raise an error if a sentence has too many words or too long ones."""
    if len(words) > config.max_sentence_words:
        raise invalid(
            f"{place} has {len(words)} words, more than {config.max_sentence_words}. Split it into "
            "sentences."
        )
    longest = max(map(len, words), default=0)
    if longest > config.max_word_characters:
        raise invalid(
            f"A word of {place} has {longest} characters, more than {config.max_word_characters}."
        )


def check_total(n_words: int, config: ServeConfig) -> None:
    """Raise an error if a request has too many words."""
    if n_words > config.max_words:
        raise invalid(
            f"The request has {n_words} words, more than {config.max_words}. Send several requests."
        )
