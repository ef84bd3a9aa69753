r"""Train a base model on machines that are free for a limited time, and move its weights in parts.

    python runs/base_model.py train --data corpus --out run-1 --minutes 22
    python runs/base_model.py split --model run-1 --out parts
    python runs/base_model.py join --parts parts --out weights
    python runs/base_model.py train --data corpus --out run-2 --weights weights --seed 2 \
        --stage decay --steps 25000 --decay-steps 6000

`runs/base.sh` has all steps from a text to a model.

`train` keeps the learning rate constant until the time limit (stage `stable`), or lowers it
linearly to 0 over the last steps (stage `decay`). With `--weights` it starts from the weights of an
earlier part, with a new optimizer and a short warmup, and keeps their vocabulary. Each part needs
another seed, which gives another order of the text. Rerun the same command to continue after an
interruption.

`split` writes the best model of a run as int8, in files of at most 15 MiB with a list of checksums.
`join` checks them and writes the model folder, which is also what the next part starts from.
"""

import argparse
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from scaling_study import FILTERS

from elmo.config import (
    ConvertConfig,
    FinetuneConfig,
    InputConfig,
    LossConfig,
    LSTMConfig,
    OptimizerConfig,
    PretrainConfig,
    RegularizationConfig,
    RunConfig,
    StreamConfig,
    TuneConfig,
)
from elmo.formats.info_and_convert import convert
from elmo.train import finetune, pretrain

FIRST_WARMUP, LATER_WARMUP = 1000, 200
PART_BYTES = 15 * 2**20
CHECKSUMS = "checksums.json"


# ------------------------------------------------------------------------------------------- train


def train(args: argparse.Namespace) -> None:
    """Train one part of the run.

    Args:
        args: Command-line options.
    """
    warmup_steps = LATER_WARMUP if args.weights else FIRST_WARMUP
    is_decay = args.stage == "decay"
    if is_decay != (args.steps is not None):
        raise SystemExit("--steps is required for the decay, and only for the decay.")
    if is_decay and args.decay_steps is None:
        args.decay_steps = args.steps - warmup_steps
    stream = StreamConfig(batch_size=args.batch_size, unroll=20, reset=1.0)
    loss = LossConfig(softmax="sampled", n_samples=args.n_samples)
    optimizer = OptimizerConfig(
        optimizer=args.optimizer,
        learning_rate=args.learning_rate,
        warmup_steps=warmup_steps,
        schedule="wsd" if is_decay else "constant",
        decay_steps=args.decay_steps if is_decay else None,
        weight_decay=0.01,
        beta2=0.95,
        clip_norm=0.25,
    )
    run = RunConfig(
        # The time or the number of steps is the limit, however often they repeat the text.
        epochs=1e6,
        max_steps=args.steps,
        max_minutes=args.minutes,
        max_rollbacks=4,
        evaluate_every=args.evaluate_every,
        checkpoint_every=args.evaluate_every,
        log_every=50,
        precision=args.precision,
        seed=args.seed,
    )
    if args.weights:
        result = finetune(
            FinetuneConfig(
                model=args.weights,
                data=(args.data,),
                out=args.out,
                tune=TuneConfig(new_words=0),
                stream=stream,
                loss=loss,
                optimizer=optimizer,
                regularization=RegularizationConfig(),
                run=run,
            )
        )
    else:
        result = pretrain(
            PretrainConfig(
                data=(args.data,),
                out=args.out,
                input=InputConfig(filters=FILTERS, n_highway=1),
                lstm=LSTMConfig(cell_dim=args.cell_dim, projection_dim=args.projection_dim),
                stream=stream,
                loss=loss,
                optimizer=optimizer,
                run=run,
            )
        )
    print(result, flush=True)


# ----------------------------------------------------------------------------------- split, join


def split(args: argparse.Namespace) -> None:
    """Write a model as int8 in files of limited size.

    Args:
        args: Command-line options.
    """
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    checksums = {}
    with TemporaryDirectory() as temporary:
        convert(ConvertConfig(args.model, f"{temporary}/model", storage="int8"))
        archive = Path(temporary) / "model.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(f"{temporary}/model", "model")
        for number, content in enumerate(blocks(archive)):
            name = f"part-{number:02d}"
            (out / name).write_bytes(content)
            checksums[name] = hashlib.sha256(content).hexdigest()
    (out / CHECKSUMS).write_text(json.dumps(checksums, indent=1) + "\n", encoding="ascii")
    print(f"{out}: {len(checksums)} parts")


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in blocks of at most PART_BYTES.

    Args:
        path: The file.
    """
    with path.open("rb") as file:
        while content := file.read(PART_BYTES):
            yield content


def join(args: argparse.Namespace) -> None:
    """Write the model folder from its parts.

    Args:
        args: Command-line options.
    """
    parts, out = Path(args.parts), Path(args.out)
    checksums = json.loads((parts / CHECKSUMS).read_text(encoding="ascii"))
    if out.exists():
        raise SystemExit(f"{out} exists. Delete it, or choose another --out.")
    with TemporaryDirectory(dir=out.resolve().parent) as temporary:
        archive = Path(temporary) / "model.tar"
        with archive.open("wb") as file:
            for name, expected in checksums.items():
                content = (parts / name).read_bytes()
                if hashlib.sha256(content).hexdigest() != expected:
                    raise SystemExit(f"{parts / name} is damaged. Copy it again.")
                file.write(content)
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, filter="data")
        (Path(temporary) / "model").rename(out)


# ------------------------------------------------------------------------------------ command line


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(description="Train a base model in parts.")
    commands = top.add_subparsers(required=True)
    command = commands.add_parser("train", help="Train one part of the run.")
    command.set_defaults(function=train)
    command.add_argument("--data", required=True, help="Prepared corpus with held-out text.")
    command.add_argument("--out", required=True, help="Training folder.")
    command.add_argument("--stage", choices=["stable", "decay"], default="stable")
    command.add_argument("--weights", help="Model folder to start from.")
    command.add_argument("--minutes", type=float, help="Time limit.")
    command.add_argument("--steps", type=int, help="Number of steps of the stage decay.")
    command.add_argument(
        "--decay-steps",
        type=int,
        help="How many of these have a falling rate. Default: all after the warmup.",
    )
    command.add_argument("--optimizer", choices=["adamw", "muon"], default="muon")
    command.add_argument("--learning-rate", type=float, default=2.1e-3)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--cell-dim", type=int, default=2560)
    command.add_argument("--projection-dim", type=int, default=512)
    command.add_argument("--batch-size", type=int, default=2048)
    command.add_argument("--n-samples", type=int, default=8192)
    command.add_argument("--evaluate-every", type=int, default=2500)
    command.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    command = commands.add_parser("split", help="Write a model as int8 in parts.")
    command.set_defaults(function=split)
    command.add_argument("--model", required=True, help="Training folder or model folder.")
    command.add_argument("--out", required=True, help="Folder for the parts.")
    command = commands.add_parser("join", help="Write the model folder from its parts.")
    command.set_defaults(function=join)
    command.add_argument("--parts", required=True, help="Folder with the parts.")
    command.add_argument("--out", required=True, help="Model folder.")
    return top


def main() -> None:
    """Run the command line."""
    args = parser().parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
