"""Opens the corpus of a run: a prepared corpus, or text files that are prepared first."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.sentence_reader import reject_file_options
from elmo.corpus.shards import Corpus, is_corpus
from elmo.errors import ConfigError
from elmo.train.learner import TrainingConfig
from elmo.train.run_folder import CORPUS
from elmo.train.text_sample import sample_corpus

logger = logging.getLogger(__name__)

# With fewer held-out words the perplexity is too noisy.
MIN_VALID_WORDS = 300


@contextmanager
def open_corpus(config: TrainingConfig, corpus: CorpusConfig) -> Iterator[Corpus]:
    """Open the corpus of a run; text files are first prepared into the training folder.

    Args:
        config: Options of the run.
        corpus: Options for preparing text files.
    """
    if not config.data:
        raise ConfigError("No training data. Give a prepared corpus or text files with --data.")
    data = Path(config.data[0])
    if len(config.data) == 1 and is_corpus(data):
        if config.valid:
            raise ConfigError(
                f"--valid cannot be used with the prepared corpus {data}, which has its own "
                "held-out text."
            )
        ignored = [
            name
            for name in ("vocab", "vocab_size", "min_count", "held_out")
            if getattr(corpus, name) != getattr(CorpusConfig(), name)
        ]
        if ignored:
            raise ConfigError(
                f"{data} is a prepared corpus, so {', '.join(ignored)} cannot be changed. Prepare "
                "the text again with the new settings."
            )
        reject_file_options(str(data), corpus.reading.input_format, corpus.reading.text_field)
        yield _check_corpus(Corpus.open(data), str(data))
        return
    with tempfile.TemporaryDirectory() as temporary:
        # A dry run writes nothing to the training folder.
        folder = Path(temporary if config.run.dry_run else config.out) / CORPUS
        if not is_corpus(folder):
            if config.run.devices * config.run.num_nodes > 1:
                raise ConfigError(
                    "Text files cannot be prepared by several processes. Run elmo prepare first "
                    "and give its output folder with --data."
                )
            folder.parent.mkdir(parents=True, exist_ok=True)
            if config.run.dry_run:
                sample = sample_corpus(config.data, config.valid, corpus, Path(temporary))
                if sample is not None:
                    yield _check_corpus(sample, ", ".join(config.data))
                    return
            prepare(PrepareConfig(config.data, str(folder), config.valid, corpus=corpus))
        yield _check_corpus(Corpus.open(folder), ", ".join(config.data))


def _check_corpus(corpus: Corpus, name: str) -> Corpus:
    """Return the corpus; raise an error if it cannot be used for training."""
    if not corpus.splits.get("train") or not corpus.splits["train"].n_words:
        raise ConfigError(f"{name} contains no words to train on.")
    corpus.vocabulary.require_special_tokens()
    valid = corpus.splits.get("valid")
    if valid is not None and valid.n_words < MIN_VALID_WORDS:
        logger.warning(
            "The held-out text has only %d words, too few for a reliable perplexity. Give a longer "
            "text with --valid, or hold out more with --held-out.",
            valid.n_words,
        )
    return corpus
