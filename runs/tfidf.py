"""Score a TF-IDF baseline for a classification task.

    python runs/tfidf.py TASK --train FILE --test FILE

TASK is a classification preset of `elmo task fit`. The model is a logistic regression over TF-IDF
weighted character n-grams, also across word boundaries (scikit-learn); nothing is tuned.
"""

import argparse
import json

from elmo.config.serialization import load_config, presets
from elmo.tasks.core.label_scores import label_scores
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.registry.task_config import TaskConfig


def main() -> None:
    """Print accuracy and macro F1."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    parser = argparse.ArgumentParser()
    parser.add_argument("task", help="Classification preset of `elmo task fit`.")
    parser.add_argument("--train", required=True, help="Training set.")
    parser.add_argument("--test", required=True, help="Test set.")
    parser.add_argument(
        "--max-ngram", type=int, default=3, help="Maximum length of an n-gram in characters."
    )
    parser.add_argument("--json", action="store_true", help="Print the result as JSON.")
    args = parser.parse_args()
    config = load_config(TaskConfig, args.task, {"out": "unused"}, presets("tasks")).examples
    # Character n-grams need no tokenizer: each text is one word.
    train, test = (
        read_examples(config, path, lambda text: [text]) for path in (args.train, args.test)
    )
    model = make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, args.max_ngram), sublinear_tf=True),
        LogisticRegression(C=4, max_iter=1000),
    )
    model.fit([" ".join(example.words) for example in train], [example.target for example in train])
    predictions = list(model.predict([" ".join(example.words) for example in test]))
    scores = label_scores([example.target for example in test], predictions)
    if args.json:
        print(json.dumps({"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}))
        return
    print(f"accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}, {scores.n:,} examples")


if __name__ == "__main__":
    main()
