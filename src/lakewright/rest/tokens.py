"""Data tokens: a table of a server in; its storage out, with keys that the server issues and that renew themselves.

A token is asked for when the storage is used, once per life, table, caller and process; processes of engines ask by
themselves, without the configuration of the server. What a token holds is laid over the effective options. Files on a
disk need no token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewright.errors import InvalidInputError
from lakewright.rest.api import RestApi
from lakewright.spec.identifier import Identifier
from lakewright.storage.base import Storage
from lakewright.storage.credentials import EXPIRES_AT_MILLIS, Credentials
from lakewright.storage.open import open_storage

_ENABLED = "data-token.enabled"
_OSS_ENDPOINT, _OSS_ENDPOINT_FOR_US = "fs.oss.endpoint", "dlf.oss-endpoint"
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class DataTokens:
    """Asks the server for the keys of one table. Equal values share the keys of a process."""

    api: RestApi
    table: Identifier  # with its branch, without the name of a system table

    def __call__(self) -> Mapping[str, object]:
        """Return the keys as options, and when they expire."""
        token = self.api.table_token(self.table)
        issued: dict[str, object] = {**token.options, EXPIRES_AT_MILLIS: token.expires_at_millis}
        endpoint = token.options.get(_OSS_ENDPOINT_FOR_US) or self.api.options.get(_OSS_ENDPOINT_FOR_US)
        return {**issued, _OSS_ENDPOINT: endpoint} if endpoint else issued


def table_storage(
    api: RestApi, identifier: Identifier, path: str, *, is_external: bool, credentials: Credentials | None = None
) -> tuple[Storage, str]:
    """Return the storage of a table and its location there.

    The server issues the keys of a managed table if it is set up so; otherwise, and for external tables, the effective
    options hold them, or the user's `credentials` do.
    """
    if issues_tokens(api.options) and not is_external:
        table = Identifier(identifier.database, identifier.table, identifier.branch)
        tokens = DataTokens(api, table)
        credentials = Credentials(tokens, tokens, f"table {table.get_full_name()}")
    return open_storage(path, api.options, credentials)


def issues_tokens(options: Mapping[str, str]) -> bool:
    """Say whether the server issues the keys of its tables.

    >>> issues_tokens({"data-token.enabled": "true"}), issues_tokens({})
    (True, False)
    """
    value = options.get(_ENABLED, "false").strip().lower()
    if value not in _SWITCH:
        raise InvalidInputError(f"the option {_ENABLED!r} is true or false, not {value!r}", option=_ENABLED)
    return _SWITCH[value]
