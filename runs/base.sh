#!/usr/bin/env bash
# Train one part of a base model on one GPU, and measure it.
#
#     bash runs/base.sh LANGUAGE TEXT OUT MINUTES [MODEL]
#
# LANGUAGE is en or ko. TEXT contains the training texts LANGUAGE-*.txt and the held-out text valid.txt, which
# can be compressed; runs/base_text.sh writes them. MODEL is the model folder of the part before this one.
# Training takes about MINUTES; the corpus, the compilation of the kernels and the evaluation take some minutes
# more. Nothing else should use the GPU.
#
# Writes the int8 model to OUT/model, and its parts for moving it to OUT/parts. Rerun the same command
# to resume.
#
# Environment variables:
#
#     PYTHON=                    Python executable. Default: python.
#     TOKENS_PER_SECOND=900000   Speed, from which the number of steps follows. Default: one H200.
#     LM1B=                      One Billion Word held-out text, on which English models are evaluated as well.
#     SEED=1                     Order of the text. Each part needs another one.
#     FLAGS=                     Additional flags of runs/base_model.py train.
set -euo pipefail
language=$1 text=$2 out=$3 minutes=$4 model=${5:-}
here=$(dirname "$0")
python=${PYTHON:-python}
read -ra flags <<< "${FLAGS:-}"
tokens_per_step=40960
steps=$((minutes * 60 * ${TOKENS_PER_SECOND:-900000} / tokens_per_step))
if [ -z "$model" ]; then
    vocabulary=(--vocab-size 100003) rate=3e-3
    flags+=(--decay-steps $((steps / 4)))
else
    # The vocabulary must be that of the model. The rate falls from the end of the warmup on: in a small trial, a
    # constant rate undid what the fall of the rate had brought in the part before.
    vocabulary=(--vocab "$model/vocab.txt") rate=1.5e-3
    flags+=(--weights "$model")
fi
case $language in
    en) words=(--tokenizer english) ;;
    ko) words=(--tokenizer korean --pretokenized) ;;
    *) echo "LANGUAGE is '$language', expected en or ko." >&2 && exit 2 ;;
esac
mkdir -p "$out"

elmo() { "$python" -m elmo "$@"; }

[ -d "$out/corpus" ] || elmo prepare "$text/$language"-*.txt* --valid "$text"/valid.txt* --out "$out/corpus" \
    "${words[@]}" --sentences split "${vocabulary[@]}" --shard-words 1000000000
"$python" "$here/base_model.py" train --data "$out/corpus" --out "$out/run" --stage decay \
    --steps "$steps" --learning-rate $rate --seed "${SEED:-1}" "${flags[@]}"
[ -f "$out/parts/checksums.json" ] || "$python" "$here/base_model.py" split --model "$out/run" --out "$out/parts"
[ -d "$out/model" ] || "$python" "$here/base_model.py" join --parts "$out/parts" --out "$out/model"

elmo evaluate "$out/corpus" --split valid --model "$out/run"
elmo evaluate "$out/corpus" --split valid --model "$out/model"
if [ "$language" = en ] && [ -n "${LM1B:-}" ]; then
    elmo evaluate "$LM1B" --model "$out/model" --pretokenized --sentences line \
        --common-vocab "$here/../src/elmo/models/small-en/vocab.txt"
fi
