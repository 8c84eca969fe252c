"""Catalog options in, who calls the server out: with a bearer token, or with keys of Data Lake Formation (DLF)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.errors import InvalidInputError
from lakewright.rest.dlf import dlf_auth
from lakewright.rest.http import Auth, Request, check_header

_PROVIDERS = "'bear' (a token) or 'dlf' (keys of Alibaba Data Lake Formation)"


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A caller with a token that the server knows."""

    token: str = field(repr=False)

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the header with the token; it is the same for every request."""
        del request
        return {"Authorization": f"Bearer {self.token}"}

    def secrets(self) -> tuple[str, ...]:
        """Return the token."""
        return (self.token,)


def auth_of(options: Mapping[str, str]) -> Auth:
    """Return the caller that the option `token.provider` asks for."""
    provider = options.get("token.provider", "").strip()
    match provider.lower():
        case "bear":
            token = options.get("token", "").strip()
            if not token:
                raise InvalidInputError(
                    "the option 'token' is missing: 'token.provider' = 'bear' needs the token of the server",
                    option="token",
                )
            check_header("token", "Authorization", token)
            return BearerAuth(token)
        case "dlf":
            return dlf_auth(options)
        case "":
            raise InvalidInputError(
                f"the option 'token.provider' is missing: a REST catalog needs {_PROVIDERS}", option="token.provider"
            )
        case _:
            raise InvalidInputError(
                f"the option 'token.provider' is {provider!r}; a REST catalog takes {_PROVIDERS}",
                option="token.provider",
            )
