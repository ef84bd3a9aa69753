"""Keys and labels of the training record in the `config.json` of a model folder.

The record describes how the model was trained. `LABELS` maps each key to the label shown in the
model card and by `elmo info`.
"""

from collections.abc import Mapping

BASE_MODEL = "base_model"
BASE_TEXT = "base_text"
PROGRAM = "program"
TEXT = "text"
SENTENCES = "sentences"
STEPS = "steps"
RESET_SHARE = "reset_share"
HELDOUT_PERPLEXITY = "heldout_perplexity"
HELDOUT_BITS_PER_CHARACTER = "heldout_bits_per_character"
HELDOUT_CHARACTERS = "heldout_characters"
HELDOUT_OOV_RATE = "heldout_oov_rate"

LABELS = {
    BASE_MODEL: "fine-tuned from",
    BASE_TEXT: "training text before",
    PROGRAM: "trained with",
    TEXT: "training text",
    SENTENCES: "sentence splitting",
    STEPS: "training steps",
    RESET_SHARE: "reset share",
    HELDOUT_PERPLEXITY: "held-out perplexity",
    HELDOUT_BITS_PER_CHARACTER: "held-out bits per character",
    HELDOUT_CHARACTERS: "held-out characters",
    HELDOUT_OOV_RATE: "held-out out-of-vocabulary rate",
}
# Labels in the record of a fine-tuned model.
FINETUNING_LABELS = {TEXT: "fine-tuning text", STEPS: "fine-tuning steps"}
# Label of the bits per character in records without the number of characters. Earlier versions
# divided by the characters of the words, plus one for each word and sentence.
EARLIER_BITS_PER_CHARACTER = "held-out bits per character of the tokenized text"

# Key names from earlier versions, which are still accepted in model folders.
_EARLIER_KEYS = {
    "sentences from zero": RESET_SHARE,
    "held-out perplexity": HELDOUT_PERPLEXITY,
    "held-out bits per character": HELDOUT_BITS_PER_CHARACTER,
    "held-out words out of vocabulary": HELDOUT_OOV_RATE,
}


def with_current_keys(record: object) -> dict[str, object] | None:
    """Return a training record with current key names; None if it is not a dictionary."""
    if not isinstance(record, dict):
        return None
    return {_EARLIER_KEYS.get(str(key), str(key)): value for key, value in record.items()}


def with_labels(record: Mapping[str, object] | None) -> dict[str, object]:
    """Return a training record with keys replaced by their labels, where a label exists."""
    record = record or {}
    labels = dict(LABELS)
    if HELDOUT_CHARACTERS not in record:
        labels[HELDOUT_BITS_PER_CHARACTER] = EARLIER_BITS_PER_CHARACTER
    if BASE_MODEL in record:
        labels |= FINETUNING_LABELS
    return {labels.get(key, key): value for key, value in record.items()}


def finetuning_record(name: str, base: Mapping[str, object] | None) -> dict[str, object]:
    """Return the first entries in the training record of a fine-tuned model: its origin.

    Scores of the base model are not included, because they do not hold for the fine-tuned model.
    """
    base = base or {}
    texts = [str(base[key]) for key in (BASE_TEXT, TEXT) if key in base]
    record: dict[str, object] = {BASE_MODEL: name}
    return record | ({BASE_TEXT: "; then ".join(texts)} if texts else {})
