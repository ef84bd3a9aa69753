"""Description of a prepared corpus for `elmo info`."""

from pathlib import Path

from elmo.config.serialization import to_dict
from elmo.corpus.shards import VOCABULARY, open_table, read_header
from elmo.progress import format_count
from elmo.text.vocabulary import Vocabulary


def corpus_info(folder: Path) -> tuple[dict[str, str | int], dict[str, object]]:
    """Return a description of a prepared corpus, and the content of corpus.json."""
    header = read_header(folder)
    reading = header.reading
    rows: dict[str, str | int] = {"format": "prepared corpus"}
    for split, n_words in header.n_words.items():
        words = format_count(n_words, "word")
        size = f"{words} in {format_count(header.n_sentences.get(split, 0), 'sentence')}"
        if header.n_characters is not None:
            size += f", {format_count(header.n_characters.get(split, 0), 'character')}"
        rows[split] = size
    rows["distinct"] = format_count(len(open_table(folder)[0]), "word")
    rows["vocabulary"] = format_count(len(Vocabulary.load(folder / VOCABULARY)), "word")
    rows["tokenizer"] = f"{reading.tokenizer}{', tokenized text' * reading.pretokenized}"
    rows["sentences"] = "one per line" if reading.sentences == "line" else "split from paragraphs"
    return rows, to_dict(header)
