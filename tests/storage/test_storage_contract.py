"""One contract, every implementation of the storage protocol."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from contract.faulty_storage import FaultyStorage, MemoryStorage
from contract.storage_suite import StorageContract
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.storage import Storage
from support.s3 import S3Server

_NUMBERS = itertools.count()


class TestLocal(StorageContract):
    @pytest.fixture(params=[True, False], ids=["durable", "fast"])
    def storage(self, request: pytest.FixtureRequest) -> Storage:
        return LocalStorage(durable=request.param)

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "lake")


class TestMemory(StorageContract):
    @pytest.fixture
    def storage(self) -> MemoryStorage:
        return MemoryStorage(f"contract-{next(_NUMBERS)}")

    @pytest.fixture
    def root(self, storage: MemoryStorage) -> str:
        return f"{storage.root}/lake"


class TestFaultyWithoutFault(StorageContract):
    @pytest.fixture
    def storage(self) -> FaultyStorage:
        return FaultyStorage(MemoryStorage(f"contract-{next(_NUMBERS)}"))

    @pytest.fixture
    def root(self, storage: FaultyStorage) -> str:
        assert isinstance(storage.inner, MemoryStorage)
        return f"{storage.inner.root}/lake"


class TestObjectsInMemory(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return ObjectStorage("memory://")

    @pytest.fixture
    def root(self) -> str:
        return f"memory:///contract-{next(_NUMBERS)}"


class TestS3(StorageContract):
    @pytest.fixture
    def storage(self, s3_server: S3Server) -> ObjectStorage:
        return ObjectStorage(f"s3://{s3_server.make_bucket()}", s3_server.options)

    @pytest.fixture
    def root(self, storage: ObjectStorage) -> str:
        return f"{storage.url}/lake"
