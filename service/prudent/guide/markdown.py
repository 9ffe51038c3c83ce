"""Pages of the documentation, from the Markdown that `make docs` reads as well to HTML that needs no script."""

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from prudent.guide.sections import Anchors

_INLINE = re.compile(r"\$(?=[^\s$])([^$]*[^\s$\\])\$(?!\d)")
_ALIGNED = re.compile(r"text-align:(left|center|right)")


class Page(NamedTuple):
    """A page. headings: anchor and text of those of the second level."""

    title: str
    html: str
    headings: list[tuple[str, str]]


def render(text: str) -> Page:
    """A page as HTML. Links to other pages lose the ending `.md`; wide tables and formulas scroll by themselves."""
    reader = _reader()
    tokens = reader.parse(text)
    title, headings, anchors = "", [], Anchors()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _plain(tokens[place + 1].children or [])
            anchor = anchors.of(heading)
            token.attrSet("id", anchor)
            if token.tag == "h1":
                title = heading
            elif token.tag == "h2":
                headings.append((anchor, heading))
        elif token.type in {"th_open", "td_open"}:
            aligned = _ALIGNED.search(str(token.attrs.pop("style", "")))
            if aligned:
                token.attrSet("class", aligned[1])
            if token.type == "th_open":
                _name_header(token, tokens[place + 1], tokens[place + 2])
        for child in token.children or []:
            if child.type == "link_open":
                child.attrSet("href", _address(str(child.attrGet("href"))))
    return Page(title, reader.renderer.render(tokens, reader.options, {}), headings)


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark").enable("table")
    reader.inline.ruler.before("escape", "formula", _inline_formula)
    reader.block.ruler.before("paragraph", "formula", _formula_block, {"alt": ["paragraph"]})
    for name, rule in (
        ("formula", _render_formula),
        ("formula_block", _render_formula_block),
        ("table_open", _open_table),
        ("table_close", _close_table),
    ):
        reader.add_render_rule(name, rule)
    rules = reader.renderer.rules  # type: ignore[attr-defined]  # a dictionary that the protocol leaves out
    rules |= {name: _scrollable(rules[name]) for name in ("fence", "code_block")}
    return reader


def _scrollable(render_code: Callable[..., str]) -> Callable[..., str]:
    """The rule for code, which the keyboard can scroll then."""
    return lambda *given: render_code(*given).replace("<pre>", '<pre tabindex="0">', 1)


def _name_header(opening: Token, content: Token, closing: Token) -> None:
    """A column's header without words is no header; its formulas have a name, which is all that some readers know."""
    if not content.children:
        opening.tag = closing.tag = "td"
    for child in content.children or []:
        if child.type == "formula":
            child.meta["name"] = child.content


def _inline_formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "$":
        return False
    found = _INLINE.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = found[1]
    state.pos = found.end()
    return True


def _formula_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """From a line that begins with two dollars to one that ends with two."""

    def line(number: int) -> str:
        return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()

    if not line(start).startswith("$$"):
        return False
    last = next((number for number in range(start, end) if line(number).removeprefix("$$").endswith("$$")), None)
    if last is None:
        return False
    if not silent:
        token = state.push("formula_block", "", 0)
        token.content = " ".join(line(number) for number in range(start, last + 1)).strip("$ ")
        token.map = [start, last + 1]
        state.line = last + 1
    return True


def _render_formula(_renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    formula, name = convert(tokens[place].content.strip()), tokens[place].meta.get("name")
    return formula if name is None else f'<span role="img" aria-label="{escape(name)}">{formula}</span>'


def _render_formula_block(_renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    return f'<div class="scroll formula" tabindex="0">{convert(tokens[place].content.strip(), display="block")}</div>\n'


def _open_table(*_: Any) -> str:
    return '<div class="scroll" tabindex="0"><table>\n'


def _close_table(*_: Any) -> str:
    return "</table></div>\n"


def _plain(tokens: Sequence[Token]) -> str:
    return "".join(token.content for token in tokens if token.type in {"text", "code_inline", "formula"})


def _address(target: str) -> str:
    """Of a link: to another page it stays as it is, without `.md`."""
    if "://" in target:
        return target
    return re.sub(r"\.md(?=#|$)", "", target)
