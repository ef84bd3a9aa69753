"""ELMo vectors of texts as features for scikit-learn."""

from pathlib import Path
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from elmo.config import Layers, Pooling
from elmo.errors import ConfigError, InputError
from elmo.integrations.shared_elmo import check_model_name, shared_elmo
from elmo.integrations.text_column import TextColumn, text_column

Missing = Literal["error", "zero"]


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Converts texts to pooled ELMo vectors, (texts, dim) in float32.

    It is stateless: `fit` only checks its arguments, and the model is loaded on first use, once per
    process. Copies and pickles contain the name of the model instead of its weights.
    """

    def __init__(
        self,
        model: str | Path = "small-en",
        *,
        layers: Layers = "average",
        pooling: Pooling = "mean",
        precision: str | None = None,
        device: str | None = None,
        batch_size: int | None = None,
        missing: Missing = "error",
    ) -> None:
        """Store the settings.

        Args:
            model: Name of a bundled or downloaded model, path, or hub id.
            layers: "average", "mix" (the trained layer mix), "top" or a layer number.
            pooling: "mean", "max" or "first-last".
            precision: Precision of the computation, such as "int8"; `ELMo.encode` lists them.
            device: Device of the model. Default: a GPU if available.
            batch_size: Number of texts per batch. Default: chosen per device.
            missing: "error" raises an error for missing texts (None, NaN, NA); "zero" gives them
                the vector of an empty text, which is zero.
        """
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.precision = precision
        self.device = device
        self.batch_size = batch_size
        self.missing = missing

    def fit(self, X: TextColumn, y: object = None) -> Self:
        """Check the settings and the texts; nothing is learned.

        Args:
            X: List, Series, array, or table with one column.
            y: Ignored.
        """
        self._check_settings()
        self._texts(X)
        return self

    def transform(self, X: TextColumn) -> NDArray[np.float32]:
        """Return the vector of each text, (texts, dim); equal texts are computed once.

        Args:
            X: List, Series, array, or table with one column.
        """
        self._check_settings()
        texts = self._texts(X)
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = shared_elmo(self.model, self.device).encode(
            list(rows),
            layers=self.layers,
            pooling=self.pooling,
            precision=self.precision,
            batch_size=self.batch_size,
        )
        return vectors[[rows[text] for text in texts]]

    def _texts(self, values: TextColumn) -> list[str]:
        """Return the texts; missing ones are empty or an error."""
        texts = text_column(values)
        if self.missing == "error" and None in texts:
            raise InputError(
                f"Text {texts.index(None)} is a missing value. Replace missing texts, or give them "
                'a zero vector with missing="zero".'
            )
        return [text or "" for text in texts]

    def _check_settings(self) -> None:
        check_model_name(self.model)
        if self.missing not in get_args(Missing):
            raise ConfigError(f'missing must be "error" or "zero" (got {self.missing!r}).')
        if self.pooling not in get_args(Pooling):
            raise ConfigError(
                f"pooling must be one of {', '.join(get_args(Pooling))} (got {self.pooling!r})."
            )
        if self.layers == "all":
            raise ConfigError(
                'layers "all" gives several vectors per text. Choose one layer, or combine several '
                "vectorizers with a FeatureUnion."
            )

    @property
    def _n_features_out(self) -> int:
        """The number of features, for `get_feature_names_out`."""
        return shared_elmo(self.model, self.device).config.dim

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.missing == "zero"
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
