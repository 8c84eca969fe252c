"""Secrets that must not be printed: options and arguments in, texts without their values out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lakewright.spec.schema.option_keys import SECRET_KEYS, without_secrets

_SHORTEST = 3  # shorter values stand in too many words by chance
_STARS = "***"
_PAIR = re.compile(r"(?:--?[\w-]+=)?([^=\s]+)=(.+)", re.DOTALL)


class Secrets:
    """The secrets that a run of the program came across."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def note_options(self, options: Mapping[str, str]) -> None:
        """Remember the values of options whose keys say that they are secret."""
        for key, value in options.items():
            if re.search(SECRET_KEYS, key) and len(value) >= _SHORTEST:
                self._values.add(value)

    def note_words(self, words: Sequence[str]) -> None:
        """Remember the values of words such as `token=...` of a command line."""
        found = (_PAIR.fullmatch(word) for word in words)
        self.note_options({match[1]: match[2] for match in found if match is not None})

    def hidden(self, text: str) -> str:
        """Return a text with stars in place of secrets, and of users and passwords of URIs."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, _STARS)
        return without_secrets("", text)


SECRETS = Secrets()  # of this process, which runs one command


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options as they may be shown, in the order of their keys.

    >>> shown_options({"token": "abc", "bucket": "1"})
    {'bucket': '1', 'token': '***'}
    """
    return {key: without_secrets(key, value) for key, value in sorted(options.items())}
