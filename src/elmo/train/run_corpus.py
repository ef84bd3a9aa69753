"""The corpus of a run: a prepared one, or text that is prepared first into the training folder."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus, is_corpus
from elmo.errors import ConfigError
from elmo.train.learner import TrainingConfig
from elmo.train.run_folder import CORPUS

logger = logging.getLogger(__name__)

# Below this many words a perplexity is an anecdote.
MIN_VALID_WORDS = 300


@contextmanager
def open_corpus(config: TrainingConfig, corpus: CorpusConfig) -> Iterator[Corpus]:
    """Open the corpus of a run, made first where the data is text.

    Args:
        config: of the run.
        corpus: how text becomes a corpus.
    """
    if not config.data:
        raise ConfigError("no data was named: give a prepared corpus or text files with --data")
    given = Path(config.data[0])
    if len(config.data) == 1 and is_corpus(given):
        if config.valid:
            raise ConfigError(f"{given} is a prepared corpus: its validation text was set then")
        ignored = [
            name
            for name in ("vocab", "vocab_size", "min_count", "held_out")
            if getattr(corpus, name) != getattr(CorpusConfig(), name)
        ]
        if ignored:
            raise ConfigError(
                f"{given} is a prepared corpus: {', '.join(ignored)} was settled then; prepare it "
                "again to change that"
            )
        yield _check_corpus(Corpus.open(given), str(given))
        return
    with tempfile.TemporaryDirectory() as nowhere:
        # A dry run leaves nothing behind.
        folder = Path(nowhere if config.run.dry_run else config.out) / CORPUS
        if not is_corpus(folder):
            if config.run.devices * config.run.num_nodes > 1:
                raise ConfigError(
                    "text is prepared by one process: run elmo prepare first, and give its folder "
                    "with --data"
                )
            folder.parent.mkdir(parents=True, exist_ok=True)
            prepare(PrepareConfig(config.data, str(folder), config.valid, corpus=corpus))
        yield _check_corpus(Corpus.open(folder), ", ".join(config.data))


def _check_corpus(corpus: Corpus, name: str) -> Corpus:
    if not corpus.splits.get("train") or not corpus.splits["train"].n_words:
        raise ConfigError(f"{name}: there is no word to train on")
    corpus.vocabulary.require_specials()
    valid = corpus.splits.get("valid")
    if valid is not None and valid.n_words < MIN_VALID_WORDS:
        logger.warning(
            "the held-out text has %d words only: its perplexity says little; give a longer one "
            "with --valid, or hold out more with --held-out",
            valid.n_words,
        )
    return corpus
