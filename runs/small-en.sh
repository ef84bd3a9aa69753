#!/usr/bin/env bash
# Build the bundled English model from raw text; takes about ten minutes on one H200.
#
#     bash runs/small-en.sh DATA OUT
#
# DATA contains en-1.txt.xz and en-2.txt.xz (one paragraph per line) and, for the evaluation,
# wikitext-103/test.txt, lm1b/heldout-00010-00011.txt and the data sets of runs/probe.py.
# Rerun the same command to resume.
set -euo pipefail
data=$1 out=$2
here=$(dirname "$0")
mkdir -p "$out"

[ -d "$out/corpus" ] || elmo prepare "$data/en-1.txt.xz" "$data/en-2.txt.xz" --out "$out/corpus" \
    --tokenizer english --sentences split --vocab-size 30000
elmo pretrain --config "$here/small-en.yaml" --data "$out/corpus" --out "$out/run"
elmo convert "$out/run" "$out/small-en" --storage int8

for state in reset carry; do
    elmo evaluate "$out/corpus" --split valid --model "$out/small-en" --state $state
    elmo evaluate "$data/wikitext-103/test.txt" --model "$out/small-en" --state $state --pretokenized
    elmo evaluate "$data/lm1b/heldout-00010-00011.txt" --model "$out/small-en" --state $state --pretokenized
done
python "$here/../benchmarks/fidelity.py" "$out/run" "$out/small-en"
python "$here/sense_table.py" "$out/small-en" --random
python "$here/probe.py" "$out/small-en" --data "$data"
