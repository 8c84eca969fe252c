"""Catalog options in, the settings of an object store's client out, including secrets.

Option names are accepted in the spelling of Paimon (`s3.access-key`), pypaimon (`fs.s3.accessKeyId`), Hadoop
(`fs.s3a.access.key`), the cloud's own environment variables (`AWS_ACCESS_KEY_ID`, in either case) and Iceberg
(`s3.access-key-id`). If a setting is given under several names, the first in the table below wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

from lakewright.errors import InvalidInputError

# setting: its names among the options, in order of precedence
_S3 = {
    "access_key_id": "s3.access-key s3.access-key-id fs.s3a.access.key fs.s3a.access-key fs.s3.accesskeyid "
    "aws_access_key_id",
    "secret_access_key": "s3.secret-key s3.secret-access-key fs.s3a.secret.key fs.s3a.secret-key fs.s3.accesskeysecret "
    "aws_secret_access_key",
    "session_token": "s3.session.token s3.session-token s3.token fs.s3a.session.token fs.s3.securitytoken "
    "aws_session_token aws_token",
    "endpoint": "s3.endpoint fs.s3a.endpoint fs.s3.endpoint aws_endpoint_url_s3 aws_endpoint_url aws_endpoint",
    "region": "s3.region s3.endpoint.region client.region fs.s3a.endpoint.region fs.s3.region aws_region "
    "aws_default_region",
    "skip_signature": "s3.anonymous aws_skip_signature",
    "server_side_encryption": "aws_server_side_encryption",
    "sse_kms_key_id": "aws_sse_kms_key_id",
    "role_arn": "s3.role-arn client.role-arn fs.s3a.assumed.role.arn aws_role_arn",
    "conditional_put": "aws_conditional_put",
    "disable_bulk_delete": "aws_disable_bulk_delete",
}
_OSS = {  # Alibaba's store, which answers the requests of S3
    "access_key_id": "fs.oss.accesskeyid",
    "secret_access_key": "fs.oss.accesskeysecret",
    "session_token": "fs.oss.securitytoken",
    "endpoint": "fs.oss.endpoint",
    "region": "fs.oss.region",
}
_GCS = {
    "bearer_token": "gcs.oauth2.token google_bearer_token",
    "application_credentials": "google_application_credentials gs.application-credentials",
    "service_account": "google_service_account google_service_account_path",
    "service_account_key": "google_service_account_key gcs.service-account-key",
    "base_url": "gcs.service.host google_base_url",
    "skip_signature": "gcs.no-auth google_skip_signature",
}
_AZURE = {
    "account_name": "adls.account-name azure_storage_account_name azure.account-name account_name",
    "account_key": "adls.account-key azure_storage_account_key azure_storage_access_key azure.account-key account_key",
    "sas_key": "adls.sas-token azure_storage_sas_token azure_storage_sas_key sas_token",
    "tenant_id": "adls.tenant-id azure_storage_tenant_id azure_tenant_id",
    "client_id": "adls.client-id azure_storage_client_id azure_client_id",
    "client_secret": "adls.client-secret azure_storage_client_secret azure_client_secret",
    "token": "adls.token azure_storage_token",
    "endpoint": "adls.endpoint azure_storage_endpoint azure_endpoint",
    "use_emulator": "azure_storage_use_emulator",
}
HDFS_ADDRESS = ("dfs.namenode.http-address", "hadoop.dfs.namenode.http-address")
HDFS_USER = ("hadoop.user.name",)
_NAMES = {"s3": _S3, "oss": _OSS, "gs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
_PATH_STYLE = "s3.path.style.access s3.path-style-access fs.s3a.path.style.access".split()
_VIRTUAL_HOST = ["aws_virtual_hosted_style_request"]
_ALLOW_HTTP = "aws_allow_http allow_http azure_allow_http google_allow_http".split()
_SWITCHES = {"skip_signature", "use_emulator", "disable_bulk_delete"}
ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_SECRETS = frozenset(
    "access_key_id secret_access_key session_token bearer_token service_account_key account_key sas_key client_secret "
    "token".split()
)
_ADDRESS = re.compile(r"(\d+(\.\d+){3}|\[[0-9a-f:]+\]|localhost)(:\d+)?")
_OSS_REGION, _OSS_REGION_DEFAULT = re.compile(r"\boss-([a-z0-9-]+?)(?:-internal)?\."), "us-east-1"
Settings = tuple[tuple[str, str], ...]


def store_settings(
    scheme: str, container: str, options: Mapping[str, str], newer: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings that the options give to the client of an object store, sorted by name.

    A setting that `newer` options give wins, whatever its name is there.

    >>> store_settings("s3", "lake", {"s3.endpoint": "http://127.0.0.1:9000", "other": "x"})
    (('allow_http', 'true'), ('endpoint', 'http://127.0.0.1:9000'))
    """
    known = {name.lower(): value for name, value in options.items() if isinstance(value, str)}
    later = {name.lower(): value for name, value in (newer or {}).items()}
    settings = {}
    for setting, names in _NAMES.get(scheme, {}).items():
        value = _first(later, names.split()) or _first(known, names.split())
        if value:
            settings[setting] = _switch(value, setting) if setting in _SWITCHES else value
    known |= later
    if scheme == "s3":
        _place_endpoint(settings, container, known)
    if scheme == "oss":
        _place_oss(settings, container)
    endpoint = settings.get("endpoint") or settings.get("base_url") or ""
    if scheme == "s3" and not endpoint:  # the client reads these variables too, but plain HTTP must be allowed here
        endpoint = next((os.environ[name] for name in ENDPOINT_VARIABLES if name in os.environ), "")
    allow_http = _first(known, _ALLOW_HTTP)
    if endpoint.startswith("http://") or (allow_http and _switch(allow_http, "allow_http") == "true"):
        settings["allow_http"] = "true"
    return tuple(sorted(settings.items()))


@cache
def setting_names() -> frozenset[str]:
    """Return every option name that is a setting of an object store or of HDFS, in lower case."""
    names = [text for store in (_S3, _OSS, _GCS, _AZURE) for text in store.values()]
    return frozenset((*" ".join(names).split(), *_PATH_STYLE, *_VIRTUAL_HOST, *_ALLOW_HTTP, *HDFS_ADDRESS, *HDFS_USER))


@cache
def public_names() -> frozenset[str]:
    """Return the option names, in lower case, of settings that are no secrets."""
    stores = (_S3, _OSS, _GCS, _AZURE)
    secrets = " ".join(names for store in stores for setting, names in store.items() if setting in _SECRETS)
    return setting_names() - frozenset(secrets.split())


def parted(settings: Settings) -> tuple[Settings, Settings]:
    """Return the settings that are no secrets, and those that are."""
    public = tuple(pair for pair in settings if pair[0] not in _SECRETS)
    return public, tuple(pair for pair in settings if pair[0] in _SECRETS)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return the values that no message may contain."""
    return tuple(value for name, value in settings if name in _SECRETS)


def _place_endpoint(settings: dict[str, str], container: str, known: Mapping[str, str]) -> None:
    """Set the endpoint as a URL; with virtual-hosted addressing, the container is part of the host."""
    endpoint = settings.get("endpoint")
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    path_style, virtual = _first(known, _PATH_STYLE), _first(known, _VIRTUAL_HOST)
    in_host = path_style is not None and _switch(path_style, _PATH_STYLE[0]) == "false"
    if virtual is not None:
        in_host = _switch(virtual, _VIRTUAL_HOST[0]) == "true"
    if in_host:
        settings["virtual_hosted_style_request"] = "true"
        endpoint = endpoint and _with_container(endpoint, container)
    if endpoint is not None:
        settings["endpoint"] = endpoint


def _place_oss(settings: dict[str, str], container: str) -> None:
    """Set the endpoint with the container in its host, which OSS demands, and the region of the signature."""
    endpoint = settings.get("endpoint")
    if endpoint is None:
        raise InvalidInputError(
            f"the option 'fs.oss.endpoint' is missing for oss://{container}", option=_OSS["endpoint"]
        )
    endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
    host = endpoint.partition("://")[2].partition("/")[0]
    if _ADDRESS.fullmatch(host) is None:  # an address has no room for a name
        settings["virtual_hosted_style_request"] = "true"
        endpoint = _with_container(endpoint, container)
    region = _OSS_REGION.search(host)
    settings.setdefault("region", region[1] if region else _OSS_REGION_DEFAULT)
    settings["endpoint"] = endpoint


def _with_container(endpoint: str, container: str) -> str:
    transport, _, host = endpoint.partition("://")
    return endpoint if host.startswith(f"{container}.") else f"{transport}://{container}.{host}"


def _first(known: Mapping[str, str], names: list[str]) -> str | None:
    return next((known[name] for name in names if name in known), None)


def _switch(value: str, name: str) -> str:
    word = value.strip().lower()
    if word not in {"true", "false", "1", "0"}:
        raise InvalidInputError(f"the option {name!r} is either true or false, not {value!r}", option=name)
    return "true" if word in {"true", "1"} else "false"
