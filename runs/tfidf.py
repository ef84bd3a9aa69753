"""What a bag of character n-grams gives for nothing: the line every classifier has to beat.

    python runs/tfidf.py TASK --train FILE --test FILE

TASK is a preset of `elmo task fit` for classification. TF-IDF over character n-grams, across words
too, logistic regression (scikit-learn); nothing is tuned.
"""

import argparse
import json

from elmo.config import TaskConfig
from elmo.config.serialization import load_config, presets
from elmo.tasks.load_examples import read_examples
from elmo.tasks.scores.label_scores import label_scores


def main() -> None:
    """Print accuracy and macro F1."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--longest", type=int, default=3, help="characters of an n-gram at most")
    parser.add_argument("--as-json", action="store_true", help="print JSON")
    given = parser.parse_args()
    config = load_config(TaskConfig, given.task, {"out": "unused"}, presets("tasks")).examples
    # The text as it stands: character n-grams need no words.
    train, test = (
        read_examples(config, path, lambda text: [text]) for path in (given.train, given.test)
    )
    model = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, given.longest), sublinear_tf=True),
        LogisticRegression(C=4, max_iter=1000),
    )
    model.fit([" ".join(one.words) for one in train], [one.target for one in train])
    found = list(model.predict([" ".join(one.words) for one in test]))
    scores = label_scores([one.target for one in test], found)
    if given.as_json:
        print(json.dumps({"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}))
        return
    print(f"accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}, {scores.n:,} examples")


if __name__ == "__main__":
    main()
