#!/usr/bin/env bash
# Train one part of the English base model on one GPU, and measure it.
#
#     bash runs/base-en.sh TEXT OUT MINUTES [MODEL]
#
# TEXT contains the training texts en-*.txt and the held-out text valid.txt, which can be compressed
# (runs/text_overlap.py and runs/held_out_text.py write them). MODEL is the model folder of the part
# before this one. Training takes about MINUTES; the corpus, the compilation of the kernels and the
# evaluation take some minutes more. Nothing else should use the GPU.
#
# Writes the int8 model to OUT/model, and its parts for moving it to OUT/parts. Rerun the same command
# to resume.
#
# Environment variables:
#
#     TOKENS_PER_SECOND=900000   Speed, from which the number of steps follows. Default: one H200.
#     LM1B=                      One Billion Word held-out text, to evaluate on as well.
#     SEED=1                     Order of the text. Each part needs another one.
#     FLAGS=                     Additional flags of runs/base_model.py train.
set -euo pipefail
text=$1 out=$2 minutes=$3 model=${4:-}
here=$(dirname "$0")
read -ra flags <<< "${FLAGS:-}"
tokens_per_step=40960
steps=$((minutes * 60 * ${TOKENS_PER_SECOND:-900000} / tokens_per_step))
vocabulary=(--vocab-size 100003) rate=3e-3
if [ -n "$model" ]; then
    # The vocabulary must be that of the model. 3e-3 once diverged after 18,000 steps, 2.1e-3 did not.
    vocabulary=(--vocab "$model/vocab.txt") rate=2.1e-3
    flags+=(--weights "$model")
fi
mkdir -p "$out"

[ -d "$out/corpus" ] || elmo prepare "$text"/en-*.txt* --valid "$text"/valid.txt* --out "$out/corpus" \
    --tokenizer english --sentences split "${vocabulary[@]}" --shard-words 1000000000
python "$here/base_model.py" train --data "$out/corpus" --out "$out/run" --stage decay \
    --steps "$steps" --decay-steps $((steps / 4)) --learning-rate $rate --seed "${SEED:-1}" "${flags[@]}"
[ -f "$out/parts/checksums.json" ] || python "$here/base_model.py" split --model "$out/run" --out "$out/parts"
[ -d "$out/model" ] || python "$here/base_model.py" join --parts "$out/parts" --out "$out/model"

elmo evaluate "$out/corpus" --split valid --model "$out/run"
elmo evaluate "$out/corpus" --split valid --model "$out/model"
if [ -n "${LM1B:-}" ]; then
    elmo evaluate "$LM1B" --model "$out/model" --pretokenized --sentences line \
        --common-vocab "$here/../src/elmo/models/small-en/vocab.txt"
fi
