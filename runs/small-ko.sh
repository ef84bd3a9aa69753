#!/usr/bin/env bash
# Build the bundled Korean model from raw text (extra: ko). Splitting the text into morphemes takes
# ten minutes on two cores, training some minutes on one GPU.
#
#     bash runs/small-ko.sh DATA OUT
#
# DATA contains the files that runs/korean_text.py reads. Rerun the same command to resume.
set -euo pipefail
data=$1 out=$2
here=$(dirname "$0")
mkdir -p "$out"

[ -d "$out/corpus" ] || {
    python "$here/korean_text.py" "$data" > "$out/korean.txt"
    elmo prepare "$out/korean.txt" --out "$out/corpus" --tokenizer korean --sentences split --vocab-size 30000
}
elmo pretrain --config "$here/small-ko.yaml" --data "$out/corpus" --out "$out/run"
elmo convert "$out/run" "$out/small-ko" --storage int8

for state in reset carry; do
    elmo evaluate "$out/corpus" --split valid --model "$out/small-ko" --state $state
done
# benchmarks/fidelity.py splits its text at spaces: write a sample with spaces between morphemes.
python - "$out/korean.txt" > "$out/sample.txt" <<'END'
import sys
from itertools import islice

from elmo.text.tokenizers_by_name import get_tokenizer

tokenizer = get_tokenizer("korean")
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in islice(lines, 0, 600_000, 2000):
        print(*tokenizer.words(line)[:60])
END
python "$here/../benchmarks/fidelity.py" "$out/run" "$out/small-ko" --text "$out/sample.txt"
python "$here/ynat.py" "$out/small-ko" --random --data "$data/klue-ynat"
