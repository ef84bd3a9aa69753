"""Sentences of a request: their types, the tokenizer, and limits on words and characters."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.config.serve import ServeConfig
from elmo.serve.api_error import invalid
from elmo.serve.request_fields import as_list, kind
from elmo.text.tokenizer import Tokenizer

# Characters of a text per word that a sentence may have. A text is split as a whole.
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


def n_characters(text: Text) -> int:
    """Return the number of characters that a tokenizer splits: none of a list of words."""
    return len(text) if isinstance(text, str) else 0


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


class SentenceSplitter:
    """Splits the texts of one request in order, and checks the number of words so far."""

    def __init__(self, place: str, tokenizer: Tokenizer | None, config: ServeConfig) -> None:
        """Begin a request.

        Args:
            place: Name of the field, for messages.
            tokenizer: The tokenizer; None if all texts are empty or lists of words.
            config: The limits.
        """
        self._place, self._tokenizer, self._limits = place, tokenizer, WordLimits(config)

    def __call__(self, text: Text) -> RequestSentence:
        """Return the words of the next text."""
        if not isinstance(text, str):
            self._limits.add([text], self._place)
            return RequestSentence(text)
        tokens = self._tokenizer.tokens(text) if self._tokenizer else []
        words = [token.text for token in tokens]
        self._limits.add([words], self._place)
        return RequestSentence(words, [(token.start, token.end) for token in tokens])


class WordLimits:
    """Limits on the words of one request, which are checked item by item.

    Attributes:
        n_items: Number of items so far.
    """

    def __init__(self, config: ServeConfig) -> None:
        """Begin a request."""
        self._config, self._n_words = config, 0
        self.n_items = 0

    def add(self, sentences: Sequence[Sequence[str]], place: str) -> None:
        """Add the sentences of the next item of a field, or raise an error."""
        for words in sentences:
            check_words(words, f"{place}[{self.n_items}]", self._config)
            self._n_words += len(words)
        self.n_items += 1
        if self._n_words > self._config.max_words:
            raise invalid(
                f"The request has more than {self._config.max_words} words. Send several requests."
            )


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
