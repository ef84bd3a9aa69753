#!/usr/bin/env bash
# Every task with and without ELMo, and the probes, as docs/results.md tells them.
#
#     bash runs/tasks.sh DATA OUT
#     python runs/results.py OUT --docs docs --commit ... --machine "..."
#
# DATA holds the sets, unpacked: conll2003, ud-ewt, kmou-ner, sst, klue-ynat, nsmc, wsd. Stopped and started
# again it goes on; what is done is not done again. From the environment:
#
#     SEEDS=5    seeds of each run             JOBS=1     runs side by side (8 on a large GPU)
#     SETS=...   some of the sets alone        PYTHON=python
#     FLAGS=     further flags of every fit    TUNE_FLAGS=     and of every fine-tuning
#
# The Korean sets are split into morphemes first (extra `ko`), all but TF-IDF read those; where OUT/korean was
# brought along from another machine, nothing else needs the tokeniser.
set -euo pipefail
data=$1 out=$2
here=$(dirname "$0")
python=${PYTHON:-python} jobs=${JOBS:-1} seeds=${SEEDS:-5}
sets=${SETS:-conll2003 ud-pos kmou-ner sst5 sst2 ynat nsmc probes}
read -ra flags <<< "${FLAGS:-}"
read -ra tune_flags <<< "${TUNE_FLAGS:-}"
mkdir -p "$out"

elmo() { "$python" -m elmo "$@"; }

# A file is written whole or not at all.
written() { # file, command
    local file=$1
    shift
    [ -f "$file" ] || { "$@" > "$file.partial" && mv "$file.partial" "$file"; }
}

fit() { # name of the run, preset, flags
    local name=$1 preset=$2
    shift 2
    [ -f "$out/$name/results.json" ] && return
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    elmo task fit "$preset" --out "$out/$name" --seeds "$seeds" "$@" "${flags[@]}" > "$out/$name.log" 2>&1 &
}

# Where the parts of a set lie, its model, and what it needs beside the preset. No part is named for choosing where
# a set has none: a fixed tenth of the training part is it then, and what is reported is read once.
known() {
    model=small-en dev='' more=()
    case $1 in
        conll2003) train=$data/conll2003/train.txt dev=$data/conll2003/valid.txt test=$data/conll2003/test.txt ;;
        ud-pos) train=$data/ud-ewt/train.conllu dev=$data/ud-ewt/dev.conllu test=$data/ud-ewt/test.conllu ;;
        kmou-ner) model=small-ko train=$data/kmou-ner/train.words.txt dev=$data/kmou-ner/testa.words.txt test=$data/kmou-ner/testb.words.txt ;;
        sst5 | sst2) train=$data/sst/train.txt dev=$data/sst/dev.txt test=$data/sst/test.txt ;;
        ynat) model=small-ko train=$out/korean/klue-ynat/train.tsv test=$out/korean/klue-ynat/dev.tsv ;;
        nsmc) model=small-ko train=$out/korean/nsmc/ratings_train.txt test=$out/korean/nsmc/ratings_test.txt more=(--batch-size 128 --epochs 8 --patience 2) ;;
    esac
    files=(--train "$train" --test "$test" --tokenizer whitespace "${more[@]}")
    [ -z "$dev" ] || files+=(--dev "$dev")
    static=(--model none --static "$out/$1-static.txt")
    cache=(--cache "$out/layers")
}

# A task four ways.
task() {
    known "$1"
    written "$out/$1-static.txt" "$python" "$here/layer0.py" "$model" "$1" "$train" ${dev:+"$dev"} "$test" --tokenizer whitespace
    fit "$1-elmo" "$1" "${files[@]}" "${cache[@]}"
    fit "$1-none" "$1" "${files[@]}" --model none
    fit "$1-static" "$1" "${files[@]}" "${static[@]}"
    fit "$1-layer0" "$1" "${files[@]}" --layers 0 "${cache[@]}"
}

# A line that every classifier has to beat: of the raw text, on the part that is reported.
tfidf() { # task, its parts, longest n-gram
    written "$out/$1-tfidf.json" "$python" "$here/tfidf.py" "$1" --train "$2" --test "$3" --longest "$4" --as-json
}

# All three steps: an ELMo that is first fine-tuned on the text of the task. The vocabulary stays, so that perplexities
# before and after can be compared.
tuned() {
    known "$1"
    local text=$out/$1-text
    [ -f "$text/dev.txt" ] || "$python" "$here/task_text.py" "$1" "$text" --train "$train" ${dev:+--dev "$dev"}
    [ -f "$out/$1-after.json" ] ||
        elmo finetune --model "$model" --data "$text/train.txt" --valid "$text/dev.txt" --tokenizer whitespace --new-words 0 \
            --out "$out/$1-lm" "${tune_flags[@]}" > "$out/$1-lm.log" 2>&1
    written "$out/$1-before.json" elmo evaluate "$text/dev.txt" --model "$model" --json
    written "$out/$1-after.json" elmo evaluate "$text/dev.txt" --model "$out/$1-lm/model" --json
    fit "$1-finetuned" "$1" "${files[@]}" --model "$out/$1-lm/model" "${cache[@]}"
}

layers() {
    known "$1"
    fit "$1-top" "$1" "${files[@]}" --layers top "${cache[@]}"
    fit "$1-lambda1" "$1" "${files[@]}" --mix-penalty 1 "${cache[@]}"
}

curve() {
    known "$1"
    for share in 0.01 0.03 0.1 0.3; do
        fit "$1-static-$share" "$1" "${files[@]}" "${static[@]}" --fraction $share
        fit "$1-elmo-$share" "$1" "${files[@]}" --fraction $share "${cache[@]}"
    done
}

# Nothing is trained but a linear map, or nothing at all.
probes() {
    known ud-pos
    local wsd=$data/wsd senses=$here/../src/elmo/demo/senses.tsv
    for layer in 0 1 2 all; do
        fit "pos-probe-$layer" pos-probe --train "$train" --dev "$dev" --test "$test" --label xpos --layers $layer "${cache[@]}"
        fit "wsd-$layer" wsd --train "$wsd/semcor3.0" --test "$wsd/Evaluation_Datasets/ALL" --layers $layer --seeds 1
        fit "nearest-$layer" nearest --train "$senses" --dev "$senses" --layers $layer --seeds 1
    done
}

for name in $sets; do
    case $name in
        ynat | nsmc) [ -d "$out/korean" ] || "$python" "$here/split_korean.py" "$data" "$out/korean" ;;
    esac
    if [ "$name" = probes ]; then probes; else task "$name"; fi
    case $name in conll2003 | sst5 | ynat | nsmc) tuned "$name" ;; esac
    case $name in conll2003 | sst5) layers "$name" ;; esac
    case $name in conll2003 | ynat) curve "$name" ;; esac
    case $name in
        sst5 | sst2) tfidf "$name" "$train" "$test" 3 ;;
        nsmc) tfidf nsmc "$data/nsmc/ratings_train.txt" "$data/nsmc/ratings_test.txt" 4 ;;
        ynat)
            tfidf ynat "$data/klue-ynat/train.tsv" "$data/klue-ynat/dev.tsv" 3
            fit ynat-nogamma ynat "${files[@]}" --no-gamma "${cache[@]}"
            ;;
    esac
    wait
    # The layers of frozen models are large, and are computed again where they are needed.
    rm -rf "$out/layers"
done

failed=$(for log in "$out"/*.log; do
    name=${log%.log}
    [ -f "$name/results.json" ] || [ -f "$name/model/config.json" ] || echo "${name##*/}"
done)
[ -z "$failed" ] || { echo "failed, see their logs in $out:" $failed >&2; exit 1; }
