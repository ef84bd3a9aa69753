"""Reader for ELMo models inside AllenNLP files: `model.tar.gz`, `best.th` or a saved `Elmo` module.

Layer counts and dimensions are inferred from the tensor shapes. The clip values and the activation
function cannot be inferred: they come from the options file if the archive contains one. Otherwise
the values of the published models are assumed, with a warning.
"""

import dataclasses
import re
from collections.abc import Mapping

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
# Computed from the other weights for a vocabulary that is not in the archive.
_DERIVED = (
    "_elmo_lstm._word_embedding.weight",
    "_elmo_lstm._bos_embedding",
    "_elmo_lstm._eos_embedding",
)


def read_archive(archive: Container, options: object = None) -> Pretrained:
    """Read the ELMo model in a `model.tar.gz`, with the options that the user passed, if any."""
    weights = next((name for name in ("weights.th", "best.th") if name in archive.names), None)
    if weights is None:
        raise FormatError(
            f"{archive.label}: not an AllenNLP archive, because it contains neither weights.th nor "
            f"best.th (found {archive.listing()})."
        )
    config = archive.read_json("config.json") if "config.json" in archive.names else {}
    if options is None:
        options = _packed_options(archive)
    with archive.open(weights) as file:
        state = read_state_dict(file, f"{archive.label}: {weights}")
    model = read_state(state, f"{archive.label}: {weights}", options, _model_description(config))
    if not _has_layer_norm(config):
        return model
    mix = dataclasses.replace(model.config.mix, layer_norm="allennlp")
    return dataclasses.replace(model, config=dataclasses.replace(model.config, mix=mix))


def _has_layer_norm(config: object) -> bool:
    """Whether any ELMo token embedder in a (nested) experiment config uses layer norm."""
    if isinstance(config, list):
        return any(map(_has_layer_norm, config))
    if not isinstance(config, dict):
        return False
    is_elmo = str(config.get("type", "")).startswith("elmo_token_embedder")
    return bool(is_elmo and config.get("do_layer_norm")) or _has_layer_norm(list(config.values()))


def _packed_options(archive: Container) -> object:
    """Return the parsed options file from the archive's `fta/` folder, if there is exactly one."""
    names = [name for name in archive.names if name.startswith("fta/") and "options" in name]
    return archive.read_json(names[0]) if len(names) == 1 else None


def _model_description(config: object) -> str:
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
    options: object = None,
    description: str = "a model",
) -> Pretrained:
    """Read the ELMo model in an AllenNLP state dict, ignoring all other tensors.

    The file name `label` and the description of the model around it are for error messages.
    """
    prefixes = [name.removesuffix(_TABLE) for name in state if name.endswith(_TABLE)]
    if not prefixes:
        raise FormatError(
            f"{label} contains {description}, not an ELMo model: it has no ELMo character "
            f"embedding (a tensor named *{_TABLE})."
        )
    if len(prefixes) > 1:
        raise FormatError(
            f"{label} contains {len(prefixes)} ELMo models ({', '.join(sorted(prefixes))}), "
            "expected one. Save the one you want with torch.save(module.state_dict(), ...) first."
        )
    prefix = prefixes[0]
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
    mix_tensors = {name: tensors.pop(name) for name in list(tensors) if _MIX.fullmatch(name)}
    for name in _DERIVED:
        tensors.pop(name, None)
    tensors = {name: tensor for name, tensor in tensors.items() if name.startswith("_elmo_lstm.")}
    config, notes = _geometry(tensors, options, label)
    weights = weight_names.import_weights(
        weight_names.allennlp_modules(config),
        to_arrays(tensors, label),
        label,
    )
    mixes = _mixes(mix_tensors, config.n_layers, label)
    n_mixes = len(mixes) // 2
    if n_mixes:
        config = ModelConfig(config.text, config.encoder, config.lstm, MixConfig(n_mixes))
    return Pretrained(
        config,
        {**weights, **(mixes or initial_mixes(config.n_layers))},
        ORIGIN,
        notes=tuple(notes),
        source=label,
    )


def _mixes(tensors: Mapping[str, Tensor], n_layers: int, label: str) -> dict[str, Tensor]:
    numbers = sorted({int(name.split(".")[0].removeprefix("scalar_mix_")) for name in tensors})
    mixes: dict[str, Tensor] = {}
    for position, number in enumerate(numbers):
        scope = f"scalar_mix_{number}"
        names = [f"{scope}.scalar_parameters.{depth}" for depth in range(n_layers)]
        expected = [*names, f"{scope}.gamma"]
        mismatched = sorted(
            set(expected) ^ {name for name in tensors if name.startswith(f"{scope}.")}
        )
        if mismatched:
            problem = (
                "missing" if mismatched[0] in expected else f"unexpected for {n_layers} layers"
            )
            raise FormatError(f"{label}: incomplete layer mix: {mismatched[0]} is {problem}.")
        arrays = to_arrays({name: tensors[name] for name in expected}, label)
        for name, array in arrays.items():
            if array.size != 1:
                raise FormatError(f"{label}: {name} has shape {array.shape}, expected one value.")
        *weights, gamma = (torch.from_numpy(array).view(1) for array in arrays.values())
        mixes[f"mixes.{position}.weights"] = torch.cat(weights)
        mixes[f"mixes.{position}.gamma"] = gamma
    return mixes


def _geometry(
    state: Mapping[str, Tensor],
    options: object,
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
        raise FormatError(f"{label}: the ELMo weights are incomplete ({error}).") from None
    options_config, notes = ModelConfig(), list[str]()
    if options is None:
        notes.append(
            "The archive does not record the clip values and the activation function. Assuming "
            "those of the published models: "
            f"cell clip {options_config.lstm.cell_clip:g}, projection clip "
            f"{options_config.lstm.projection_clip:g}, activation "
            f"{options_config.encoder.activation}."
        )
    else:
        options_config, notes = config_from_options(options, f"{label}: options")
    try:
        config = ModelConfig(
            TextConfig(max_characters=options_config.text.max_characters),
            EncoderConfig(
                n_characters=n_characters,
                character_dim=character_dim,
                filters=tuple(filters),
                activation=options_config.encoder.activation,
                n_highway=_count(state, f"{encoder}._highways._layers.", ".weight"),
            ),
            LSTMConfig(
                cell_dim=cell_dim,
                projection_dim=projection_dim,
                n_layers=_count(state, f"{lstm}.forward_layer_", ".state_linearity.bias"),
                cell_clip=options_config.lstm.cell_clip,
                projection_clip=options_config.lstm.projection_clip,
                # AllenNLP always uses residual connections, and its biases include the forget bias.
                residual=True,
                forget_bias=0.0,
            ),
        )
    except ConfigError as error:
        raise FormatError(f"{label}: {error}") from None
    if options is not None:
        _check_options_match(
            config.encoder, dataclasses.replace(options_config.encoder, project=True), label
        )
        _check_options_match(
            config.lstm, dataclasses.replace(options_config.lstm, forget_bias=0.0), label
        )
    return config, notes


def _check_options_match(
    tensor_config: EncoderConfig | LSTMConfig,
    options_config: EncoderConfig | LSTMConfig,
    label: str,
) -> None:
    for name, value in dataclasses.asdict(tensor_config).items():
        option_value = getattr(options_config, name)
        if value != option_value:
            raise FormatError(
                f"{label}: {name} is {value} according to the tensors but {option_value} according "
                "to the options. The options belong to another model."
            )


def _count(state: Mapping[str, Tensor], start: str, end: str) -> int:
    return sum(name.startswith(start) and name.endswith(end) for name in state)
