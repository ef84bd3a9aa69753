"""The error of estimators that are used before `fit`.

If scikit-learn is installed, the error is also its `NotFittedError`, so that code for scikit-learn
can catch it. scikit-learn is only imported when the error is raised.
"""

from functools import cache

from elmo.errors import ConfigError


class NotFitted(ConfigError):
    """An estimator was used before `fit` or `load`."""

    def __reduce__(self) -> tuple[object, ...]:
        """Return the message, so that the error can be sent between processes."""
        return not_fitted_error, self.args


def not_fitted_error(message: str) -> NotFitted:
    """Return the error, which is also a `NotFittedError` if scikit-learn is installed."""
    return _error_class()(message)


@cache
def _error_class() -> type[NotFitted]:
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return NotFitted
    return type("NotFitted", (NotFitted, NotFittedError), {"__module__": __name__})
