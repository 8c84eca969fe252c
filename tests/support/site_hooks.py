"""Hooks of MkDocs: add the notes of design/, files of the root and the API pages to the site, and inline pictures.

MkDocs calls these functions by name. Links in the sources are written for a forge; those to pages that have another
place in the site are rewritten here.
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
_ROOT_FILES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_REMOTE_SCRIPT, _LOCAL_SCRIPT = "https://unpkg.com/iframe-worker/shim", "assets/worker-on-disk.js"
_PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<path>pictures/[\w-]+\.svg)\)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose sources are outside docs/, the API pages and the scripts of examples/."""
    outside = {f"design/{note.name}": note for note in sorted((ROOT / "design").glob("*.md"))}
    outside |= {page: ROOT / name for name, page in _ROOT_FILES.items()}
    texts = {page: source.read_text() for page, source in outside.items()}
    texts |= {f"api/{name}": text for name, text in api_page.api_pages().items()}
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    for script in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{script.name}", content=script.read_text()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Rewrite links to pages that have another place in the site, and inline pictures."""
    for name, page in _ROOT_FILES.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    markdown = markdown.replace("](../design/", "](design/").replace("](docs/", "](")
    markdown = markdown.replace("](../examples/", "](examples/").replace("](../../examples/", "](../examples/")
    return _PICTURE.sub(_inline_picture, markdown)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Replace the script that the theme loads from another host by our own."""
    return output.replace(_REMOTE_SCRIPT, "../" * page.url.count("/") + _LOCAL_SCRIPT)


def on_post_template(output_content: str, **_: object) -> str:
    """Do the same on the page that a server shows for a missing page, in any folder."""
    return output_content.replace(_REMOTE_SCRIPT, "/" + _LOCAL_SCRIPT)


def _inline_picture(match: re.Match[str]) -> str:
    """Return the SVG itself, as a block that markdown does not change. Then it follows the colours of the theme."""
    drawn = (ROOT / "docs" / match["path"]).read_text()
    drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{match["alt"]}" ', 1)
    return "<figure>\n" + "\n".join(line for line in drawn.splitlines() if line.strip()) + "\n</figure>"
