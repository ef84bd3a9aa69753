#!/usr/bin/env bash
# Write the training and held-out text of a base model, as runs/base.sh reads it.
#
#     bash runs/base_text.sh LANGUAGE TEXT DATA OUT
#
# LANGUAGE is en or ko. TEXT contains the raw texts LANGUAGE-*.txt, which can be compressed. DATA contains, unpacked,
# the data sets of runs/tasks.sh and for English those of the perplexities (lm1b, wikitext-103), for Korean the
# petitions that runs/korean_text.py reads. Lines in which test texts occur are left out, one block of lines in 600
# is held out, and Korean is split into morphemes. OUT/packed has the texts compressed in files of at most 64 MB of
# text, for moving them.
#
# Rerun the same command to resume; finished steps are skipped. Takes about 20 minutes for 2.6 GB of English on two
# cores, and an hour for 0.8 GB of Korean.
set -euo pipefail
language=$1 text=$2 data=$3 out=$4
here=$(dirname "$0")
case $language in
    en)
        window=30
        tests=(conll2003="$data/conll2003/test.txt" ud-pos="$data/ud-ewt/test.conllu" sst5="$data/sst/test.txt"
            sick="$data/sick/SICK_test_annotated.txt" squad="$data/squad-part/xquad.en.json"
            propbank-ewt="$data/propbank-ewt/test.jsonl" wsd="$data/wsd/Evaluation_Datasets/ALL"
            litbank:gap="$data/gap/gap-test.tsv")
        for part in train dev test; do tests+=(litbank="$data/litbank/coref-conll/$part"); done
        tests+=(--test-lines "$data/lm1b/heldout-00010-00011.txt" "$data/wikitext-103/test.txt")
        # An article of WikiText's test set.
        held_out_flags=(--without "The New Yorker")
        ;;
    ko)
        window=20
        tests=(ynat="$data/klue-ynat/dev.tsv" nsmc="$data/nsmc/ratings_test.txt"
            klue-nli="$data/klue-nli/klue-nli-v1.1_dev.json" kmou-ner="$data/kmou-ner/testb.words.txt")
        held_out_flags=()
        ;;
    *) echo "LANGUAGE is '$language', expected en or ko." >&2 && exit 2 ;;
esac
mkdir -p "$out"

# Write the folder OUT/NAME with a command whose last argument is the folder, unless it exists.
step() { # name, command without its last argument
    [ -d "$out/$1" ] && return
    rm -rf "$out/$1.partial"
    "${@:2}" "$out/$1.partial"
    mv "$out/$1.partial" "$out/$1"
}

pack() { # texts, folder
    local folder=${*: -1} path
    mkdir "$folder"
    for path in "${@:1:$#-1}"; do
        split --line-bytes=64000000 --numeric-suffixes --suffix-length=2 --additional-suffix=.txt \
            "$path" "$folder/$(basename "$path" .txt)-"
    done
    mv "$folder/valid-00.txt" "$folder/valid.txt"
    find "$folder" -name '*.txt' -print0 | xargs -0 -n 1 -P "$(nproc)" xz -3
}

shopt -s nullglob
texts=("$text/$language"-*.txt "$text/$language"-*.txt.{gz,bz2,xz,zst})
[ ${#texts[@]} -gt 0 ] || { echo "$text has no texts $language-*.txt." >&2 && exit 1; }
if [ "$language" = ko ]; then
    if [ ! -f "$out/ko-tasks.txt" ]; then
        python "$here/korean_text.py" "$data" petitions tasks > "$out/ko-tasks.partial"
        mv "$out/ko-tasks.partial" "$out/ko-tasks.txt"
    fi
    texts+=("$out/ko-tasks.txt")
fi
step without-tests python "$here/text_overlap.py" "${texts[@]}" --test "${tests[@]}" --window $window --out
step divided python "$here/held_out_text.py" "$out"/without-tests/*.txt "${held_out_flags[@]}" --out
result=divided
if [ "$language" = ko ]; then
    result=morphemes
    python "$here/split_korean_text.py" "$out"/divided/*.txt --out "$out/morphemes"
fi
step packed pack "$out/$result"/*.txt
