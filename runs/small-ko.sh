#!/usr/bin/env bash
# The bundled Korean model, from raw text to the finished folder (extra `ko`). Splitting the text into
# morphemes takes an hour of one core, training some minutes of one GPU.
#
#     bash runs/small-ko.sh DATA OUT
#
# DATA holds what runs/korean_text.py reads. Started again it goes on where it was stopped.
set -euo pipefail
data=$1 out=$2
here=$(dirname "$0")
mkdir -p "$out"

[ -d "$out/corpus" ] || {
    python "$here/korean_text.py" "$data" > "$out/korean.txt"
    elmo prepare "$out/korean.txt" --out "$out/corpus" --tokenizer korean --sentences split --vocab-size 30000
}
elmo pretrain --config "$here/small-ko.yaml" --data "$out/corpus" --out "$out/run"
elmo convert "$out/run" "$out/small-ko" --dtype int8

for state in reset carry; do
    elmo evaluate "$out/corpus" --split valid --model "$out/small-ko" --state $state
done
python "$here/../benchmarks/fidelity.py" "$out/run" "$out/small-ko"
python "$here/ynat.py" "$out/small-ko" --data "$data/klue-ynat"
