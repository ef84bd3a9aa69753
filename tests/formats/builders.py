"""Builders for tiny models in every supported format.

They do not use the readers and writers of the package: names, shapes and conversions are
implemented independently, so that a mistake in either implementation makes a test fail.
"""

import gzip
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from tf_checkpoint_writer import write_checkpoint

Arrays = dict[str, Any]

VOCABULARY = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", "好")
SENTENCES = [["the", "cat", "sat", "."], ["好", "naïve", "the"], [], ["a" * 30]]
ELMO = "text_field_embedder.token_embedder_elmo._elmo."
ARCHITECTURE = "cnn_50_100_512_4096_sample.json"


def random_array(rng: np.random.Generator, *shape: int) -> Any:
    return rng.uniform(-0.7, 0.7, shape).astype(np.float32)


# ------------------------------------------------------------------ options.json and its arrays


def make_options(
    *,
    dim: int = 16,
    projection: int = 8,
    layers: int = 2,
    clip: float | None = 3,
    skip: bool = True,
    filters: Sequence[Sequence[int]] = ((1, 4), (2, 8), (3, 8)),
    highway: int = 1,
    activation: str = "relu",
    characters: bool = True,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "lstm": {
            "dim": dim,
            "projection_dim": projection,
            "n_layers": layers,
            "cell_clip": clip,
            "proj_clip": clip,
            "use_skip_connections": skip,
        }
    }
    if characters:
        options["char_cnn"] = {
            "n_characters": 262,
            "max_characters_per_token": 12,
            "embedding": {"dim": 4},
            "filters": [list(pair) for pair in filters],
            "activation": activation,
            "n_highway": highway,
        }
    return options


# One entry for each option that changes the names or the set of arrays.
GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one layer": {"layers": 1},
    "three layers": {"layers": 3},
    "no highway": {"highway": 0},
    "two highways": {"highway": 2},
    "cell and projection equal": {"dim": 8},
    "filters and projection equal": {"filters": ((1, 3), (2, 5))},
    "no residual": {"skip": False},
    "no clips": {"clip": None},
    "tanh": {"activation": "tanh"},
}


def bilm_arrays(
    options: Mapping[str, Any], *, n_words: int = 0, n_softmax: int = 0, seed: int = 0
) -> Arrays:
    """Return random weight file datasets for the given options."""
    rng = np.random.default_rng(seed)
    lstm = options["lstm"]
    cell, projection, layers = lstm["dim"], lstm["projection_dim"], lstm["n_layers"]
    arrays: Arrays = {}
    if "char_cnn" in options:
        cnn = options["char_cnn"]
        width = cnn["embedding"]["dim"]
        arrays["char_embed"] = random_array(rng, 261, width)
        for number, (size, count) in enumerate(cnn["filters"]):
            arrays[f"CNN/W_cnn_{number}"] = random_array(rng, 1, size, width, count)
            arrays[f"CNN/b_cnn_{number}"] = random_array(rng, count)
        total = sum(count for _, count in cnn["filters"])
        for number in range(cnn["n_highway"]):
            for part in ("carry", "transform"):
                arrays[f"CNN_high_{number}/W_{part}"] = random_array(rng, total, total)
                arrays[f"CNN_high_{number}/b_{part}"] = random_array(rng, total)
        if total != projection:
            arrays["CNN_proj/W_proj"] = random_array(rng, total, projection)
            arrays["CNN_proj/b_proj"] = random_array(rng, projection)
    else:
        arrays["embedding"] = random_array(rng, n_words, projection)
    for direction in range(2):
        for layer in range(layers):
            level = f"MultiRNNCell/Cell{layer}/" if layers > 1 else ""
            scope = f"RNN_{direction}/RNN/{level}LSTMCell"
            arrays[f"{scope}/W_0"] = random_array(rng, 2 * projection, 4 * cell)
            arrays[f"{scope}/B"] = random_array(rng, 4 * cell)
            if cell != projection:
                arrays[f"{scope}/W_P_0"] = random_array(rng, cell, projection)
    if n_softmax:
        arrays["softmax/W"] = random_array(rng, n_softmax, projection)
        arrays["softmax/b"] = random_array(rng, n_softmax)
    return arrays


def write_hdf5(path: Path, arrays: Arrays) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def read_hdf5(path: Path) -> Arrays:
    """Return every dataset in an HDF5 file with its original dtype."""
    arrays: Arrays = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(visit)
    return arrays


def vocabulary_bytes(words: Sequence[str] = VOCABULARY) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


def hdf5_folder(
    folder: Path,
    options: Any = None,
    arrays: Arrays | None = None,
    *,
    weights: str = "weights.hdf5",
    options_name: str = "options.json",
    vocab: str | None = None,
) -> Path:
    """Write options, weights and, if `vocab` is a file name, a vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    options = make_options() if options is None else options
    write_hdf5(folder / weights, bilm_arrays(options) if arrays is None else arrays)
    (folder / options_name).write_text(json.dumps(options))
    if vocab is not None:
        data = vocabulary_bytes()
        # No time stamp, so that two calls write the same bytes.
        data = gzip.compress(data, mtime=0) if vocab.endswith(".gz") else data
        (folder / vocab).write_bytes(data)
    return folder


def zip_folder(folder: Path, path: Path, top: str = "") -> Path:
    return write_zip(
        path,
        {
            top + item.relative_to(folder).as_posix(): item.read_bytes()
            for item in sorted(folder.rglob("*"))
            if item.is_file()
        },
    )


def write_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


# ------------------------------------------------------------------ TensorFlow checkpoints


def checkpoint_name(dataset: str) -> str:
    """Return the TensorFlow variable name for a dataset name."""
    name = "lm/" + dataset
    if not dataset.startswith("RNN_"):
        return name
    head, last = name.rsplit("/", 1)
    head = head.replace("/RNN/", "/rnn/").replace("MultiRNNCell", "multi_rnn_cell")
    head = head.replace("/Cell", "/cell_").replace("LSTMCell", "lstm_cell")
    return f"{head}/{ {'W_0': 'kernel', 'B': 'bias', 'W_P_0': 'projection/kernel'}[last] }"


def checkpoint_variables(arrays: Arrays) -> Arrays:
    """Return the checkpoint variables of a training run: weights, Adagrad slots, two counters."""
    variables = {checkpoint_name(name): array for name, array in arrays.items()}
    slots = {f"{name}/Adagrad": np.ones_like(array) for name, array in variables.items()}
    counters = {"global_step": np.float32(7), "train_perplexity": np.float32(0)}
    return {**variables, **slots, **counters}


def checkpoint_folder(
    folder: Path,
    options: Any = None,
    *,
    n_words: int = 0,
    vocab: str | None = "vocab.txt",
    variables: Arrays | None = None,
) -> Path:
    """Write a checkpoint for step 7, with softmax weights and training options."""
    folder.mkdir(parents=True)
    options = make_options() if options is None else options
    if variables is None:
        arrays = bilm_arrays(options, n_words=n_words, n_softmax=len(VOCABULARY))
        variables = checkpoint_variables(arrays)
    write_checkpoint(folder / "model.ckpt-7", variables)
    (folder / "checkpoint").write_text('model_checkpoint_path: "/gone/model.ckpt-7"\n')
    training = {**options, "bidirectional": True, "dropout": 0.1, "n_tokens_vocab": 8}
    if "char_cnn" in options:
        training["char_cnn"] = {**options["char_cnn"], "n_characters": 261}
    (folder / "options.json").write_text(json.dumps(training))
    if vocab is not None:
        (folder / vocab).write_bytes(vocabulary_bytes())
    return folder


# ------------------------------------------------------------------ AllenNLP archives


def elmo_state(
    arrays: Arrays, options: Mapping[str, Any], *, prefix: str = ELMO, n_mixes: int = 1
) -> dict[str, torch.Tensor]:
    """Convert weight file datasets to the state dict of AllenNLP's `Elmo` module."""

    def tensor(array: Any) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array))

    def reorder(array: Any) -> Any:
        i, j, f, o = np.split(array, 4, axis=-1)
        return np.concatenate([i, f, j, o], axis=-1)

    state: dict[str, torch.Tensor] = {}
    encoder = f"{prefix}_elmo_lstm._token_embedder."
    table = arrays["char_embed"]
    zero = np.zeros((1, table.shape[1]), np.float32)
    state[f"{encoder}_char_embedding_weights"] = tensor(np.concatenate([zero, table]))
    for number in range(len(options["char_cnn"]["filters"])):
        kernel = arrays[f"CNN/W_cnn_{number}"]
        state[f"{encoder}char_conv_{number}.weight"] = tensor(kernel.squeeze(0).transpose(2, 1, 0))
        state[f"{encoder}char_conv_{number}.bias"] = tensor(arrays[f"CNN/b_cnn_{number}"])
    for number in range(options["char_cnn"]["n_highway"]):
        high = {part: arrays[f"CNN_high_{number}/{part}"] for part in ("W_carry", "W_transform")}
        bias = {part: arrays[f"CNN_high_{number}/{part}"] for part in ("b_carry", "b_transform")}
        layer = f"{encoder}_highways._layers.{number}"
        state[f"{layer}.weight"] = tensor(
            np.concatenate([high["W_transform"].T, -high["W_carry"].T])
        )
        state[f"{layer}.bias"] = tensor(np.concatenate([bias["b_transform"], -bias["b_carry"]]))
    state[f"{encoder}_projection.weight"] = tensor(arrays["CNN_proj/W_proj"].T)
    state[f"{encoder}_projection.bias"] = tensor(arrays["CNN_proj/b_proj"])
    projection, cell = options["lstm"]["projection_dim"], options["lstm"]["dim"]
    for number, direction in enumerate(("forward", "backward")):
        for depth in range(options["lstm"]["n_layers"]):
            level = f"MultiRNNCell/Cell{depth}/" if options["lstm"]["n_layers"] > 1 else ""
            scope = f"RNN_{number}/RNN/{level}LSTMCell"
            layer = f"{prefix}_elmo_lstm._elmo_lstm.{direction}_layer_{depth}"
            kernel = reorder(arrays[f"{scope}/W_0"])
            bias_values = reorder(arrays[f"{scope}/B"]).copy()
            bias_values[cell : 2 * cell] += 1
            state[f"{layer}.input_linearity.weight"] = tensor(kernel[:projection].T)
            state[f"{layer}.state_linearity.weight"] = tensor(kernel[projection:].T)
            state[f"{layer}.state_linearity.bias"] = tensor(bias_values)
            state[f"{layer}.state_projection.weight"] = tensor(arrays[f"{scope}/W_P_0"].T)
    for number in range(n_mixes):
        for depth in range(options["lstm"]["n_layers"] + 1):
            value = torch.tensor([0.25 * depth - number])
            state[f"{prefix}scalar_mix_{number}.scalar_parameters.{depth}"] = value
        state[f"{prefix}scalar_mix_{number}.gamma"] = torch.tensor([1.5 + number])
    return state


def tagger_state(**changes: Any) -> dict[str, torch.Tensor]:
    """Return the state dict of an AllenNLP tagger that contains an ELMo model."""
    options = make_options()
    state = elmo_state(bilm_arrays(options), options, **changes)
    return {**state, "tag_projection_layer.weight": torch.ones(3, 16)}


def torch_bytes(content: Any, *, legacy: bool = False) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def archive_members(
    state: Mapping[str, torch.Tensor] | None = None,
    *,
    options: Any = None,
    legacy: bool = False,
) -> dict[str, bytes]:
    """Return the files in a model.tar.gz, including options.json if options are given."""
    members = {
        "config.json": json.dumps({"model": {"type": "simple_tagger"}}).encode(),
        "weights.th": torch_bytes(tagger_state() if state is None else state, legacy=legacy),
        "vocabulary/labels.txt": b"N\nV\n",
    }
    if options is not None:
        name = "fta/model.text_field_embedder.elmo.options_file"
        members[name] = json.dumps(options).encode()
    return members


def write_tar(path: Path, members: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return path


def serialization_folder(folder: Path, *, packed: bool = False) -> Path:
    """Write the output folder of an AllenNLP training run."""
    folder.mkdir(parents=True)
    members = archive_members()
    (folder / "config.json").write_bytes(members["config.json"])
    if packed:
        write_tar(folder / "model.tar.gz", members)
    else:
        (folder / "best.th").write_bytes(members["weights.th"])
    (folder / "vocabulary").mkdir()
    (folder / "vocabulary" / "labels.txt").write_bytes(b"N\nV\n")
    return folder


# ------------------------------------------------------------------ ELMoForManyLangs

SPECIAL_SYMBOLS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
CHARACTER_LINES = [
    *(f"{symbol}\t{number}" for number, symbol in enumerate("thecasnï.好")),
    *(f"{symbol}\t{number}" for number, symbol in enumerate(SPECIAL_SYMBOLS, start=10)),
]
WORD_LINES = [
    f"{word}\t{number}"
    for number, word in enumerate(["<oov>", "<bos>", "<eos>", "<pad>", "the", "cat", "好"])
]


def make_architecture(**changes: Any) -> dict[str, Any]:
    """Return the content of an ELMoForManyLangs architecture file, with some keys replaced."""
    encoder = {
        "name": "elmo",
        "projection_dim": 8,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 16,
        "n_layers": 2,
    }
    embedder = {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 4], [2, 8]],
        "n_highway": 1,
        "word_dim": 6,
        "char_dim": 5,
        "max_characters_per_token": 12,
    }
    for section in (encoder, embedder):
        section.update({key: value for key, value in changes.items() if key in section})
    return {"encoder": encoder, "token_embedder": embedder, "dropout": 0.1}


def many_langs_state(
    architecture: Mapping[str, Any], n_words: int, n_characters: int
) -> dict[str, dict[str, torch.Tensor]]:
    """Return the content of the two ELMoForManyLangs pickles."""
    rng = np.random.default_rng(1)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.from_numpy(random_array(rng, *shape))

    embedder, encoder = architecture["token_embedder"], architecture["encoder"]
    word_dim, char_dim = embedder["word_dim"], embedder["char_dim"]
    token_embedder: dict[str, torch.Tensor] = {}
    width = word_dim
    if word_dim:
        token_embedder["word_emb_layer.embedding.weight"] = tensor(n_words, word_dim)
    if char_dim:
        token_embedder["char_emb_layer.embedding.weight"] = tensor(n_characters, char_dim)
        for number, (size, count) in enumerate(embedder["filters"]):
            token_embedder[f"convolutions.{number}.weight"] = tensor(count, char_dim, size)
            token_embedder[f"convolutions.{number}.bias"] = tensor(count)
        total = sum(count for _, count in embedder["filters"])
        width += total
        for number in range(embedder["n_highway"]):
            token_embedder[f"highways._layers.{number}.weight"] = tensor(2 * total, total)
            token_embedder[f"highways._layers.{number}.bias"] = tensor(2 * total)
    projection, cell = encoder["projection_dim"], encoder["dim"]
    token_embedder["projection.weight"] = tensor(projection, width)
    token_embedder["projection.bias"] = tensor(projection)
    lstm: dict[str, torch.Tensor] = {}
    for direction in ("forward", "backward"):
        for depth in range(encoder["n_layers"]):
            layer = f"{direction}_layer_{depth}"
            lstm[f"{layer}.input_linearity.weight"] = tensor(4 * cell, projection)
            lstm[f"{layer}.state_linearity.weight"] = tensor(4 * cell, projection)
            lstm[f"{layer}.state_linearity.bias"] = tensor(4 * cell)
            lstm[f"{layer}.state_projection.weight"] = tensor(projection, cell)
    return {"token_embedder": token_embedder, "encoder": lstm}


def many_langs_folder(
    folder: Path,
    *,
    character_lines: Sequence[str] = CHARACTER_LINES,
    word_lines: Sequence[str] = WORD_LINES,
    architecture: Any = None,
    config_path: Any = f"/users/them/{ARCHITECTURE}",
    legacy: bool = True,
    **changes: Any,
) -> Path:
    """Write an ELMoForManyLangs folder.

    Args:
        folder: Folder to create.
        character_lines: Lines of char.dic; the character embedding has one row per line.
        word_lines: Lines of word.dic; the word embedding has one row per line.
        architecture: Content of the architecture file. Default: matches the tensors.
        config_path: Value of `config_path` in config.json.
        legacy: Whether to write pickles in PyTorch's old format.
        changes: Architecture values to replace; the tensors are created accordingly.
    """
    folder.mkdir(parents=True)
    actual = make_architecture(**changes)
    state = many_langs_state(actual, len(word_lines), len(character_lines))
    for part, tensors in state.items():
        (folder / f"{part}.pkl").write_bytes(torch_bytes(tensors, legacy=legacy))
    if actual["token_embedder"]["char_dim"]:
        (folder / "char.dic").write_bytes("".join(f"{x}\n" for x in character_lines).encode())
    if actual["token_embedder"]["word_dim"]:
        (folder / "word.dic").write_bytes("".join(f"{x}\n" for x in word_lines).encode())
    (folder / "config.json").write_text(json.dumps({"seed": 1, "config_path": config_path}))
    written = actual if architecture is None else architecture
    (folder / ARCHITECTURE).write_text(json.dumps(written))
    return folder


# ------------------------------------------------------------------ damage


def damaged(data: bytes, n_variants: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies of a file: truncated anywhere, or with a few bytes changed.

    The two ends of the file are damaged more often, because most formats store their index there.
    """
    rng = random.Random(seed)
    for number in range(n_variants):
        end = min(len(data), 2048)
        spans = (range(len(data)), range(end), range(len(data) - end, len(data)))
        span = spans[number % 3]
        if number // 3 % 3 == 0:
            cut = rng.choice(span)
            yield f"variant {number}, truncated to {cut} bytes", data[:cut]
            continue
        broken = bytearray(data)
        positions = [rng.choice(span) for _ in range(rng.choice((1, 1, 2, 8)))]
        for position in positions:
            broken[position] ^= rng.randrange(1, 256)
        yield f"variant {number}, changed at bytes {positions}", bytes(broken)
