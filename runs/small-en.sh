#!/usr/bin/env bash
# The bundled English model, from raw text to the finished folder: some ten minutes of one H200.
#
#     bash runs/small-en.sh DATA OUT
#
# DATA holds en-1.txt.xz and en-2.txt.xz (text, a paragraph a line), and for the measurements
# wikitext-103/test.txt, lm1b/heldout-00010-00011.txt and the sets that runs/probe.py names.
# Started again it goes on where it was stopped.
set -euo pipefail
data=$1 out=$2
here=$(dirname "$0")
mkdir -p "$out"

[ -d "$out/corpus" ] || elmo prepare "$data/en-1.txt.xz" "$data/en-2.txt.xz" --out "$out/corpus" \
    --tokenizer english --sentences split --vocab-size 30000
elmo pretrain --config "$here/small-en.yaml" --data "$out/corpus" --out "$out/run"
elmo convert "$out/run" "$out/small-en" --dtype int8

for state in reset carry; do
    elmo evaluate "$out/corpus" --split valid --model "$out/small-en" --state $state
    elmo evaluate "$data/wikitext-103/test.txt" --model "$out/small-en" --state $state
    elmo evaluate "$data/lm1b/heldout-00010-00011.txt" --model "$out/small-en" --state $state
done
python "$here/../benchmarks/fidelity.py" "$out/run" "$out/small-en"
python "$here/senses.py" "$out/small-en" --random
python "$here/probe.py" "$out/small-en" --data "$data"
