"""Keep Java's answers in the corpus: target/java-sql/answers.json in, recorded.json out, one line per case.

Run it in tests after `make nightly PART=interop-java-sql`, when statements were added:
`python -m support.sql_corpus.record`.
"""

from __future__ import annotations

import json

from support.sql_corpus.cases import HERE, corpus


def main() -> None:
    found = json.loads((HERE.parents[2] / "target/java-sql/answers.json").read_text())
    lines = []
    for case in corpus():
        if not case.java and not case.error and case.name in found:
            answer = found[case.name]
            parts = ("after",) if case.then and not case.both else ("columns", "result", "after")
            kept = {part: answer[part] for part in parts if part in answer}
            lines.append(f"{json.dumps(case.name)}: {json.dumps(kept)}")
    (HERE / "recorded.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
