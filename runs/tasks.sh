#!/usr/bin/env bash
# Every task with and without ELMo, and the probes, as docs/results.md tells them.
#
#     bash runs/tasks.sh DATA OUT
#     python runs/results.py OUT --docs docs --commit ... --machine "..."
#
# OUT is of one set of dials: runs that other presets left there would stand beside new ones.
# DATA holds the sets, unpacked: conll2003, ud-ewt, kmou-ner, sst, klue-ynat, nsmc, wsd; sick, klue-nli, squad-part,
# propbank-ewt, litbank, gap. Stopped and started again it goes on; what is done is not done again. From the
# environment:
#
#     SEEDS=     seeds of each run; 5 of CoNLL-2003, SST-5 and SICK but for layers and curves, else 3, where nothing is said
#     RATES=     rates of learning that are tried beside the preset's, in their order, written as 0.002; 0.0005 0.002
#                0.004 where nothing is said; where nothing is to be searched for, ''
#     DROPOUTS=  and dropouts; 0.1 0.3 0.5 where nothing is said
#     JOBS=1     runs side by side (8 on a large GPU)
#     SETS=...   some of the sets alone        PYTHON=python
#     FLAGS=     further flags of every fit, --parallel-seeds 5 where nothing is said: seeds share a device
#     TUNE_FLAGS=     and of every fine-tuning
#     RECORD=    a record of runs/results.py: what is in it is not run again
#
# On a large GPU all sets at once, each with an OUT of its own, keep it busy: runs/fork_server.py tells how.
#
# The Korean sets are split into morphemes first (extra `ko`), all but TF-IDF read those; where OUT/korean was
# brought along from another machine, nothing else needs the tokeniser.
set -euo pipefail
data=$1 out=$2 gap=$1/gap/gap-test.tsv
here=$(dirname "$0")
python=${PYTHON:-python} jobs=${JOBS:-1}
sets=${SETS:-conll2003 ud-pos kmou-ner sst5 sst2 ynat nsmc probes sick klue-nli squad propbank-ewt litbank}
read -ra flags <<< "${FLAGS---side-by-side 5}"
read -ra tune_flags <<< "${TUNE_FLAGS:-}"
mkdir -p "$out"

elmo() { "$python" -m elmo "$@"; }

# A file is written whole or not at all.
written() { # file, command
    local file=$1
    shift
    [ -f "$file" ] || { "$@" > "$file.partial" && mv "$file.partial" "$file"; }
}

recorded() { # name of a run
    [ -n "${RECORD:-}" ] && grep -q "^{\"run\": \"$1\"," "$RECORD"
}

made() { # name of a run
    [ -f "$out/$1/results.json" ] || recorded "$1"
}

# A run beside others, as many as there may be; nothing where its results are there. What it could have
# gone on from is dropped when it is done: some hundred MB a seed.
beside() { # name of the run, command
    local name=$1
    shift
    made "$name" && return
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    { "$@" > "$out/$name.log" 2>&1 && rm -rf "$out/$name"/{,seed-*/}checkpoints; } &
}

fit() { # name of the run, preset, flags
    local name=$1 preset=$2
    shift 2
    beside "$name" elmo task fit "$preset" --out "$out/$name" --seeds "$seeds" "$@" "${flags[@]}"
}

# Where the parts of a set lie, its model, and what it needs beside the preset. No part is named for choosing where
# a set has none: a fixed tenth of the training part is it then, and what is reported is read once. Words of most
# sets are split already; raw English is split as the preset says. What a model is asked besides has static vectors too.
known() {
    model=small-en dev='' words=(--tokenizer whitespace) asked=() seeds=${SEEDS:-3}
    case $1 in
        conll2003) train=$data/conll2003/train.txt dev=$data/conll2003/valid.txt test=$data/conll2003/test.txt ;;
        ud-pos) train=$data/ud-ewt/train.conllu dev=$data/ud-ewt/dev.conllu test=$data/ud-ewt/test.conllu ;;
        kmou-ner) model=small-ko train=$data/kmou-ner/train.words.txt dev=$data/kmou-ner/testa.words.txt test=$data/kmou-ner/testb.words.txt ;;
        sst5 | sst2) train=$data/sst/train.txt dev=$data/sst/dev.txt test=$data/sst/test.txt ;;
        ynat) model=small-ko train=$out/korean/klue-ynat/train.tsv test=$out/korean/klue-ynat/dev.tsv ;;
        nsmc) model=small-ko train=$out/korean/nsmc/ratings_train.txt test=$out/korean/nsmc/ratings_test.txt ;;
        sick) train=$data/sick/SICK_train.txt dev=$data/sick/SICK_trial.txt test=$data/sick/SICK_test_annotated.txt ;;
        klue-nli) model=small-ko train=$out/korean/klue-nli/klue-nli-v1.1_train.json test=$out/korean/klue-nli/klue-nli-v1.1_dev.json ;;
        squad) train=$data/squad-part/squad_v1_train_sample4330.json test=$data/squad-part/xquad.en.json ;;
        propbank-ewt) train=$data/propbank-ewt/train.jsonl dev=$data/propbank-ewt/dev.jsonl test=$data/propbank-ewt/test.jsonl ;;
        litbank) train=$data/litbank/coref-conll/train dev=$data/litbank/coref-conll/dev test=$data/litbank/coref-conll/test asked=(--gap "$gap") ;;
    esac
    case $1 in conll2003 | sst5 | sick) seeds=${SEEDS:-5} ;; esac
    case $1 in sick | squad | propbank-ewt | litbank) words=() ;; esac
    parts=(--train "$train" "${words[@]}")
    [ -z "$dev" ] || parts+=(--dev "$dev")
    files=("${parts[@]}" --test "$test")
    static=(--word-vectors "$out/$1-static.bin")
    cache=(--cache "$out/layers")
}

# One of the ways of a task: ELMo comes to a model that has static vectors, as in the paper.
way() { # task, way, end of the run's name, flags
    local task=$1 way=$2 end=$3 how
    shift 3
    case $way in
        static) how=(--model none) ;;
        layer0) how=(--layers 0 "${cache[@]}") ;;
        elmo) how=("${cache[@]}") ;;
        tuned) how=(--use tuned) ;;
    esac
    fit "$task-$way$end" "$task" "${files[@]}" "${static[@]}" "${how[@]}" "$@"
}

# Static vectors of a set that is known, of the model's own layer 0.
vectors() {
    written "$out/$1-static.bin" "$python" "$here/static_vectors.py" "$model" "$1" "$train" ${dev:+"$dev"} "$test" "${words[@]}" "${asked[@]}"
}

task() {
    known "$1"
    vectors "$1"
    for one in elmo static layer0; do way "$1" $one ''; done
}

# Dials are searched for in the same way without ELMo and with it: the rate of learning, and at the best one dropout and
# twice the epochs, each by itself. Others than the preset's are tried with one seed, on the part that models are chosen
# by alone, and the best of all has all seeds; their runs are named by them, sick-static@0.004+dropout0.3. Layer 0, ELMo
# that learns or was fine-tuned first, and choices of layers stay with the preset.
rates=${RATES-0.0005 0.002 0.004} dropouts=${DROPOUTS-0.1 0.3 0.5}
search() {
    local stage one end
    [ -n "$rates" ] || return 0
    for stage in rates higher others; do
        known "$1"
        files=("${parts[@]}")
        for one in static elmo; do
            for end in $("$stage" "$1" "$(best "$1" $one rate)"); do
                # Where all seeds are there, the first of them is one.
                made "$1-$one$end" || way "$1" $one "$end-try" $(dials "$end") --seeds 1
            done
        done
        wait
    done
    known "$1"
    for one in static elmo; do
        end=$(best "$1" $one rate dropout epochs)
        [ -z "$end" ] || way "$1" $one "$end" $(dials "$end")
    done
}

# What is tried, as the ends of the runs' names, of a task that is best so far at such a rate.
rates() { for rate in $rates; do echo "@$rate"; done; }
higher() { [ "$2" != "@${rates##* }" ] || awk -v rate="${rates##* }" 'BEGIN { print "@" 2 * rate }'; }
others() {
    local at=${2:+$2+}
    for dropout in $dropouts; do
        [ "$dropout" = "$(of_preset "$1" '  dropout:' 0.5)" ] || echo "@${at#@}dropout$dropout"
    done
    echo "@${at#@}epochs$((2 * $(of_preset "$1" epochs: 20)))"
}

of_preset() { # task, key, what it is where the preset says nothing
    awk -v key="$2" -v value="$3" 'index($0, key) { value = $NF } END { print value }' "$here/../src/elmo/presets/tasks/$1.yaml"
}

dials() { # the end of a run's name, as flags
    local dial
    for dial in ${1//[@+]/ }; do
        case $dial in
            dropout*) echo "--dropout ${dial#dropout}" ;;
            epochs*) echo "--epochs ${dial#epochs}" ;;
            *) echo "--learning-rate $dial" ;;
        esac
    done
}

best() { # task, way, dials: the end of the run's name where others of these than the preset's are the best
    [ -z "$rates" ] || "$python" "$here/best_run.py" "$out" "$1" "$2" --dials "${@:3}" ${RECORD:+--record "$RECORD"}
}

# A line that every classifier has to beat: of the raw text, on the part that is reported.
tfidf() { # task, its parts, longest n-gram
    recorded "$1-tfidf" ||
        written "$out/$1-tfidf.json" "$python" "$here/tfidf.py" "$1" --train "$2" --test "$3" --longest "$4" --as-json
}

# All three steps: an ELMo that is first fine-tuned on the text of the task. The vocabulary stays, so that perplexities
# before and after can be compared.
three_steps() {
    recorded "$1-finetuned" && return
    known "$1"
    local text=$out/$1-text
    [ -f "$text/dev.txt" ] || "$python" "$here/task_text.py" "$1" "$text" --train "$train" ${dev:+--dev "$dev"}
    [ -f "$out/$1-after.json" ] ||
        elmo finetune --model "$model" --data "$text/train.txt" --valid "$text/dev.txt" --tokenizer whitespace --new-words 0 \
            --out "$out/$1-lm" "${tune_flags[@]}" > "$out/$1-lm.log" 2>&1
    written "$out/$1-before.json" elmo evaluate "$text/dev.txt" --model "$model" --json
    written "$out/$1-after.json" elmo evaluate "$text/dev.txt" --model "$out/$1-lm/model" --json
    fit "$1-finetuned" "$1" "${files[@]}" "${static[@]}" --model "$out/$1-lm/model" "${cache[@]}"
}

layers() {
    known "$1"
    seeds=${SEEDS:-3}
    fit "$1-top" "$1" "${files[@]}" "${static[@]}" --layers top "${cache[@]}"
    fit "$1-lambda1" "$1" "${files[@]}" "${static[@]}" --mix-penalty 1 "${cache[@]}"
}

shares='0.01 0.03 0.1 0.3'
curve() {
    known "$1"
    seeds=${SEEDS:-3}
    # What is best for all examples need not be for a few.
    for one in static elmo; do
        for at in '' $(best "$1" $one rate); do
            for share in $shares; do
                way "$1" $one "$at-$share" --fraction $share $(dials "$at")
            done
        done
    done
}

# Where ELMo comes in; with `both`, as the preset has it, the task is done already.
places() {
    known "$1"
    for place in input output; do
        fit "$1-$place" "$1" "${files[@]}" "${static[@]}" --placement $place "${cache[@]}"
    done
}

# Which of two names a pronoun means, asked of the models of LitBank; nothing is learned for it.
pronouns() {
    wait
    for run in "$out"/litbank-*/results.json; do
        run=$(basename "$(dirname "$run")")
        [[ $run == *-try ]] || beside "gap-${run#litbank-}" pronouns_of "${run#litbank-}"
    done
}

pronouns_of() { # way, with its rate: as `elmo task fit` tells it, with the scores of every seed
    local model scores runs=()
    for model in "$out/litbank-$1"/model "$out/litbank-$1"/seed-*/model; do
        [ -d "$model" ] || continue
        scores=$(elmo task evaluate "$model" "$gap" --reader gap --json) || return
        runs+=("{\"test\": $scores, \"mixes\": {}}")
    done
    mkdir -p "$out/gap-$1"
    local IFS=,
    written "$out/gap-$1/results.json" echo "{\"runs\": [${runs[*]}]}"
}

# Nothing is trained but a linear map, or nothing at all.
probes() {
    known ud-pos
    vectors ud-pos
    local wsd=$data/wsd senses=$here/../src/elmo/demo/senses.tsv
    local tagged=(--train "$train" --dev "$dev" --test "$test" --label xpos)
    for layer in 0 1 2 all; do
        fit "pos-probe-$layer" pos-probe "${tagged[@]}" "${cache[@]}" --layers $layer
        fit "wsd-$layer" wsd --train "$wsd/semcor3.0" --test "$wsd/Evaluation_Datasets/ALL" --layers $layer --seeds 1
        fit "nearest-$layer" nearest --train "$senses" --dev "$senses" --layers $layer --seeds 1
    done
    for share in '' $shares; do
        fit "pos-probe-static${share:+-$share}" pos-probe "${tagged[@]}" --model none "${static[@]}" --fraction "${share:-1}"
    done
    for share in $shares; do
        for layer in 0 all; do
            fit "pos-probe-$layer-$share" pos-probe "${tagged[@]}" "${cache[@]}" --layers $layer --fraction $share
        done
    done
}

for name in $sets; do
    case $name in
        ynat) "$python" "$here/split_korean.py" "$data" "$out/korean" klue-ynat ;;
        nsmc | klue-nli) "$python" "$here/split_korean.py" "$data" "$out/korean" "$name" ;;
    esac
    if [ "$name" = probes ]; then probes; else task "$name"; fi
    case $name in conll2003 | ud-pos | kmou-ner | sst5 | sst2 | ynat | nsmc | sick | klue-nli) way "$name" tuned '' ;; esac
    case $name in conll2003 | sst5 | ynat | nsmc) three_steps "$name" ;; esac
    case $name in conll2003 | sst5) layers "$name" ;; esac
    [ "$name" = probes ] || search "$name"
    case $name in conll2003 | ud-pos | ynat) curve "$name" ;; esac
    case $name in sick) places "$name" ;; litbank) pronouns ;; esac
    case $name in
        sst5 | sst2) tfidf "$name" "$train" "$test" 3 ;;
        nsmc) tfidf nsmc "$data/nsmc/ratings_train.txt" "$data/nsmc/ratings_test.txt" 4 ;;
        ynat)
            tfidf ynat "$data/klue-ynat/train.tsv" "$data/klue-ynat/dev.tsv" 3
            fit ynat-nogamma ynat "${files[@]}" "${static[@]}" --no-gamma "${cache[@]}"
            ;;
    esac
    wait
    # The layers of frozen models are large, and are computed again where they are needed.
    rm -rf "$out/layers"
done

failed=$(for log in "$out"/*.log; do
    [ -f "$log" ] || continue
    name=${log%.log}
    [ -f "$name/results.json" ] || [ -f "$name/model/config.json" ] || echo "${name##*/}"
done)
[ -z "$failed" ] || { echo "failed, see their logs in $out:" $failed >&2; exit 1; }
