"""Reader for ELMoForManyLangs folders: two pickles, two dictionaries and a config file.

The config usually refers to an architecture file that is not in the folder.
"""

import posixpath

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError, FormatError
from elmo.formats import weight_names
from elmo.formats.bilm_options import Section
from elmo.formats.container import Container
from elmo.formats.mixes import initial_mixes
from elmo.formats.pickles import read_state_dict, to_arrays
from elmo.formats.pretrained import Pretrained

ORIGIN = "ELMoForManyLangs folder"
# Architecture files that ELMoForManyLangs ships; both have the content below. Published models
# refer to them by a path on their authors' machine.
_PACKAGED_CONFIGS = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_PACKAGED_ARCHITECTURE: dict[str, object] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [list(pair) for pair in EncoderConfig().filters],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def is_folder(names: tuple[str, ...]) -> bool:
    """Whether these file names belong to an ELMoForManyLangs model."""
    return "encoder.pkl" in names and "token_embedder.pkl" in names


def read(folder: Container) -> Pretrained:
    """Read an ELMoForManyLangs model from a folder or zip."""
    architecture, notes = _architecture(folder)
    state: dict[str, weight_names.Array] = {}
    for part in ("token_embedder", "encoder"):
        with folder.open(f"{part}.pkl") as file:
            tensors = read_state_dict(file, f"{folder.label}: {part}.pkl")
        arrays = to_arrays(tensors, f"{folder.label}: {part}.pkl")
        state |= {f"{part}.{name}": array for name, array in arrays.items()}
    # Sizes come from the tensors: dictionaries with unusual whitespace would be miscounted.
    n_words = _n_rows(state, "token_embedder.word_emb_layer.embedding.weight")
    n_characters = _n_rows(state, "token_embedder.char_emb_layer.embedding.weight")
    config = _config(architecture, n_words, n_characters, folder.label)
    characters = words = None
    if config.encoder.n_characters:
        characters = _dictionary(folder, "char.dic")
    if config.encoder.n_words:
        words = _dictionary(folder, "word.dic")
        missing = [token for token in config.text.special_tokens if token not in words]
        if missing:
            raise FormatError(f"{folder.label}: word.dic lacks {', '.join(missing)}.")
    weights = weight_names.import_weights(weight_names.many_langs(config), state, folder.label)
    return Pretrained(
        config,
        {**weights, **initial_mixes(config.n_layers)},
        ORIGIN,
        characters=characters,
        words=words,
        notes=tuple(notes),
        source=folder.label,
    )


def _n_rows(state: dict[str, weight_names.Array], name: str) -> int:
    return state[name].shape[0] if name in state and state[name].ndim else 0


def _architecture(folder: Container) -> tuple[object, list[str]]:
    config = folder.read_json("config.json")
    path = config.get("config_path") if isinstance(config, dict) else None
    if not isinstance(path, str):
        raise FormatError(f"{folder.label}: config.json has no config_path.")
    relative_path = posixpath.normpath(path.replace("\\", "/"))
    base = posixpath.basename(relative_path)
    for name in (relative_path, base):
        if folder.holds(name):
            return folder.read_json(name), []
    if base in _PACKAGED_CONFIGS:
        note = (
            f"{base} is not in the folder: assuming the architecture that ELMoForManyLangs ships."
        )
        return _PACKAGED_ARCHITECTURE, [note]
    raise FormatError(
        f"{folder.label}: config.json refers to {path}, which does not exist. Put {base} into the "
        "folder."
    )


def _config(architecture: object, n_words: int, n_characters: int, label: str) -> ModelConfig:
    root = Section(architecture, f"{label}: architecture")
    encoder, embedder = root.section("encoder"), root.section("token_embedder")
    for section, name in ((encoder, "elmo"), (embedder, "cnn")):
        if section.data.get("name") != name:
            raise FormatError(
                f"{label}: the architecture has a component named {section.data.get('name')!r}. "
                f"Only {name!r}, which all published models use, is supported."
            )
    for name in ("cell_clip", "proj_clip"):
        encoder.required(name)
    word_dim, character_dim = embedder.integer("word_dim"), embedder.integer("char_dim")
    has_words, has_characters = word_dim > 0, character_dim > 0
    try:
        return ModelConfig(
            TextConfig(
                characters="dictionary" if has_characters else "none",
                max_characters=embedder.integer("max_characters_per_token"),
                special_tokens=("<bos>", "<eos>", "<oov>"),
                cut_words=True,
            ),
            EncoderConfig(
                n_characters=n_characters + 1 if has_characters else 0,
                character_dim=character_dim,
                filters=embedder.filters() if has_characters else (),
                activation=embedder.activation() if has_characters else "relu",
                n_highway=embedder.integer("n_highway") if has_characters else 0,
                n_words=n_words + 1 if has_words else 0,
                word_dim=word_dim,
            ),
            LSTMConfig(
                cell_dim=encoder.integer("dim"),
                projection_dim=encoder.integer("projection_dim"),
                n_layers=encoder.integer("n_layers"),
                cell_clip=encoder.clip("cell_clip") or None,
                projection_clip=encoder.clip("proj_clip") or None,
                residual=True,
                forget_bias=0.0,
            ),
        )
    except ConfigError as error:
        raise FormatError(f"{label}: {error}") from None


def _dictionary(folder: Container, name: str) -> dict[str, int]:
    """Read a dictionary file with one `symbol<TAB>id` entry per line.

    An empty symbol is read as U+3000 (ideographic space), which had been stripped from the
    file. Lines are split only at newlines, because other line breaks and whitespace are valid
    symbols.
    """
    entries: dict[str, int] = {}
    for number, line in enumerate(folder.read(name).split(b"\n"), start=1):
        if not line.strip(b"\r"):
            continue
        symbol, _, digits = line.rpartition(b"\t")
        try:
            entries[symbol.decode("utf-8") or "\u3000"] = int(digits)
        except ValueError:  # includes UnicodeDecodeError
            raise FormatError(
                f"{folder.label}: line {number} of {name} is not a symbol, a tab and an integer."
            ) from None
    return entries
