"""Helpers for the corpus tests: texts on disk, and a reference word count."""

from collections import Counter

from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus

LINES = [
    f"line {number} has {'the ' * (number % 5)}words number{number % 37}" for number in range(1000)
]
TEXT = "\n".join(LINES) + "\n"


def prepared(folder, text, valid=None, test=None, **options):
    """Prepare texts given as strings, and return the corpus and the result of `prepare`."""
    names = {}
    for name, content in {"input": text, "valid": valid, "test": test}.items():
        if content is not None:
            path = folder / f"{name}.txt"
            path.write_text(content, encoding="utf-8", newline="")
            names[name] = (str(path),)
    config = PrepareConfig(**names, out=str(folder / "corpus"), corpus=CorpusConfig(**options))
    result = prepare(config)
    return Corpus.open(folder / "corpus"), result


def sentences(corpus, split):
    """Return the sentences of a split as lists of words."""
    words = [word for part in corpus.words.parts() for word in part]
    return [
        [words[number] for number in shard.words[start:end]]
        for shard in corpus.splits[split].shards
        for start, end in zip(shard.starts[:-1], shard.starts[1:], strict=True)
    ]


def expected_table(train, others=()):
    """Return distinct words and counts, sorted by decreasing count in `train`, then by bytes."""
    counts = Counter(word for sentence in train for word in sentence)
    words = set(counts).union(word for sentence in others for word in sentence)
    ordered = sorted(words, key=lambda word: (-counts[word], word.encode()))
    return ordered, [counts[word] for word in ordered]


def snapshot(folder):
    """Return the content of every file in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
