"""AllenNLP's own models which hold an ELMo: `model.tar.gz`, `best.th`, or a saved `Elmo` module.

The geometry is read off the tensors. What they cannot tell (clips, activation) is taken from the
options file where the archive has it, and otherwise from the published models, said aloud.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from elmo.config import EncoderConfig, LSTMConfig, MixConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError, FormatError
from elmo.formats import weight_names
from elmo.formats.bilm_options import config_from_options
from elmo.formats.container import Container
from elmo.formats.mixes import initial_mixes
from elmo.formats.pickles import read_state_dict, to_arrays
from elmo.formats.pretrained import Pretrained

ORIGIN = "AllenNLP archive"
_TABLE = "_elmo_lstm._token_embedder._char_embedding_weights"
_MIX = re.compile(r"scalar_mix_(\d+)\.(gamma|scalar_parameters\.(\d+))")
# Made from the rest of the model for a given vocabulary, which is not in the archive.
_DERIVED = (
    "_elmo_lstm._word_embedding.weight",
    "_elmo_lstm._bos_embedding",
    "_elmo_lstm._eos_embedding",
)


def read_archive(archive: Container, options: Any = None) -> Pretrained:
    """Read the ELMo out of a `model.tar.gz`.

    Args:
        archive: its files.
        options: parsed options.json, where the user has it.
    """
    weights = next((name for name in ("weights.th", "best.th") if name in archive.names), None)
    if weights is None:
        raise FormatError(
            f"{archive.label}: no weights.th inside, so this is no AllenNLP archive; found "
            f"{archive.listing()}"
        )
    config = archive.read_json("config.json") if "config.json" in archive.names else {}
    if options is None:
        options = _options_inside(archive)
    with archive.open(weights) as file:
        state = read_state_dict(file, f"{archive.label}: {weights}")
    model = read_state(state, f"{archive.label}: {weights}", options, _kind(config))
    if not _has_layer_norm(config):
        return model
    mix = dataclasses.replace(model.config.mix, layer_norm="allennlp")
    return dataclasses.replace(model, config=dataclasses.replace(model.config, mix=mix))


def _has_layer_norm(config: Any) -> bool:
    """Whether an ELMo in the experiment's config, however deep, was trained with layer norm."""
    if isinstance(config, list):
        return any(map(_has_layer_norm, config))
    if not isinstance(config, dict):
        return False
    is_elmo = str(config.get("type", "")).startswith("elmo_token_embedder")
    return bool(is_elmo and config.get("do_layer_norm")) or _has_layer_norm(list(config.values()))


def _options_inside(archive: Container) -> Any:
    """Find the options file among the files AllenNLP packed with the model, under `fta/`."""
    names = [name for name in archive.names if name.startswith("fta/") and "options" in name]
    return archive.read_json(names[0]) if len(names) == 1 else None


def _kind(config: Any) -> str:
    model = config.get("model") if isinstance(config, dict) else None
    if not isinstance(model, dict):
        return "a model of unknown type"
    parts = [f"a {model.get('type', 'model of unknown type')!r}"]
    contextualizer = model.get("contextualizer")
    if isinstance(contextualizer, dict):
        parts.append(f"with a {contextualizer.get('type')!r} contextualizer")
    return " ".join(parts)


def read_state(
    state: Mapping[str, Tensor],
    label: str,
    options: Any = None,
    kind: str = "a model",
) -> Pretrained:
    """Read the ELMo out of a state dict, whatever else is in it.

    Args:
        state: tensors by AllenNLP's names.
        label: the file, for messages.
        options: parsed options.json, where it is known.
        kind: what the model around the ELMo is, for messages.
    """
    prefixes = [name.removesuffix(_TABLE) for name in state if name.endswith(_TABLE)]
    if not prefixes:
        raise FormatError(
            f"{label} holds {kind}, not an ELMo: there is no character table of a biLSTM ELMo in it"
        )
    if len(prefixes) > 1:
        raise FormatError(
            f"{label} holds {len(prefixes)} ELMos ({', '.join(sorted(prefixes))}): save the one "
            "you want with torch.save(module.state_dict(), ...) first"
        )
    prefix = prefixes[0]
    inside = {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
    mixes = {name: inside.pop(name) for name in list(inside) if _MIX.fullmatch(name)}
    for name in _DERIVED:
        inside.pop(name, None)
    inside = {name: tensor for name, tensor in inside.items() if name.startswith("_elmo_lstm.")}
    config, notes = _geometry(inside, options, label)
    weights = weight_names.to_ours(
        weight_names.allennlp_modules(config),
        to_arrays(inside, label),
        label,
    )
    mixed = _mixes(mixes, config.n_layers, label)
    n_mixes = len(mixed) // 2
    if n_mixes:
        config = ModelConfig(config.text, config.encoder, config.lstm, MixConfig(n_mixes))
    return Pretrained(
        config,
        {**weights, **(mixed or initial_mixes(config.n_layers))},
        ORIGIN,
        notes=tuple(notes),
        source=label,
    )


def _mixes(found: Mapping[str, Tensor], n_layers: int, label: str) -> dict[str, Tensor]:
    numbers = sorted({int(name.split(".")[0].removeprefix("scalar_mix_")) for name in found})
    mixes: dict[str, Tensor] = {}
    for place, number in enumerate(numbers):
        scope = f"scalar_mix_{number}"
        names = [f"{scope}.scalar_parameters.{depth}" for depth in range(n_layers)]
        expected = [*names, f"{scope}.gamma"]
        odd = sorted(set(expected) ^ {name for name in found if name.startswith(f"{scope}.")})
        if odd:
            what = "missing" if odd[0] in expected else f"too much for {n_layers} layers"
            raise FormatError(f"{label}: {odd[0]} is {what}; the mix is not whole")
        arrays = to_arrays({name: found[name] for name in expected}, label)
        for name, array in arrays.items():
            if array.size != 1:
                raise FormatError(f"{label}: {name} has shape {array.shape}, expected one number")
        *weights, gamma = (torch.from_numpy(array).view(1) for array in arrays.values())
        mixes[f"mixes.{place}.weights"] = torch.cat(weights)
        mixes[f"mixes.{place}.gamma"] = gamma
    return mixes


def _geometry(
    state: Mapping[str, Tensor],
    options: Any,
    label: str,
) -> tuple[ModelConfig, list[str]]:
    encoder, lstm = "_elmo_lstm._token_embedder", "_elmo_lstm._elmo_lstm"
    try:
        n_characters, character_dim = state[f"{encoder}._char_embedding_weights"].shape
        filters: list[tuple[int, int]] = []
        while f"{encoder}.char_conv_{len(filters)}.weight" in state:
            count, _, width = state[f"{encoder}.char_conv_{len(filters)}.weight"].shape
            filters.append((width, count))
        projection_dim, cell_dim = state[f"{lstm}.forward_layer_0.state_projection.weight"].shape
    except (KeyError, ValueError) as error:
        raise FormatError(f"{label}: the ELMo in it is not whole ({error})") from None
    told, notes = ModelConfig(), list[str]()
    if options is None:
        notes.append(
            "the archive does not say its clips and activation: those of the published models are "
            f"assumed (clips {told.lstm.cell_clip:g} and {told.lstm.projection_clip:g}, "
            f"{told.encoder.activation})"
        )
    else:
        told, notes = config_from_options(options, f"the options of {label}")
    try:
        config = ModelConfig(
            TextConfig(max_characters=told.text.max_characters),
            EncoderConfig(
                n_characters=n_characters,
                character_dim=character_dim,
                filters=tuple(filters),
                activation=told.encoder.activation,
                n_highway=_count(state, f"{encoder}._highways._layers.", ".weight"),
            ),
            LSTMConfig(
                cell_dim=cell_dim,
                projection_dim=projection_dim,
                n_layers=_count(state, f"{lstm}.forward_layer_", ".state_linearity.bias"),
                cell_clip=told.lstm.cell_clip,
                projection_clip=told.lstm.projection_clip,
                # AllenNLP builds no other kind, and its state dicts hold the forget bias already.
                residual=True,
                forget_bias=0.0,
            ),
        )
    except ConfigError as error:
        raise FormatError(f"{label}: {error}") from None
    if options is not None:
        _compare(config.encoder, dataclasses.replace(told.encoder, project=True), label)
        _compare(config.lstm, dataclasses.replace(told.lstm, forget_bias=0.0), label)
    return config, notes


def _compare(
    found: EncoderConfig | LSTMConfig, told: EncoderConfig | LSTMConfig, label: str
) -> None:
    for name, value in dataclasses.asdict(found).items():
        said = getattr(told, name)
        if value != said:
            raise FormatError(
                f"{label}: {name} is {value} by its tensors and {said} by the options: the options "
                "belong to another model"
            )


def _count(state: Mapping[str, Tensor], start: str, end: str) -> int:
    return sum(name.startswith(start) and name.endswith(end) for name in state)
