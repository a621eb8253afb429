"""Unknown names: the one sentence that every part of the package uses for them."""

import difflib
import json
from collections.abc import Iterable

_LISTED = 6


def quoted(name: object, *, limit: int | None = None) -> str:
    """`name` between double quotes, on one line, cut after `limit` characters."""
    text = str(name)
    if limit is not None and len(text) > limit:
        text = text[: limit - 3] + "..."
    return json.dumps(text, ensure_ascii=not text.isprintable())


def nearest(name: object, choices: Iterable[str]) -> str:
    """A hint at the one of `choices` that `name` was probably meant to be.

    name : what was given; anything that is not a str is compared by its str()
    choices : the names that would have been right
    Returns ' Did you mean "episodes_per_batch"?', or "" when nothing is near.
    """
    known = sorted(set(choices))
    text = str(name)
    if text in known:
        return ""
    folded: dict[str, str] = {}
    for choice in known:
        folded.setdefault(_fold(choice), choice)
    match = difflib.get_close_matches(_fold(text), folded, n=1)
    return f" Did you mean {quoted(folded[match[0]])}?" if match else ""


def listed(choices: Iterable[str]) -> str:
    """Up to six of `choices`, quoted, in the order given, and how many more there are."""
    known = list(dict.fromkeys(choices))
    text = ", ".join(quoted(choice) for choice in known[:_LISTED])
    more = len(known) - _LISTED
    return f"{text} and {more} more" if more > 0 else text


def unknown(kind: str, name: object, choices: Iterable[str]) -> str:
    """The sentence for a name that is not one of `choices`.

    kind : what the name should be a name of, such as "option"
    name : what was given
    choices : the names that would have been right
    Returns 'unknown option "epsiodes_per_batch". Did you mean "episodes_per_batch"?'; when no
    name is near, the sentence lists some of them instead.
    """
    known = list(choices)
    sentence = f"unknown {kind} {quoted(name, limit=80)}."
    hint = nearest(name, known)
    if hint or not known:
        return sentence + hint
    return f"{sentence} Known: {listed(known)}."


def _fold(name: str) -> str:
    return name.casefold().replace("-", "_")
