#!/usr/bin/env bash
# Train every task with and without ELMo, and run the probes, for docs/results.md.
#
#     bash runs/tasks.sh DATA OUT
#     python runs/results.py OUT --docs docs --commit ... --machine "..."
#
# DATA contains the unpacked data sets: conll2003, ud-ewt, kmou-ner, sst, klue-ynat, nsmc, wsd, sick,
# klue-nli, squad-part, propbank-ewt, litbank, gap. Rerun the same command to resume; finished runs are
# skipped. Use a new OUT after changing a preset: runs of the old preset are not repeated. Learning rate and
# dropout are those of `configure`, not of the presets.
#
# Environment variables:
#
#     SEEDS=       Seeds per run. Default: 5 for CoNLL-2003, SST-5 and SICK, except for layer selections and
#                  fractions of the examples; otherwise 3.
#     RATES=       Learning rates to try in addition to 0.001, in ascending order. Default:
#                  0.0005 0.002 0.004. RATES='' skips the hyperparameter search.
#     DROPOUTS=    Dropouts to try. Default: 0.1 0.3 0.5.
#     JOBS=1       Runs at the same time (8 on a large GPU).
#     SETS=        Data sets to run. Default: all.
#     EN=small-en  English ELMo model: name or folder. Use another OUT for other models.
#     KO=small-ko  Korean ELMo model.
#     SEARCHED=    Run the best hyperparameters of this record of the small models instead of a search.
#     PYTHON=      Python executable. Default: python.
#     FLAGS=       Additional flags of every `elmo task fit`. Default: --parallel-seeds 5 (seeds share a device).
#     TUNE_FLAGS=  Additional flags of every `elmo finetune`.
#     RECORD=      Record written by runs/results.py; its runs are skipped.
#     SIZE=        Value of --size in runs/results.py, if it has recorded runs of these models. Default: small.
#
# To use a large GPU fully, run all data sets at once, each with its own OUT: see runs/fork_server.py.
#
# The Korean data sets are first split into morphemes (extra: ko), which all models except TF-IDF read. On a
# machine without the Korean tokenizer, copy OUT/korean from another machine.
set -euo pipefail
data=$1 out=$2 gap=$1/gap/gap-test.tsv
here=$(dirname "$0")
python=${PYTHON:-python} jobs=${JOBS:-1} en=${EN:-small-en} ko=${KO:-small-ko}
sets=${SETS:-conll2003 ud-pos kmou-ner sst5 sst2 ynat nsmc probes sick klue-nli squad propbank-ewt litbank}
read -ra flags <<< "${FLAGS---parallel-seeds 5}"
read -ra tune_flags <<< "${TUNE_FLAGS:-}"
mkdir -p "$out"

elmo() { "$python" -m elmo "$@"; }

# Write the output of a command to a file atomically, unless the file exists.
write_once() { # file, command
    local file=$1
    shift
    [ -f "$file" ] || { "$@" > "$file.partial" && mv "$file.partial" "$file"; }
}

case ${SIZE:-small} in
    small) prefix='' ;;
    base) prefix=base/ ;;
    *) echo "SIZE is '$SIZE', expected small or base." >&2 && exit 2 ;;
esac
[ -z "${SEARCHED:-}" ] || [ -f "$SEARCHED" ] || { echo "SEARCHED: there is no file $SEARCHED." >&2 && exit 2; }
is_recorded() { # name of a run
    [ -n "${RECORD:-}" ] && grep -q "^{\"run\": \"$prefix$1\"," "$RECORD"
}

is_done() { # name of a run
    [ -f "$out/$1/results.json" ] || is_recorded "$1"
}

# Start a run in the background as soon as fewer than JOBS are running, unless it is done. Its checkpoints,
# some hundred MB per seed, are deleted at the end.
start() { # name of the run, command
    local name=$1
    shift
    is_done "$name" && return
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    { "$@" > "$out/$name.log" 2>&1 && rm -rf "$out/$name"/{,seed-*/}checkpoints; } &
}

fit() { # name of the run, preset, flags
    local name=$1 preset=$2
    shift 2
    start "$name" elmo task fit "$preset" --out "$out/$name" --seeds "$seeds" "${start_flags[@]}" "$@" "${flags[@]}"
}

# Fit a task that has no training, and so neither seeds nor flags of training.
look_up() { # name of the run, preset, flags
    local name=$1 preset=$2
    shift 2
    start "$name" elmo task fit "$preset" --out "$out/$name" "$@"
}

# Set the variables of a data set: model, files, seeds and flags.
#
# Data sets without a development set get no --dev: a fixed tenth of the training set is used, and the reported
# set is read only once. Most data sets are tokenized; for raw English text the tokenizer of the preset is used.
# The static vectors also cover the words of GAP, on which the LitBank models are evaluated.
#
# The presets have what the search found (`search`). What it started from is fixed here, because the names of runs
# refer to it.
configure() { # data set
    model=$en dev='' words=(--tokenizer whitespace) gap_flags=() seeds=${SEEDS:-3} dropout=0.5
    case $1 in
        conll2003) train=$data/conll2003/train.txt dev=$data/conll2003/valid.txt test=$data/conll2003/test.txt ;;
        ud-pos) train=$data/ud-ewt/train.conllu dev=$data/ud-ewt/dev.conllu test=$data/ud-ewt/test.conllu ;;
        kmou-ner) model=$ko train=$data/kmou-ner/train.words.txt dev=$data/kmou-ner/testa.words.txt test=$data/kmou-ner/testb.words.txt ;;
        sst5 | sst2) train=$data/sst/train.txt dev=$data/sst/dev.txt test=$data/sst/test.txt ;;
        ynat) model=$ko train=$out/korean/klue-ynat/train.tsv test=$out/korean/klue-ynat/dev.tsv ;;
        nsmc) model=$ko train=$out/korean/nsmc/ratings_train.txt test=$out/korean/nsmc/ratings_test.txt ;;
        sick) train=$data/sick/SICK_train.txt dev=$data/sick/SICK_trial.txt test=$data/sick/SICK_test_annotated.txt ;;
        klue-nli) model=$ko train=$out/korean/klue-nli/klue-nli-v1.1_train.json test=$out/korean/klue-nli/klue-nli-v1.1_dev.json ;;
        squad) train=$data/squad-part/squad_v1_train_sample4330.json test=$data/squad-part/xquad.en.json ;;
        propbank-ewt) train=$data/propbank-ewt/train.jsonl dev=$data/propbank-ewt/dev.jsonl test=$data/propbank-ewt/test.jsonl ;;
        litbank) train=$data/litbank/coref-conll/train dev=$data/litbank/coref-conll/dev test=$data/litbank/coref-conll/test gap_flags=(--gap "$gap") ;;
    esac
    case $1 in conll2003 | sst5 | sick) seeds=${SEEDS:-5} ;; esac
    case $1 in sick | squad | propbank-ewt | litbank) words=() ;; esac
    case $1 in sst5 | sst2 | squad | litbank) dropout=0.3 ;; propbank-ewt) dropout=0.2 ;; esac
    start_flags=(--learning-rate 0.001 --dropout "$dropout")
    train_files=(--train "$train" "${words[@]}")
    [ -z "$dev" ] || train_files+=(--dev "$dev")
    files=("${train_files[@]}" --test "$test")
    static=(--word-vectors "$out/$1-static.bin")
    frozen=(--model "$model" --cache "$out/layers")
}

# Fit a task in one setup. As in the ELMo paper, ELMo is added to a model with static word vectors.
fit_setup() { # task, setup, suffix of the run's name, flags
    local task=$1 setup=$2 suffix=$3 setup_flags
    shift 3
    case $setup in
        static) setup_flags=(--model none) ;;
        layer0) setup_flags=(--layers 0 "${frozen[@]}") ;;
        elmo) setup_flags=("${frozen[@]}") ;;
        tuned) setup_flags=(--model "$model" --use tuned) ;;
    esac
    fit "$task-$setup$suffix" "$task" "${files[@]}" "${static[@]}" "${setup_flags[@]}" "$@"
}

# Write the static vectors of a configured data set: layer 0 of its ELMo model.
write_static_vectors() { # data set
    write_once "$out/$1-static.bin" "$python" "$here/static_vectors.py" "$model" "$1" "$train" ${dev:+"$dev"} "$test" "${words[@]}" "${gap_flags[@]}"
}

fit_task() { # task
    configure "$1"
    write_static_vectors "$1"
    for setup in elmo static layer0; do fit_setup "$1" $setup ''; done
}

# Search hyperparameters, in the same way with and without ELMo: first the learning rate; then, at the best learning
# rate, dropout and twice the epochs, each changed alone. A trial has one seed and is scored only on the development
# set; the best one is then run with all seeds. The hyperparameters that differ from the start are the suffix of the
# run's name, such as sick-static@0.004+dropout0.3. Layer 0, tuned and adapted ELMo and the layer selections use the
# start.
rates=${RATES-0.0005 0.002 0.004} dropouts=${DROPOUTS-0.1 0.3 0.5}
search() { # task
    local setup suffix
    [ -n "$rates" ] || return 0
    [ -n "${SEARCHED:-}" ] || try_hyperparameters "$1"
    configure "$1"
    for setup in static elmo; do
        suffix=$(best_suffix "$1" $setup rate dropout epochs)
        [ -z "$suffix" ] || fit_setup "$1" $setup "$suffix" $(hyperparameter_flags "$suffix")
    done
}

try_hyperparameters() { # task
    local trials setup suffix
    for trials in rate_trials higher_rate_trial other_trials; do
        configure "$1"
        files=("${train_files[@]}")
        for setup in static elmo; do
            for suffix in $("$trials" "$1" "$(best_suffix "$1" $setup rate)"); do
                # A run with all seeds includes the seed of a trial.
                is_done "$1-$setup$suffix" || fit_setup "$1" $setup "$suffix-try" $(hyperparameter_flags "$suffix") --seeds 1
            done
        done
        wait
    done
}

# The next functions print the suffixes of the trials. Arguments: task, suffix of the best learning rate so far.
rate_trials() { for rate in $rates; do echo "@$rate"; done; }
higher_rate_trial() { [ "$2" != "@${rates##* }" ] || awk -v rate="${rates##* }" 'BEGIN { print "@" 2 * rate }'; }
other_trials() {
    local at=${2:+$2+} value
    for value in $dropouts; do
        [ "$value" = "$dropout" ] || echo "@${at#@}dropout$value"
    done
    echo "@${at#@}epochs$((2 * $(preset_epochs "$1")))"
}

preset_epochs() { # task
    awk -v epochs=20 '/ epochs:/ { epochs = $NF } END { print epochs }' "$here/../src/elmo/presets/tasks/$1.yaml"
}

hyperparameter_flags() { # suffix of a run's name
    local value
    for value in ${1//[@+]/ }; do
        case $value in
            dropout*) echo "--dropout ${value#dropout}" ;;
            epochs*) echo "--epochs ${value#epochs}" ;;
            *) echo "--learning-rate $value" ;;
        esac
    done
}

# Print the suffix of the best run that changes only the given hyperparameters; nothing if the start is best.
best_suffix() { # task, setup, hyperparameters
    [ -n "$rates" ] || return 0
    local sources=(--out "$out" ${RECORD:+--record "$RECORD" --size "${SIZE:-small}"})
    [ -z "${SEARCHED:-}" ] || sources=(--record "$SEARCHED")
    "$python" "$here/best_run.py" "$1" "$2" --hyperparameters "${@:3}" "${sources[@]}"
}

# TF-IDF baseline of a classification task, on the raw text. It does not depend on the size of ELMo.
tfidf() { # task, training set, test set, maximum n-gram length
    [ -n "$prefix" ] || is_recorded "$1-tfidf" ||
        write_once "$out/$1-tfidf.json" "$python" "$here/tfidf.py" "$1" --train "$2" --test "$3" --max-ngram "$4" --json
}

# Fine-tune ELMo on the text of a task, then fit the task. The vocabulary does not change, so that the perplexities
# before and after can be compared.
fit_adapted() { # task
    is_recorded "$1-finetuned" && return
    configure "$1"
    local text=$out/$1-text
    [ -f "$text/dev.txt" ] || "$python" "$here/task_text.py" "$1" "$text" --train "$train" ${dev:+--dev "$dev"}
    [ -f "$out/$1-after.json" ] ||
        elmo finetune --model "$model" --data "$text/train.txt" --valid "$text/dev.txt" --pretokenized --new-words 0 \
            --out "$out/$1-lm" "${tune_flags[@]}" > "$out/$1-lm.log" 2>&1
    write_once "$out/$1-before.json" elmo evaluate "$text/dev.txt" --model "$model" --pretokenized --json
    write_once "$out/$1-after.json" elmo evaluate "$text/dev.txt" --model "$out/$1-lm/model" --pretokenized --json
    fit "$1-finetuned" "$1" "${files[@]}" "${static[@]}" --model "$out/$1-lm/model" --cache "$out/layers"
}

fit_layer_selections() { # task
    configure "$1"
    seeds=${SEEDS:-3}
    fit "$1-top" "$1" "${files[@]}" "${static[@]}" --layers top "${frozen[@]}"
    fit "$1-lambda1" "$1" "${files[@]}" "${static[@]}" --mix-penalty 1 "${frozen[@]}"
}

fractions='0.01 0.03 0.1 0.15 0.3'
fit_fractions() { # task
    configure "$1"
    seeds=${SEEDS:-3}
    # The best learning rate for all examples is not always the best for a few: the one at the start is run, too.
    for setup in static elmo; do
        for rate in '' $(best_suffix "$1" $setup rate); do
            for fraction in $fractions; do
                fit_setup "$1" $setup "$rate-$fraction" --fraction $fraction --keep-steps $(hyperparameter_flags "$rate")
            done
        done
    done
}

# ELMo only at the input or only at the output; the preset's placement, both, is the task itself.
fit_placements() { # task
    configure "$1"
    for placement in input output; do
        fit "$1-$placement" "$1" "${files[@]}" "${static[@]}" --placement $placement "${frozen[@]}"
    done
}

# Evaluate all LitBank models on the pronouns of GAP, without training.
evaluate_pronouns() {
    wait
    for run in "$out"/litbank-*/results.json; do
        run=$(basename "$(dirname "$run")")
        [[ $run == *-try ]] || start "gap-${run#litbank-}" write_gap_scores "${run#litbank-}"
    done
}

# Write the scores of every seed to a file with the structure of the results of `elmo task fit`.
write_gap_scores() { # setup and suffix of a LitBank run
    local model scores runs=()
    for model in "$out/litbank-$1"/model "$out/litbank-$1"/seed-*/model; do
        [ -d "$model" ] || continue
        scores=$(elmo task evaluate "$model" "$gap" --reader gap --json) || return
        runs+=("{\"test\": $scores, \"mixes\": {}}")
    done
    mkdir -p "$out/gap-$1"
    local IFS=,
    write_once "$out/gap-$1/results.json" echo "{\"runs\": [${runs[*]}]}"
}

# Probes of single layers: a linear classifier (pos-probe) or no training at all (wsd, nearest).
fit_probes() {
    configure ud-pos
    start_flags=()
    write_static_vectors ud-pos
    local wsd=$data/wsd senses=$here/../src/elmo/demo/senses.tsv
    local tagged=(--train "$train" --dev "$dev" --test "$test" --label-column xpos)
    for layer in 0 1 2 all; do
        fit "pos-probe-$layer" pos-probe "${tagged[@]}" "${frozen[@]}" --layers $layer
        look_up "wsd-$layer" wsd --train "$wsd/semcor3.0" --test "$wsd/Evaluation_Datasets/ALL" --model "$model" --layers $layer
        look_up "nearest-$layer" nearest --train "$senses" --dev "$senses" --model "$model" --layers $layer
    done
    for fraction in '' $fractions; do
        fit "pos-probe-static${fraction:+-$fraction}" pos-probe "${tagged[@]}" --model none "${static[@]}" \
            ${fraction:+--fraction $fraction --keep-steps}
    done
    for fraction in $fractions; do
        for layer in 0 all; do
            fit "pos-probe-$layer-$fraction" pos-probe "${tagged[@]}" "${frozen[@]}" --layers $layer --fraction $fraction --keep-steps
        done
    done
}

for name in $sets; do
    case $name in
        ynat) "$python" "$here/split_korean.py" "$data" "$out/korean" klue-ynat ;;
        nsmc | klue-nli) "$python" "$here/split_korean.py" "$data" "$out/korean" "$name" ;;
    esac
    if [ "$name" = probes ]; then fit_probes; else fit_task "$name"; fi
    case $name in conll2003 | ud-pos | kmou-ner | sst5 | sst2 | ynat | nsmc | sick | klue-nli) fit_setup "$name" tuned '' ;; esac
    case $name in conll2003 | sst5 | ynat | nsmc) fit_adapted "$name" ;; esac
    case $name in conll2003 | sst5) fit_layer_selections "$name" ;; esac
    [ "$name" = probes ] || search "$name"
    case $name in conll2003 | ud-pos | ynat) fit_fractions "$name" ;; esac
    case $name in sick) fit_placements "$name" ;; litbank) evaluate_pronouns ;; esac
    case $name in
        sst5 | sst2) tfidf "$name" "$train" "$test" 3 ;;
        nsmc) tfidf nsmc "$data/nsmc/ratings_train.txt" "$data/nsmc/ratings_test.txt" 4 ;;
        ynat)
            tfidf ynat "$data/klue-ynat/train.tsv" "$data/klue-ynat/dev.tsv" 3
            fit ynat-nogamma ynat "${files[@]}" "${static[@]}" --no-gamma "${frozen[@]}"
            ;;
    esac
    wait
    # The cached ELMo layers are large; other data sets need others.
    rm -rf "$out/layers"
done

failed=$(for log in "$out"/*.log; do
    [ -f "$log" ] || continue
    name=${log%.log}
    [ -f "$name/results.json" ] || [ -f "$name/model/config.json" ] || echo "${name##*/}"
done)
[ -z "$failed" ] || { echo "Failed runs, see their logs in $out:" $failed >&2; exit 1; }
