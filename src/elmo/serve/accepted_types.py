"""Choice of the form of an answer by the header Accept."""

# Further types are ignored: 64 KiB of them took 40 ms.
MAX_CHARACTERS = 1000


def is_preferred(accept: str, media_type: str, default: str) -> bool:
    """Return whether a client names a media type and does not prefer the default one.

    Of two types with the same weight, the first one is preferred, and any type to a wildcard.

    Args:
        accept: Value of the header Accept, such as `text/html, application/json;q=0.9`.
        media_type: The type, in lowercase.
        default: Type of the answer otherwise, in lowercase.
    """
    weights: dict[str, float] = {}
    for item in accept[:MAX_CHARACTERS].lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weights.setdefault(name, _weight(parameters))
    if media_type not in weights:
        return False
    own = weights[media_type]
    ranges = (default, default.partition("/")[0] + "/*", "*/*")
    other = next((weights[name] for name in ranges if name in weights), 0.0)
    names = list(weights)
    is_first = default not in names or names.index(media_type) < names.index(default)
    return own > other or (own == other > 0 and is_first)


def _weight(parameters: list[str]) -> float:
    """Return the parameter q; 1 if it is missing, and 0 if it is wrong."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
