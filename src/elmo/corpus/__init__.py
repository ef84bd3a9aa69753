"""Corpus preparation, and BPTT segments for language model training."""

from elmo.lazy import fetch

__all__ = [
    "Corpus",
    "PrepareResult",
    "VocabResult",
    "corpus_of",
    "prepare",
    "read_sentences",
    "vocab",
]

_MODULES = {
    "Corpus": "elmo.corpus.shards",
    "PrepareResult": "elmo.corpus.prepare_corpus",
    "VocabResult": "elmo.corpus.vocab_file",
    "corpus_of": "elmo.corpus.sentence_reader",
    "prepare": "elmo.corpus.prepare_corpus",
    "read_sentences": "elmo.corpus.sentence_reader",
    "vocab": "elmo.corpus.vocab_file",
}


def __getattr__(name: str) -> object:
    return fetch(name, _MODULES, __name__)
