"""`clamped_loss`: the loss of a model without and with units that are set to a value."""

import math
import os
from collections.abc import Sequence

import torch

from elmo.config.bounds import require_type
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.lab.elmo_stepper import Direction
from elmo.lab.evaluate_lm import loss_change
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.symbol_text import text_part
from elmo.lab.text_loss import UNROLL, TextLoss
from elmo.lab.units.clamp import Clamp, parse_clamps
from elmo.lab.units.clamped_elmo import clamped_elmo_bits
from elmo.lab.units.loss_change import LossChange
from elmo.lab.units.read_traces import Text, model_of, text_of
from elmo.lab.units.traces import Sentences
from elmo.lab.units.word_lines import split_lines
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.tokenizers_by_name import get_tokenizer


def clamped_loss(
    model: str | os.PathLike[str] | LanguageModel | ELMo | Pretrained,
    text: Text,
    clamps: Sequence[str | Clamp],
    *,
    direction: Direction = "forward",
    batch_size: int = 1,
    device: str | torch.device | None = None,
) -> LossChange:
    """Return the loss of a model on a text without and with clamped units.

    Args:
        model: A language model, or an ELMo with a softmax; in memory, or its folder or name.
        text: The text as a string, or a `Path` of a text file; for an ELMo also a list of
            sentences, which are lists of words. An ELMo reads each line from a zero state.
        clamps: Clamps, such as "1:37=0.5" for unit 37 of layer 1; all of them apply together.
            Layers and units begin at 0.
        direction: Direction of an ELMo, whose units are clamped and whose loss is measured.
        batch_size: Number of parts of the text that a language model reads at the same time, which
            is faster and changes the loss very little.
        device: Device of the computation. Default: cuda if available. A language model in memory
            stays on its device.

    Raises:
        ConfigError: A clamp is invalid, or the model does not have the unit or no softmax.
        FormatError: The model cannot be read.
        InputError: The text cannot be read, or has nothing to predict.
    """
    require_type("batch_size", batch_size, "an integer")
    if batch_size < 1:
        raise ConfigError(f"batch_size must be at least 1 (got {batch_size}).")
    parsed = parse_clamps(clamps)
    if not parsed:
        raise ConfigError("clamps is empty. Pass at least one clamp, such as 1:37=0.5.")
    loaded = model_of(model, device)
    content = text_of(text, loaded)
    if isinstance(loaded, TrainedModel):
        raise ConfigError("clamped_loss needs a language model or an ELMo, not a task model.")
    if isinstance(loaded, Pretrained):
        if batch_size != 1:
            raise ConfigError("batch_size must be 1 for ELMo models, which read line by line.")
        return _elmo_change(loaded, content, parsed, direction, device)
    if direction != "forward":
        raise ConfigError("direction must be forward: only ELMo models predict backward.")
    return _recurrent_change(loaded, content, parsed, batch_size)


def _recurrent_change(
    model: RecurrentModel, text: str | Sentences, clamps: Sequence[Clamp], batch_size: int
) -> LossChange:
    if not isinstance(text, str):
        raise ConfigError("text must be a string or a Path for a language model, not a list.")
    part = text_part(text, model.symbols)
    return loss_change(model, part, clamps, batch_size=batch_size, unroll=UNROLL, carry=True)


def _elmo_change(
    model: Pretrained,
    text: str | Sentences,
    clamps: Sequence[Clamp],
    direction: Direction,
    device: str | torch.device | None,
) -> LossChange:
    tokenizer = model.config.text.tokenizer or WhitespaceTokenizer.name
    sentences = split_lines(text, get_tokenizer(tokenizer).words)
    losses = clamped_elmo_bits(model, sentences, direction, [[], clamps], device)
    assert model.vocabulary is not None
    lengths = [len(words) + 1 for words in sentences]
    lines = text if isinstance(text, str) else [" ".join(words) + "\n" for words in sentences]
    n_unknown = sum(word not in model.vocabulary.ids for words in sentences for word in words)
    free, clamped = (
        TextLoss(
            nats=bits * math.log(2),
            n_symbols=sum(lengths),
            n_characters=sum(map(len, lines)),
            unit="words",
            unknown_rate=n_unknown / sum(lengths),
        )
        for bits in losses
    )
    return LossChange(tuple(clamps), free, clamped)
