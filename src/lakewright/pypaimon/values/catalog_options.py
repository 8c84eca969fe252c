"""pypaimon's options of catalogs and storages as classes: names in, options with their keys and defaults out.

They are names for keys: what lakewright does about each key is in `spec.schema.option_keys` and `storage.settings`.
"""

from __future__ import annotations

from typing import Any

from lakewright.pypaimon.values.options import ConfigOption
from lakewright.pypaimon.values.units import MemorySize

_KINDS: dict[str, type] = {"str": str, "bool": bool, "int": int, "size": MemorySize}
# A class, and indented its options: name, key, type, default.
_TABLE = """
CatalogOptions
    CACHE_BLOB_INDEX_MAX_SIZE            cache.blob-index.max-size                  size  64 mb
    DATA_TOKEN_ENABLED                   data-token.enabled                         bool  false
    DLF_ACCESS_KEY_ID                    dlf.access-key-id                          str
    DLF_ACCESS_KEY_SECRET                dlf.access-key-secret                      str
    DLF_ACCESS_SECURITY_TOKEN            dlf.security-token                         str
    DLF_OSS_ENDPOINT                     dlf.oss-endpoint                           str
    DLF_REGION                           dlf.region                                 str
    DLF_SIGNING_ALGORITHM                dlf.signing-algorithm                      str   default
    DLF_TOKEN_ECS_METADATA_URL           dlf.token-ecs-metadata-url                 str
    DLF_TOKEN_ECS_ROLE_NAME              dlf.token-ecs-role-name                    str
    DLF_TOKEN_LOADER                     dlf.token-loader                           str
    DLF_TOKEN_PATH                       dlf.token-path                             str
    FILE_FORMAT_METADATA_CACHE_MAX_SIZE  file-format.metadata-cache.max-size        size  50 mb
    HTTP_USER_AGENT_HEADER               header.User-Agent                          str
    METASTORE                            metastore                                  str   filesystem
    PREFIX                               prefix                                     str
    RESOLVING_FILE_IO_ENABLED            resolving-file-io.enabled                  bool  false
    SYNC_ALL_PROPERTIES                  sync-all-properties                        bool  true
    TOKEN                                token                                      str
    TOKEN_PROVIDER                       token.provider                             str
    URI                                  uri                                        str
    USER_AGENT_EXTENDED                  user-agent.extended                        str
    USER_AGENT_FEATURES                  user-agent.features                        str
    USER_AGENT_MODULE                    user-agent.module                          str
    WAREHOUSE                            warehouse                                  str
FileIOOptions
    READ_COALESCE_MAX_BLOCK              file-io.read-coalesce.max-block            size  8 mb
    READ_COALESCE_MAX_GAP                file-io.read-coalesce.max-gap              size  1 mb
FuseOptions
    FUSE_ENABLED                         fuse.enabled                               bool  false
    FUSE_MODE                            fuse.mode                                  str   pvfs
    FUSE_ROOT                            fuse.root                                  str
    FUSE_VALIDATION_MODE                 fuse.validation-mode                       str   strict
GcsOptions
    GCS_ACCESS_TOKEN                     gcs.access-token                           str
    GCS_ACCESS_TOKEN_EXPIRATION          gcs.access-token.expiration                str
    GCS_PROJECT_ID                       gcs.project-id                             str
HdfsOptions
    HDFS_CLIENT_FALLBACK_TO_PYARROW      hdfs.client.fallback-to-pyarrow            bool  true
    HDFS_CLIENT_IMPL                     hdfs.client.impl                           str   native
    HDFS_CONF_DIR                        hdfs.conf-dir                              str
JdbcCatalogOptions
    CATALOG_KEY                          catalog-key                                str   jdbc
OssOptions
    OSS_ACCESS_KEY_ID                    fs.oss.accessKeyId                         str
    OSS_ACCESS_KEY_SECRET                fs.oss.accessKeySecret                     str
    OSS_ENDPOINT                         fs.oss.endpoint                            str
    OSS_IMPL                             fs.oss.impl                                str   jindo
    OSS_REGION                           fs.oss.region                              str
    OSS_SECURITY_TOKEN                   fs.oss.securityToken                       str
    OSS_SSE_ALGORITHM                    fs.oss.server-side-encryption-algorithm    str
    OSS_SSE_DATA_ENCRYPTION              fs.oss.server-side-data-encryption         str
    OSS_SSE_KMS_KEY_ID                   fs.oss.server-side-encryption-key-id       str
    OSS_SSE_METHOD                       fs.oss.server-side-encryption              str
PVFSOptions
    CACHE_ENABLED                        cache-enabled                              str   true
    TABLE_CACHE_TTL                      cache.expire-after-write                   int   1800
S3Options
    S3_ACCESS_KEY_ID                     fs.s3.accessKeyId                          str
    S3_ACCESS_KEY_SECRET                 fs.s3.accessKeySecret                      str
    S3_ENDPOINT                          fs.s3.endpoint                             str
    S3_REGION                            fs.s3.region                               str
    S3_SECURITY_TOKEN                    fs.s3.securityToken                        str
SecurityOptions
    KERBEROS_KEYTAB                      security.kerberos.login.keytab             str
    KERBEROS_PRINCIPAL                   security.kerberos.login.principal          str
    KERBEROS_USE_TICKET_CACHE            security.kerberos.login.use-ticket-cache   bool  true
"""


def _classes() -> dict[str, type]:
    found: dict[str, dict[str, Any]] = {}
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            members = found.setdefault(line, {"__doc__": f"pypaimon's names for option keys: {line}."})
            continue
        name, key, kind, *default = line.split(maxsplit=3)
        option = ConfigOption(key, _KINDS[kind])
        members[name] = ConfigOption(key, _KINDS[kind], None, option.parse(default[0])) if default else option
    return {name: type(name, (), members) for name, members in found.items()}


_made = _classes()
CatalogOptions: Any = _made["CatalogOptions"]
FileIOOptions: Any = _made["FileIOOptions"]
FuseOptions: Any = _made["FuseOptions"]
GcsOptions: Any = _made["GcsOptions"]
HdfsOptions: Any = _made["HdfsOptions"]
JdbcCatalogOptions: Any = _made["JdbcCatalogOptions"]
OssOptions: Any = _made["OssOptions"]
PVFSOptions: Any = _made["PVFSOptions"]
S3Options: Any = _made["S3Options"]
SecurityOptions: Any = _made["SecurityOptions"]
