"""Secrets of stores and servers stand nowhere: logs, errors, plans, event logs, checkpoints, messages, splits."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from support.data_tokens import running_token_server
from support.s3 import SECRET_KEY
from support.sessions import SESSION_VARIABLE

TESTS = Path(__file__).parent.parent


def _bytes_below(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _in_base64(secret: bytes) -> list[bytes]:
    """Return how a secret looks inside of bytes that were encoded, wherever it begins."""
    return [base64.b64encode(b"x" * before + secret)[4 if before else 0 : -4] for before in range(3)]


def test_no_trace_of_a_job_has_a_secret(tmp_path: Path) -> None:
    static = {"s3.access-key": "AKIA-TEST-ACCESS", "s3.secret-key": SECRET_KEY}
    with running_token_server(20.0) as (server, store, sessions):
        bucket = store.make_bucket()
        options = {key: value for key, value in store.options.items() if key not in static}
        plain = {**options, **static, "warehouse": f"s3://{bucket}/static"}
        rest = {**server.options, "header.x-api-key": "header-secret-5f1d"}
        said = {
            "events": str(tmp_path / "events"),
            "checkpoints": str(tmp_path / "checkpoints"),
            "catalogs": {
                "static": {"options": plain},
                "renewed": {
                    "options": {**options, "warehouse": f"s3://{bucket}/renewed"},
                    "provider": store.endpoint,
                },
                "rest": {"options": rest},
            },
            "streamed": ["static", "renewed", "rest"],
            "formats": [
                {**plain, "table": "d.t"},
                {
                    **options,
                    "path": f"s3://{bucket}/renewed/d.db/t",
                    "credentials": "support.sessions:environment_keys",
                },
            ],
            "path": f"s3://{bucket}/static/d.db/t",
            "good": {**options, **static},
            "failing": [
                {**options, "s3.access-key": "AKIA-WRONG-KEY", "s3.secret-key": "wrong-secret-77a1"},
            ],
        }
        done = subprocess.run(
            [sys.executable, "-m", "support.secret_program"],
            input=json.dumps(said).encode(),
            capture_output=True,
            check=False,
            timeout=600,
            env={
                **os.environ,
                SESSION_VARIABLE: store.endpoint,
                "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            },
            cwd=TESTS,
        )
        output = done.stdout + done.stderr
        (tmp_path / "output").write_bytes(output)
        assert done.returncode == 0, output[-4000:].decode(errors="replace")
        secrets = {SECRET_KEY, "AKIA-TEST-ACCESS", "wrong-secret-77a1", "AKIA-WRONG-KEY", server.token}
        secrets |= {"header-secret-5f1d", *sessions.secrets}
    traces = {"output": output, **_bytes_below(tmp_path / "events"), **_bytes_below(tmp_path / "checkpoints")}
    assert any("events" in name and data for name, data in traces.items())
    assert any("checkpoints" in name and data for name, data in traces.items())
    forms = {form: secret for secret in secrets for form in (secret.encode(), *_in_base64(secret.encode()))}
    found = [(secret, name) for name, data in traces.items() for form, secret in forms.items() if form in data]
    assert found == []
    assert len(sessions.secrets) > 6
