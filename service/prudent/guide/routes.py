"""``/guide``: the documentation's pages, the files beside them and a search, open to everybody."""

import asyncio
from importlib.metadata import version
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from prudent.api.assets import Asset, Assets
from prudent.api.problems import problem, respond
from prudent.guide.library import Library

STATIC = Path(__file__).parent / "static"
QUERY_LENGTH_MAX = 200
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


def guide_routes(library: Library, icon: str) -> APIRouter:
    """The routes. A page is rendered on a thread, once, and kept. icon: its address, without a prefix."""
    router = APIRouter(include_in_schema=False)
    assets = Assets("/guide/static", sorted(STATIC.iterdir()))
    templates = Environment(
        loader=PackageLoader("prudent.guide"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.globals.update(
        style=assets.address("guide.css"), icon=icon, version=version("prudent"), chapters=library.chapters
    )
    kept: dict[tuple[str, str], Asset] = {}

    def found_by_name(root: str, name: str) -> Asset | None:
        return rendered(root, name) or library.file(name)

    def rendered(root: str, name: str) -> Asset | None:
        if (root, name) not in kept:
            page = library.page(name)
            if page is None:
                return None
            text = templates.get_template("page.html").render(root=root, name=name, page=page, query="")
            kept[root, name] = Asset(text.encode(), "text/html; charset=utf-8")
            kept[root, name].compressed  # noqa: B018  # on this thread, once
        return kept[root, name]

    @router.get("/guide")
    @router.get("/guide/")
    async def to_first(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/guide/index", 307)

    @router.get("/guide/static/{name}")
    async def static(name: str, request: Request) -> Response:
        return assets.respond(name, request)

    @router.get("/guide/search")
    async def search(request: Request, q: str = "") -> Response:
        query = q[:QUERY_LENGTH_MAX]
        found = await asyncio.to_thread(library.search, query)
        text = templates.get_template("search.html").render(
            root=request.scope.get("root_path", ""), name="search", query=query, found=found
        )
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    @router.get("/guide/{name:path}")
    async def page(name: str, request: Request) -> Response:
        root = request.scope.get("root_path", "")
        found = kept.get((root, name)) or await asyncio.to_thread(found_by_name, root, name)
        if found is None:
            return respond(problem(404, "there is no such page of the guide: see /guide"))
        response = found.respond(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    return router
