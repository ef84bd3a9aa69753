#!/usr/bin/env bash
# Write the examples of this folder with elmo-torch at commit 4da8bdb, whose checkout is $1.
# Run it in a copy of this folder that holds nothing but `texts` and this file.
set -euo pipefail
export PYTHONPATH=$1/src OMP_NUM_THREADS=1
elmo() { python -m elmo "$@"; }

# Run a command that trains, and send it SIGTERM after the step named first.
stop_at() {
    python - "$@" <<'PYTHON' || [ $? = 143 ]
import os, signal, sys
from elmo.cli import main
from elmo.train.loop import Loop

last = int(sys.argv.pop(1))
asked_to_stop = Loop._asked_to_stop

def stop(loop):
    if loop.standing.step == last:
        os.kill(os.getpid(), signal.SIGTERM)
    return asked_to_stop(loop)

Loop._asked_to_stop = stop
main()
PYTHON
}

# A prepared corpus, language models, an interrupted pretraining run, a finished fine-tuning run.
elmo prepare texts/train.txt --valid texts/valid.txt --out corpus --vocab-size 20 --workers 1
shape=(--max-characters 10 --character-dim 2 --n-highway 1 --cell-dim 4 --projection-dim 3)
run=(--data corpus --batch-size 4 --unroll 5 --log-every 5 --accelerator cpu)
pretrain=("${run[@]}" "${shape[@]}" --filters '[[1, 4], [2, 4]]' --reset 0.5 --max-steps 30
    --evaluate-every 10)
elmo pretrain --out whole "${pretrain[@]}"
stop_at 12 pretrain --out pretrain "${pretrain[@]}"
mv whole/model model
elmo convert model model-int8 --dtype int8
elmo pretrain --out words "${run[@]}" "${shape[@]}" --filters '[[1, 4]]' --max-steps 10 \
    --characters jamo --word-dim 2
mv words/model model-words
elmo finetune --model model --out finetune "${run[@]}" --max-steps 6 --optimizer adagrad \
    --learning-rate 0.1 --schedule constant --warmup-steps 0

# Vectors: two finished jobs and an interrupted one, which lacks two of four shards.
job=(--model model --layers all --device cpu)
elmo embed texts/predict-tagging.txt job-hdf5 "${job[@]}" --format hdf5 --storage float32
elmo embed texts/valid.txt job-safetensors "${job[@]}" --format safetensors --shard-words 80
elmo embed texts/valid.txt job-parquet "${job[@]}" --shard-words 40
rm job-parquet/manifest.json job-parquet/*/0000[13].*

# Tasks: interrupted runs, then finished ones.
options=(--model model --hidden 3 --letter-dim 2 --letter-filters '[[1, 2]]' --mark-dim 2
    --batch-size 5 --optimizer adagrad --weight-decay 0 --learning-rate 0.1 --warmup-steps 0
    --input-dropout 0 --dropout 0 --elmo-dropout 0 --epochs 8 --log-every 1 --accelerator cpu)
task() { # last step, or - to run to the end; name; flags
    local start=elmo
    [ "$1" = - ] || start="stop_at $1"
    echo "task: $2" > task.yaml
    $start task fit task.yaml --out "tasks/$2" "${options[@]}" "${@:3}"
    rm task.yaml
}
examples() { echo --train "texts/$1" --dev "texts/$1"; }
task 4 answers $(examples answers.json) --reader squad
task 5 clusters $(examples clusters.conll) --reader coreference --pair-dim 3
task 7 roles $(examples roles.conll) --reader conll2005 --optimizer adamw --learning-rate 0.02
task - classification $(examples classification.jsonl) --grams 2 --gram-rows 16
task - tagging $(examples tagging.conll) --static texts/static.txt
task - pairs $(examples pairs.jsonl) --text one,other --reader pairs --use tuned
task - senses --train texts/wsd/semcor3.0 --reader senses --layers top
task - nearest --train texts/nearest.txt --reader occurrences --layers top

# Remove files that are not read again, and make absolute paths relative.
rm -rf whole words {.,tasks}/*/{tensorboard,curves.png,layers,.lock} tasks/*/mixes.png
find . -mindepth 2 -name README.md -delete
rm -r tasks/{classification,tagging,pairs}/checkpoints
sed -i "s:$PWD/::" tasks/*/model/config.json job-*/{plan,manifest}.json
