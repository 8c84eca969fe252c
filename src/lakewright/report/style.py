"""The style of the page: colours for light and dark, for screens, phones and paper.

Texts have a contrast of at least 4.5 to what they lie on, shapes of at least 3 to the panel; a test measures both.
"""

from __future__ import annotations

LIGHT = {
    "page": "#f4f5f7",
    "panel": "#ffffff",
    "ink": "#1b2230",
    "soft": "#535d70",
    "edge": "#dde1e8",
    "track": "#e9ecf1",
    "accent": "#2a5bd7",
    "code": "#f1f3f7",
    "warn": "#96500a",
    "warn-back": "#fdf3e3",
    "append": "#3069e0",
    "overwrite": "#c2570c",
    "compact": "#0f8a6d",
    "analyze": "#8a5bd1",
    "level-0": "#c2570c",
    "level-1": "#8a7fe0",
    "level-2": "#6a78dd",
    "level-3": "#4c70d8",
    "level-4": "#3566c9",
    "level-5": "#2456a8",
    "small": "#c2570c",
    "good": "#0f8a6d",
    "lost": "#c23b4a",
}
DARK = {
    "page": "#10141b",
    "panel": "#181e28",
    "ink": "#e8ecf3",
    "soft": "#a3aec0",
    "edge": "#2c3543",
    "track": "#273040",
    "accent": "#8db0ff",
    "code": "#11161e",
    "warn": "#f3b562",
    "warn-back": "#2d2414",
    "append": "#6d9bff",
    "overwrite": "#f0954a",
    "compact": "#3fc29f",
    "analyze": "#b692f0",
    "level-0": "#f0954a",
    "level-1": "#b9b0ff",
    "level-2": "#9aa5ff",
    "level-3": "#83a0ff",
    "level-4": "#6d94f5",
    "level-5": "#5c86e6",
    "small": "#f0954a",
    "good": "#3fc29f",
    "lost": "#f0717f",
}
SHAPES = (
    "append", "overwrite", "compact", "analyze", "level-0", "level-1", "level-2", "level-3", "level-4", "level-5",
    "small", "good", "lost",
)  # fmt: skip

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
main,header.top,footer{max-width:1120px;margin:0 auto;padding:0 20px}
header.top{padding-top:36px;padding-bottom:8px}
h1{font-size:30px;line-height:1.2;margin:0;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:17px;margin:0 0 4px;letter-spacing:-.01em}
h3{font-size:15px;margin:0 0 4px}
p{margin:0 0 10px}
.eyebrow{color:var(--soft);font-size:13px;margin:0 0 6px}
.comment{font-size:16px;margin:8px 0 0;max-width:70ch;overflow-wrap:anywhere}
.chips{list-style:none;display:flex;flex-wrap:wrap;gap:6px;padding:0;margin:14px 0 0}
.chips li{border:1px solid var(--edge);background:var(--panel);border-radius:999px;padding:2px 11px;font-size:13px;
overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:12px;margin:22px 0;padding:0}
.tiles div{background:var(--panel);border:1px solid var(--edge);border-radius:12px;padding:12px 14px;min-width:0}
.tiles dt{color:var(--soft);font-size:13px}
.tiles dd{margin:0;font-size:22px;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.tiles dd small{display:block;font-size:12.5px;font-weight:400;color:var(--soft);letter-spacing:0}
.two{columns:2;column-gap:16px;margin-bottom:16px}
.two .panel{break-inside:avoid}
.panel{background:var(--panel);border:1px solid var(--edge);border-radius:14px;padding:20px 22px;min-width:0;
margin:0 0 16px}
.lead{color:var(--soft);margin:0 0 14px;max-width:75ch}
.lead b,.lead strong{color:var(--ink);font-weight:600}
figure{margin:0 0 12px}
figcaption{font-size:13px;font-weight:600;margin:0 0 2px}
.chart{display:block;overflow:visible;font-size:12px}
.chart text{fill:var(--ink)}
.chart .tick{fill:var(--soft);font-variant-numeric:tabular-nums}
.chart .strong{fill:var(--ink);font-weight:600}
.chart .label{font-size:13px}
.chart .value{font-size:12.5px;fill:var(--soft);font-variant-numeric:tabular-nums}
.grid{stroke:var(--edge);stroke-width:1;stroke-dasharray:2 4}
.axis{stroke:var(--soft);stroke-width:1}
.mark{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:4 3}
.track{fill:var(--track)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:0 0 8px;font-size:13px;
color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px}
details{border-top:1px solid var(--edge);margin-top:12px;padding-top:8px}
summary{cursor:pointer;color:var(--accent);font-size:13.5px;border-radius:4px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.scroll{overflow-x:auto;margin:8px 0 0}
table{border-collapse:collapse;width:100%;font-size:13.5px}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:4px}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--edge);vertical-align:top;
overflow-wrap:break-word;max-width:420px}
th{color:var(--soft);font-weight:600;white-space:nowrap}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.more{color:var(--soft);font-size:13px;margin:6px 0 0}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.advice{list-style:none;padding:0;margin:0;display:grid;gap:14px}
.advice>li{border-left:4px solid var(--accent);padding:2px 0 2px 16px;min-width:0}
.advice>li.urgent{border-left-color:var(--warn)}
.badge{display:inline-block;font-size:12px;font-weight:600;color:var(--warn);background:var(--warn-back);
border-radius:6px;padding:0 7px;margin-left:8px;vertical-align:1px}
.calls{display:grid;grid-template-columns:auto 1fr;gap:4px 12px;margin:8px 0 0;align-items:baseline}
.calls dt{color:var(--soft);font-size:13px}
.calls dd{margin:0;min-width:0}
.calls code{display:block;background:var(--code);border-radius:7px;padding:4px 10px;overflow-wrap:anywhere}
.problems{background:var(--warn-back);color:var(--ink);border:1px solid var(--warn);border-radius:12px;
padding:14px 18px;margin:0 0 16px;overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:auto 1fr;gap:4px 18px;margin:0}
.facts dt{color:var(--soft)}
.facts dd{margin:0;overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:26px}
.cards>div{min-width:0}
footer{color:var(--soft);font-size:13px;padding-top:10px;padding-bottom:40px}
@media (max-width:900px){.two{columns:1}.tiles{grid-template-columns:repeat(3,1fr)}}
@media (max-width:520px){table{min-width:420px}
main,header.top,footer{padding-left:12px;padding-right:12px}header.top{padding-top:22px}
h1{font-size:24px}.panel{padding:16px 14px}.tiles{grid-template-columns:1fr 1fr;gap:8px}.tiles dd{font-size:19px}
.calls{grid-template-columns:minmax(0,1fr)}.calls dd{margin-bottom:6px}}
@media print{body{background:#fff;font-size:12px}.panel,.tiles div{break-inside:avoid}
details::details-content{content-visibility:visible;block-size:auto}summary{display:none}.two{columns:1}}
"""


def style() -> str:
    """Return the style sheet of the page."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    shapes = "".join(f".{name}{{fill:var(--{name})}}" for name in SHAPES)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media print{{:root{{{light}}}}}{_RULES}{shapes}"
    )
