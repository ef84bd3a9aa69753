#!/usr/bin/env bash
# Every task with and without ELMo, as docs/results.md tells it.
#
#     bash runs/tasks.sh DATA OUT
#
# DATA holds the sets, unpacked: conll2003, ud-ewt, kmou-ner, sst, klue-ynat, nsmc. What is done already
# is not done again. JOBS runs go on side by side (8 on a large GPU, 1 on a CPU), SEEDS seeds of each.
set -euo pipefail
data=$1 out=$2
here=$(dirname "$0")
jobs=${JOBS:-1} seeds=${SEEDS:-5}
mkdir -p "$out"

fit() { # name of the run, preset, flags
    local name=$1 preset=$2
    shift 2
    [ -f "$out/$name/results.json" ] && return
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    elmo task fit "$preset" --out "$out/$name" --seeds "$seeds" "$@" > "$out/$name.log" 2>&1 &
}

# A task four ways: its preset, the model, and its files.
task() {
    local name=$1 model=$2
    shift 2
    [ -f "$out/$name-static.txt" ] ||
        python "$here/layer0.py" "$model" "$name" "$1" "$2" > "$out/$name-static.txt"
    local files=(--train "$1" --dev "$2")
    [ $# -lt 3 ] || files+=(--test "$3")
    local split=()
    case $name in ynat | nsmc) split=(--tokenizer korean) ;; esac
    local cache=(--cache "$out/layers")
    fit "$name-none" "$name" "${files[@]}" "${split[@]}" --model none
    fit "$name-static" "$name" "${files[@]}" "${split[@]}" --model none --static "$out/$name-static.txt"
    fit "$name-layer0" "$name" "${files[@]}" --layers 0 "${cache[@]}"
    fit "$name-elmo" "$name" "${files[@]}" "${cache[@]}"
}

task conll2003 small-en "$data"/conll2003/{train,valid,test}.txt
task ud-pos small-en "$data"/ud-ewt/{train,dev,test}.conllu
task kmou-ner small-ko "$data"/kmou-ner/{train,testa,testb}.words.txt
task sst5 small-en "$data"/sst/{train,dev,test}.txt
task sst2 small-en "$data"/sst/{train,dev,test}.txt
task ynat small-ko "$data"/klue-ynat/{train,dev}.tsv

for name in conll2003 sst5; do
    case $name in
        conll2003) files=(--train "$data/conll2003/train.txt" --dev "$data/conll2003/valid.txt" --test "$data/conll2003/test.txt") ;;
        sst5) files=(--train "$data/sst/train.txt" --dev "$data/sst/dev.txt" --test "$data/sst/test.txt") ;;
    esac
    fit "$name-top" "$name" "${files[@]}" --layers top --cache "$out/layers"
    fit "$name-lambda1" "$name" "${files[@]}" --mix-penalty 1 --cache "$out/layers"
done
ynat=(--train "$data/klue-ynat/train.tsv" --dev "$data/klue-ynat/dev.tsv")
fit ynat-nogamma ynat "${ynat[@]}" --no-gamma --cache "$out/layers"
ner=(--train "$data/conll2003/train.txt" --dev "$data/conll2003/valid.txt" --test "$data/conll2003/test.txt")
for share in 0.01 0.03 0.1 0.3; do
    fit "conll2003-none-$share" conll2003 "${ner[@]}" --model none --fraction $share
    fit "conll2003-elmo-$share" conll2003 "${ner[@]}" --fraction $share --cache "$out/layers"
    fit "ynat-none-$share" ynat "${ynat[@]}" --model none --tokenizer korean --fraction $share
    fit "ynat-elmo-$share" ynat "${ynat[@]}" --fraction $share --cache "$out/layers"
done
wait
