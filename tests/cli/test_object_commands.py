"""`lakewright db`, `table`, `tag`, `branch` and `completion`, and catalogs by name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.cli.cli_options import ENTRIES
from lakewright.cli.main import main
from lakewright.cli.program import COMPLETE
from support.command_tables import code_of, command_warehouse, ids_of
from support.warm_processes import BARE


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = command_warehouse(tmp_path)
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", place)
    monkeypatch.chdir(tmp_path)
    return place


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_life_of_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("-w", str(tmp_path / "new"))
    assert main(["db", "create", "a", *place]) == 0
    assert main(["db", "create", "a", *place]) == 1
    capsys.readouterr()
    assert _json(capsys, "db", "create", "a", "--if-not-exists", *place) == {"database": "a", "action": "none"}
    assert main(["table", "create", "a.t", "--column", "x INT", *place]) == 0
    capsys.readouterr()
    assert _json(capsys, "db", "list", *place) == [{"database": "a", "tables": 1}]
    described = _json(capsys, "db", "describe", "a", *place)
    assert isinstance(described, dict)
    assert described["tables"] == ["t"]
    assert main(["db", "drop", "a", "--yes", *place]) == 1
    assert main(["db", "drop", "a", "--yes", "--cascade", *place]) == 0
    capsys.readouterr()
    assert main(["db", "drop", "a", "--yes", "--if-exists", *place]) == 0
    assert capsys.readouterr().out == "a: is not there\n"
    assert main(["table", "drop", "b.t", "--yes", "--if-exists", *place]) == 0
    assert capsys.readouterr().out == "b.t: is not there\n"
    assert _json(capsys, "db", "list", *place) == []


@pytest.mark.usefixtures("warehouse")
def test_a_table_of_columns(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(
        capsys,
        *("table", "create", "d.new", "--column", "id BIGINT NOT NULL", "--column", "day DATE"),
        *("--column", "`a b` ARRAY<ROW<x INT, y STRING>> COMMENT 'it''s'", "--primary-key", "day,id"),
        *("--partition-by", "day", "--option", "bucket=2", "--comment", "new"),
    )
    assert isinstance(made, dict)
    assert (made["primary_keys"], made["partition_keys"], made["comment"]) == (["day", "id"], ["day"], "new")
    assert made["options"] == {"bucket": "2"}
    columns = [(one["column"], one["type"], one["comment"]) for one in made["columns"]]
    assert columns[0] == ("id", "BIGINT NOT NULL", None)
    assert columns[2][0::2] == ("a b", "it's")
    assert columns[2][1].startswith("ARRAY<ROW<")
    assert _json(capsys, "table", "d.new") == _json(capsys, "describe", "d.new") == made


@pytest.mark.usefixtures("warehouse")
def test_a_table_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("id,price,code\n1,9.50,007\n")
    made = _json(
        capsys, "table", "create", "e.t", "--from", "a.csv", "--column", "code INT", "--if-not-exists", "--quiet"
    )
    assert isinstance(made, dict)
    types = {one["column"]: one["type"] for one in made["columns"]}
    assert types == {"id": "BIGINT", "price": "DECIMAL(18, 2)", "code": "INT"}
    assert main(["import", "e.t", "a.csv", "-q"]) == 0


def test_a_table_is_changed(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--add-column", "note STRING COMMENT 'why'", "--after", "id", "--rename-column", "n=number"]
    words += ["--retype", "number=BIGINT", "--column-comment", "id=the key", "--option", "write-buffer-size=1 mb"]
    assert main(["table", "alter", "d.t", *words, "--comment", "changed"]) == 0
    assert capsys.readouterr().out == "d.t: schema 1, 6 changes\n"
    table = lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.t")
    fields = [(one.name, str(one.type), one.description) for one in table.fields]
    assert fields == [("id", "BIGINT NOT NULL", "the key"), ("note", "STRING", "why"), ("number", "BIGINT", None)]
    assert table.comment() == "changed"
    assert main(["table", "alter", "d.t", "--drop-column", "note", "--remove-option", "write-buffer-size"]) == 0
    assert main(["table", "alter", "d.t", "--nullable", "number"]) == 0
    assert main(["table", "rename", "d.t", "u"]) == 0
    assert ids_of(warehouse, "d.u") == [0, 1, 2, 9]
    assert main(["table", "drop", "d.u", "--yes"]) == 0
    assert code_of(["table", "drop", "d.u", "--yes"]) == 1
    assert main(["table", "drop", "d.u", "--yes", "--if-exists"]) == 0


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1), ("yup\n", 1)])
def test_a_rollback_asks(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr(sys.stdin, "readline", lambda: answer, raising=False)
    assert main(["rollback", "d.t", "1"]) == code
    assert ids_of(warehouse) == ([0, 9] if code == 0 else [0, 1, 2, 9])
    assert ("--yes" in capsys.readouterr().err) == bool(code)


@pytest.mark.usefixtures("warehouse")
def test_words_may_be_turned_around(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag", "create", "d.t", "a", "--snapshot", "1"]) == 0
    assert main(["tag", "d.t", "create", "b", "--snapshot", "2"]) == 0
    assert main(["--quiet", "tag", "--json", "d.t", "drop", "a"]) == 0
    capsys.readouterr()
    one, other = _json(capsys, "tag", "d.t"), _json(capsys, "tag", "list", "d.t")
    assert one == other
    assert [row["tag"] for row in one] == ["b"]  # type: ignore[attr-defined]


# ---- catalogs by name ------------------------------------------------------------------------------------------------


def test_a_catalog_of_a_file(
    tmp_path: Path,
    no_catalogs_of_the_user: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command_warehouse(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    (no_catalogs_of_the_user / "lakewright.toml").write_text('default = "other"\n[catalogs.other]\nwarehouse = "/nix"')
    assert main(["tables"]) == 1
    assert "there is no warehouse /nix" in capsys.readouterr().err
    (tmp_path / "lakewright.toml").write_text('default = "dev"\n[catalogs.dev]\nwarehouse = "w"')
    for words in (["d.t"], ["dev.d.t"], ["d.t", "--catalog", "dev"], ["d.t", "-c", "other", "-w", "../../w"]):
        assert main(["describe", *words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["snapshot"] == 3
    monkeypatch.setenv("LAKEWRIGHT_CATALOG", "other")
    assert main(["tables"]) == 1
    monkeypatch.setenv("LAKEWRIGHT_CATALOGS__OTHER__WAREHOUSE", str(tmp_path / "w"))
    assert main(["tables"]) == 0
    assert main(["--catalog", "dev", "tables", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "is not TOML"),
        ("[catalog.dev]", "'catalog' is neither 'default' nor a table [catalogs.NAME]"),
        ("default = 3", "'default' is the name of a catalog"),
        ("[catalogs]\ndev = 3", "the catalog 'dev' is a table of options"),
        ("[catalogs.dev]\nwarehouse = ['a']", "the option warehouse of the catalog 'dev' is a list"),
        ("default = 'dev'\n[catalogs.dev]\nwarehouse = '${NO_SUCH}'", "export NO_SUCH=..."),
        ("default = 'prod'\n[catalogs.dev]\nwarehouse = 'w'", "add [catalogs.prod] there"),
    ],
)
def test_a_wrong_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lakewright.toml").write_text(text)
    assert main(["tables"]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("more", [[], ["--debug"]])
def test_secrets_of_a_file_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """Errors of catalogs, also of unexpected kinds, hold no secret, whatever they say."""
    monkeypatch.chdir(tmp_path)
    Path("lakewright.toml").write_text(
        "default = 'prod'\n[catalogs.prod]\nwarehouse = 'w'\n's3.access-key' = '${MY_TOKEN}'\n"
        "[catalogs.prod.s3]\nsecret-key = 'k3y!'"
    )
    Path("w").mkdir()
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-of-mine")

    def broken(catalog: lw.Catalog) -> list[str]:
        message = f"cannot open with {dict(catalog.options)} at https://me:pass-w0rd@host/"
        raise RuntimeError(message)

    monkeypatch.setattr("lakewright.catalog.filesystem_catalog.FileSystemCatalog.list_databases", broken)
    assert main(["tables", *more]) == 1
    said = capsys.readouterr().err
    assert ("Traceback" in said) == bool(more)
    assert "'s3.access-key': '***'" in said
    for secret in ("s3cr3t-of-mine", "k3y!", "pass-w0rd"):
        assert secret not in said


# ---- the shell -------------------------------------------------------------------------------------------------------


def _completed(words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    main([])
    monkeypatch.delenv(COMPLETE)
    return [line.partition(",")[2] for line in capfd.readouterr().out.split()]


@pytest.mark.usefixtures("warehouse")
def test_words_are_completed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"read", "rescale", "report"} <= set(_completed("lakewright re", capfd, monkeypatch))
    assert _completed("lakewright table cr", capfd, monkeypatch) == ["create"]
    assert "--where" in _completed("lakewright read d.t --wh", capfd, monkeypatch)
    assert _completed("lakewright read d.", capfd, monkeypatch) == ["d.empty", "d.t"]
    assert _completed("lakewright read nix.", capfd, monkeypatch) == []
    assert "upsert" in _completed("lakewright import d.t --mode ", capfd, monkeypatch)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"{COMPLETE}={shell}_complete" in capsys.readouterr().out


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_no_space_follows_the_name_of_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    endings = {"plain,sales.": "compopt -o nospace\n", "plain,sales.orders": "", "plain,a.\\nplain,b.": ""}
    for found, ending in endings.items():
        program = f"compopt() {{ echo compopt $*; }}\nenv() {{ printf '{found}'; }}\n{script}\n_lakewright_completion x"
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == ending


@pytest.mark.processes
def test_help_and_completion_load_no_library_of_data(tmp_path: Path) -> None:
    program = f"""
import os, sys
from lakewright.cli.main import main
for variables in {{}}, {{"{COMPLETE}": "bash_complete", "COMP_WORDS": "lakewright re", "COMP_CWORD": "1"}}:
    os.environ.update(variables)
    try:
        code = main(["--help"])
    except SystemExit as ended:
        code = ended.code
    print(code, [m for m in ("pyarrow", "numpy", "rich") if m in sys.modules])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    shown, completed, end = done.stdout.split("0 []\n")
    assert shown.startswith("Usage: lakewright")
    assert "plain,read" in completed
    assert end == ""


@pytest.mark.processes
def test_without_click_the_way_to_it_is_shown() -> None:
    done = BARE.run("import sys; sys.modules['click'] = None; from lakewright.cli.main import main; main()", "tables")
    assert done.code == 1
    assert done.err == "lakewright: the command line needs the package click: pip install 'lakewright[cli]'\n"


@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: lakewright {name}")
    assert "--json" in shown
    assert max(map(len, shown.splitlines())) <= 80


# ---- terminals and locales -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("warehouse")
def test_a_narrow_terminal_gets_a_line_for_each_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for columns, first in (("40", "snapshot  3"), ("200", "snapshot")):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb")
        assert main(["snapshots", "d.t"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].strip().startswith(first)
        assert len(lines) == (23 if columns == "40" else 4)


@pytest.mark.usefixtures("warehouse")
def test_a_locale_that_is_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    """Python reads arguments that its locale lacks as single bytes."""
    word = "x INT COMMENT 'Łódź'".encode().decode("ascii", "surrogateescape")
    assert main(["table", "create", "d.u", "--column", word, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"][0]["comment"] == "Łódź"


@pytest.mark.usefixtures("warehouse")
def test_a_warning_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for more in ([], ["-q"]):
            assert main(["tables", "--catalog-option", "no.such.option=s3cr3t", *more]) == 0
            said = capsys.readouterr().err
            assert said.startswith("lakewright: warning: ") != bool(more)
            assert said.count("\n") == (0 if more else 1)
