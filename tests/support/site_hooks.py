"""What the site adds to docs/: notes of design/, files of the root and docstrings become pages, pictures stand in them.

MkDocs calls these functions by their names. Links in the sources are those that a forge follows; where a page of the
site lies elsewhere, its links are changed here, so that one source serves both.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
api_page = importlib.import_module("support.api_page")
_OF_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_FOREIGN, _OURS = "https://unpkg.com/iframe-worker/shim", "assets/worker-on-disk.js"
_PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<path>pictures/[\w-]+\.svg)\)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose sources lie outside of docs/, and those of the public names."""
    outside = {f"design/{note.name}": note for note in sorted((ROOT / "design").glob("*.md"))}
    outside |= {page: ROOT / name for name, page in _OF_THE_ROOT.items()}
    texts = {page: source.read_text() for page, source in outside.items()}
    texts |= {f"api/{name}": text for name, text in api_page.api_pages().items()}
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text of a page with links as they are in the site, and its pictures inside it."""
    for name, page in _OF_THE_ROOT.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    markdown = markdown.replace("](../design/", "](design/").replace("](docs/", "](")
    return _PICTURE.sub(_inside, markdown)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Return the page with our own script in place of the one that the theme loads from another host."""
    return output.replace(_FOREIGN, "../" * page.url.count("/") + _OURS)


def on_post_template(output_content: str, **_: object) -> str:
    """Do the same to the page that a server shows where there is none, in any folder."""
    return output_content.replace(_FOREIGN, "/" + _OURS)


def _inside(match: re.Match[str]) -> str:
    """Return the picture itself, as a block that markdown leaves as it is."""
    drawn = (ROOT / "docs" / match["path"]).read_text()
    drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{match["alt"]}" ', 1)
    return "<figure>\n" + "\n".join(line for line in drawn.splitlines() if line.strip()) + "\n</figure>"
