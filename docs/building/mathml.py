"""A MkDocs hook: formulas become MathML while the site is built, so that showing them takes no script and no network.

`pymdownx.arithmatex` finds the formulas and leaves them as LaTeX in elements of the class `arithmatex`.
"""

import re
from html import unescape

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(html: str, **_: object) -> str:
    """Replace the formulas of a page's HTML. Called by MkDocs for each page."""
    return _FORMULA.sub(_to_mathml, html)


def _to_mathml(found: re.Match[str]) -> str:
    formula = unescape(found[2]).strip()
    if found[1] == "span":
        return convert(formula)
    return f'<div class="formula">{convert(formula, display="block")}</div>'
