"""Opens the corpus of a run: a prepared corpus, or text files that are prepared first."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.config import CorpusConfig, PrepareConfig, ReadingConfig
from elmo.corpus.prepare_corpus import prepare, warn_if_too_small
from elmo.corpus.sentence_reader import reject_file_options
from elmo.corpus.shards import Corpus, is_corpus
from elmo.errors import ConfigError, listing
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.train import checkpoint
from elmo.train.learner import TrainingConfig
from elmo.train.run_folder import CHECKPOINTS, CORPUS, TEXT_RECORD, locked
from elmo.train.text_record import TextRecord
from elmo.train.text_sample import sample_corpus

logger = logging.getLogger(__name__)


@contextmanager
def open_corpus(config: TrainingConfig, corpus: CorpusConfig) -> Iterator[Corpus]:
    """Open the corpus of a run; text files are first prepared into the training folder."""
    if not config.data:
        raise ConfigError("No training data. Give a prepared corpus or text files with --data.")
    data = Path(config.data[0])
    if len(config.data) == 1 and is_corpus(data):
        if config.valid:
            raise ConfigError(
                f"--valid cannot be used with the prepared corpus {data}, which has its own "
                "held-out text."
            )
        reject_file_options(str(data), corpus.reading.input_format, corpus.reading.text_column)
        opened = Corpus.open(data)
        _check_options(config, opened.reading)
        if "valid" in opened.splits:  # text files are checked when they are prepared
            warn_if_too_small(opened.splits["valid"].n_words, is_prepared=True)
        yield _check_corpus(opened, str(data))
        return
    name = ", ".join(config.data)
    if config.run.dry_run:
        # A dry run writes nothing to the training folder.
        _check_single_process(config)
        with tempfile.TemporaryDirectory() as temporary:
            sample = sample_corpus(config.data, config.valid, corpus, Path(temporary))
            if sample is None:
                folder = Path(temporary) / CORPUS
                prepare(PrepareConfig(config.data, str(folder), config.valid, corpus=corpus))
                sample = Corpus.open(folder)
            yield _check_corpus(sample, name)
        return
    if not _can_reuse(config, corpus):
        _check_single_process(config)
        _prepare(config, corpus)
    yield _check_corpus(Corpus.open(Path(config.out) / CORPUS), name)


def _check_options(config: TrainingConfig, recorded: ReadingConfig) -> None:
    """Raise an error if options for preparing text are set, but the corpus is already prepared.

    Options of the recorded reading are accepted if they are equal, because presets set them too.
    """
    default = CorpusConfig()
    ignored = [
        name
        for name in ("vocab", "vocab_size", "min_count", "held_out")
        if getattr(config.corpus, name) != getattr(default, name)
    ]
    # A run of an earlier version, which ignored these options, is resumed.
    if not checkpoint.exists(Path(config.out) / CHECKPOINTS):
        for name in ("tokenizer", "sentences", "pretokenized"):
            value, used = getattr(config.corpus.reading, name), getattr(recorded, name)
            if name == "tokenizer":
                used = used or WhitespaceTokenizer.name
            if value not in (getattr(default.reading, name), used):
                ignored.append(f"{name} (prepared with {str(used).lower()})")
    if ignored:
        raise ConfigError(
            f"{config.data[0]} is a prepared corpus, so {', '.join(ignored)} cannot be changed. "
            "Omit the option, or prepare the text again with the new settings."
        )


def _can_reuse(config: TrainingConfig, corpus: CorpusConfig) -> bool:
    """Whether the training folder contains a corpus that was prepared from the text of this run.

    An error is raised if the corpus belongs to a run on other text, or if its text is not recorded.
    """
    out = Path(config.out)
    if not is_corpus(out / CORPUS):
        return False
    record = TextRecord.load(out / TEXT_RECORD)
    if checkpoint.exists(out / CHECKPOINTS):
        # Options are compared when the run is resumed. Runs of earlier versions have no record.
        changed = record.changed_files() if record is not None else []
        if changed:
            raise ConfigError(
                f"{out} contains a run on text that has changed since then: {listing(changed)}. "
                "Restore the text to resume the run, or choose another --out."
            )
        return True
    if record is None:
        raise ConfigError(
            f"{out / CORPUS} contains a corpus, but not from which text it was prepared. Train on "
            f"it with --data {out / CORPUS}, delete it, or choose another --out."
        )
    return record.matches(config.data, config.valid, corpus)


def _prepare(config: TrainingConfig, corpus: CorpusConfig) -> None:
    """Prepare text files in the training folder; after an error, a new folder is removed."""
    out = Path(config.out)
    is_new = not out.exists()
    try:
        with locked(out):
            record = TextRecord.of(config.data, config.valid, corpus)
            if is_corpus(out / CORPUS):
                logger.warning(
                    "%s was prepared from other text or with other options, and is prepared again.",
                    out / CORPUS,
                )
                shutil.rmtree(out / CORPUS)
            (out / TEXT_RECORD).unlink(missing_ok=True)
            prepare(PrepareConfig(config.data, str(out / CORPUS), config.valid, corpus=corpus))
            record.save(out / TEXT_RECORD)
    except BaseException:
        if is_new:
            shutil.rmtree(out, ignore_errors=True)
        raise


def _check_single_process(config: TrainingConfig) -> None:
    """Raise an error if text files would be prepared by several processes."""
    if config.run.devices * config.run.num_nodes > 1:
        raise ConfigError(
            "Text files cannot be prepared by several processes. Run elmo prepare first and give "
            "its output folder with --data."
        )


def _check_corpus(corpus: Corpus, name: str) -> Corpus:
    """Return the corpus; raise an error if it cannot be used for training."""
    if not corpus.splits.get("train") or not corpus.splits["train"].n_words:
        raise ConfigError(f"{name} contains no words to train on.")
    corpus.vocabulary.require_special_tokens()
    return corpus
