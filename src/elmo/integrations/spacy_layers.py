"""All layers of the tokens of a spaCy document, at `doc._.elmo`."""

from spacy.attrs import ORTH
from spacy.tokens import Doc

from elmo.errors import InputError
from elmo.integrations.spacy_vectors import FloatArray


def layers_of(doc: Doc) -> FloatArray | None:
    """Return all layers, (layers, tokens, dim), or None if they were not stored.

    Unlike `doc.tensor`, spaCy does not adapt them when the tokens change, so that they would belong
    to other tokens.
    """
    stored = doc._.elmo_stored
    if stored is None:
        return None
    if doc.to_array(ORTH).tolist() != stored["words"]:
        raise InputError(
            f"The tokens of this document ({len(doc)}) are no longer those that ELMo read "
            f"({len(stored['words'])}), so doc._.elmo has no vectors for them. Run the component "
            'on the document again: nlp.get_pipe("elmo")(doc).'
        )
    layers: FloatArray = stored["layers"]
    return layers


def store_layers(doc: Doc, layers: FloatArray | None) -> None:
    """Store all layers of the current tokens, (layers, tokens, dim), or None."""
    doc._.elmo_stored = (
        None if layers is None else {"layers": layers, "words": doc.to_array(ORTH).tolist()}
    )


# An attribute with a getter stores nothing itself.
Doc.set_extension("elmo_stored", default=None, force=True)
Doc.set_extension("elmo", getter=layers_of, setter=store_layers, force=True)
