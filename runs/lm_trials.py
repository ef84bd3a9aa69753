r"""Train language models with several settings and record their held-out losses.

    python runs/lm_trials.py trials.yaml --out trials --jobs 4 --minutes 9 >> runs/lm_trials.jsonl

`trials.yaml` maps the name of each trial to a preset, text files, and options that replace those of
the preset:

    ptb-dropout-4:
      preset: ptb-awd
      text: [ptb/train.txt]
      valid: [ptb/valid.txt]
      options: {regularization: {dropout: 0.4}}

Trials run in processes of their own, several at a time on one GPU. Each prints one JSON line with
its options, its best held-out loss, the number of steps and the time. A trial that fails prints its
error, and the others continue. Test text is only read by trials that have `test` files, which are
the final runs with settings chosen on held-out text.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml


def run_trial(name: str, trial: dict[str, object], out: Path, deadline: float) -> str:
    """Train one model in a process of its own, and return its record as JSON.

    Args:
        name: Name of the trial and of its folder.
        trial: Preset, files and options.
        out: Folder for the runs.
        deadline: Time at which training has to end, in seconds since the epoch.
    """
    minutes = max(0.1, (deadline - time.time()) / 60)
    command = [
        sys.executable,
        __file__,
        "one",
        json.dumps(trial),
        str(out / name),
        f"{minutes:.3f}",
    ]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    (out / f"{name}.log").write_text(done.stderr, encoding="utf-8")
    record: dict[str, object] = {"name": name, **trial, "wall": round(time.monotonic() - begin, 1)}
    if done.returncode:
        record["error"] = (done.stderr.strip().splitlines() or ["no message"])[-1]
    else:
        record |= json.loads(done.stdout.splitlines()[-1])
    return json.dumps(record)


def train_one(trial: dict[str, object], out: str, minutes: float) -> dict[str, object]:
    """Train one model and return its losses."""
    from elmo.config.language_model_commands import LMTrainConfig
    from elmo.config.serialization import load_config, presets
    from elmo.lab.train_lm import train_lm

    options = trial.get("options") or {}
    assert isinstance(options, dict)
    source = Path(f"{out}.yaml")
    known = presets("language_models")
    base = yaml.safe_load(known[str(trial["preset"])].read_text(encoding="utf-8"))
    for section, values in options.items():
        base[section] = {**base.get(section, {}), **values} if isinstance(values, dict) else values
    base["run"] = {**base.get("run", {}), "max_minutes": minutes}
    base["samples"] = {"sample_every": 0}
    source.write_text(yaml.safe_dump(base), encoding="utf-8")
    files = {name: tuple(trial[name]) for name in ("text", "valid", "test") if name in trial}
    result = train_lm(load_config(LMTrainConfig, str(source), {"out": out, **files}, known, {}))
    assert result.best is not None
    record: dict[str, object] = {
        "held_out": result.best.values(),
        "steps": result.step,
        "of": result.n_steps,
        "seconds": round(result.seconds, 1),
    }
    if result.test is not None:
        record["test_loss"] = result.test.values()
    return record


def main() -> None:
    """Run all trials, or one of them in its process."""
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(train_one(json.loads(sys.argv[2]), sys.argv[3], float(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", help="YAML file with the trials.")
    parser.add_argument("--out", required=True, help="Folder for the runs.")
    parser.add_argument("--jobs", type=int, default=1, help="Number of trials at a time.")
    parser.add_argument("--minutes", type=float, required=True, help="Time limit for all trials.")
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    trials = yaml.safe_load(Path(args.trials).read_text(encoding="utf-8"))
    deadline = time.time() + 60 * args.minutes
    with ThreadPoolExecutor(args.jobs) as pool:
        futures = [
            pool.submit(run_trial, name, trial, out, deadline) for name, trial in trials.items()
        ]
        for future in futures:
            print(future.result(), flush=True)


if __name__ == "__main__":
    main()
