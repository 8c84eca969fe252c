"""The S3 policies of docs/storage.md suffice, and docs/operate.md has advice for every error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import boto3
import moto.settings
import pytest

import lakewright as lw
from support.api_page import public_names
from support.s3 import S3Server, running_s3, s3_options

DOCS = Path(__file__).parent.parent / "docs"
# Amazon asks for the right to delete on each key of a request that deletes several, the emulator on the bucket.
_OF_THE_EMULATOR = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::lake"}
POLICIES = [
    json.loads(text)
    for text in re.findall(r"^```json\n(.*?)^```", (DOCS / "storage.md").read_text(), re.MULTILINE | re.DOTALL)
]


def test_every_error_has_advice() -> None:
    page = (DOCS / "operate.md").read_text()
    section = page[page.index("## What to do on each error") : page.index("## Runbook")]
    errors = [it.name for it in public_names() if it.package == "errors"]
    assert len(errors) > 20
    assert [name for name in errors if f"`{name}`" not in section] == []


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """Run a server with the bucket of the page."""
    with running_s3() as running:
        running.client().create_bucket(Bucket="lake")
        yield running


@pytest.fixture
def asking(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Let the server look at the policies of users."""
    monkeypatch.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0.0)
    return server


def _catalog(server: S3Server, user: str, policy: dict[str, object] | None) -> lw.Catalog:
    """Return the catalog of a new user who has a policy."""
    iam = boto3.client(
        "iam",
        endpoint_url=server.endpoint,
        aws_access_key_id="AKIAROOT",
        aws_secret_access_key="root",  # noqa: S106 - the emulator takes any
        region_name="us-east-1",
    )
    with patch.object(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", float("inf")):
        iam.create_user(UserName=user)
        if policy is not None:
            iam.put_user_policy(UserName=user, PolicyName="page", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=user)["AccessKey"]
    options = s3_options(server.endpoint, key["AccessKeyId"], key["SecretAccessKey"])
    return lw.CatalogFactory.create({"warehouse": "s3://lake/warehouse", **options})


@pytest.mark.s3
def test_the_policies_of_the_page_suffice_for_readers_and_writers(asking: S3Server) -> None:
    reads, writes = POLICIES
    assert "s3:DeleteObject" in writes["Statement"][1]["Action"]
    writer = _catalog(asking, "writer", {**writes, "Statement": [*writes["Statement"], _OF_THE_EMULATOR]})
    writer.create_database("shop")
    table = lw.create_table_from({"id": [1, 2], "n": [5, 6]}, "shop.orders", catalog=writer, primary_keys=["id"])
    lw.write_table({"id": [2, 3], "n": [7, 8]}, table)
    table.create_tag("monday")
    table.delete("id = 1")
    table.compact(full=True)
    table.delete_tag("monday")
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids
    assert table.verify(full=True).is_sound

    reader = _catalog(asking, "reader", reads)
    seen = reader.get_table("shop.orders")
    assert lw.read_table(seen)["id"].to_pylist() == [2, 3]
    with pytest.raises(PermissionError):
        lw.write_table({"id": [4], "n": [9]}, seen)
    with pytest.raises(PermissionError):
        lw.read_table(_catalog(asking, "stranger", None).get_table("shop.orders"))
    writer.drop_table("shop.orders")
    assert writer.list_tables("shop") == []
