"""Routes whose errors are pages, too."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from fastapi import APIRouter, Request, Response

from prudent.api.problems import BadBodyError
from prudent.dashboard.rendering import Pages
from prudent.errors import CommandError, NotFoundError, UnavailableError

Endpoint = Callable[..., Coroutine[Any, Any, Response]]


def page(router: APIRouter, pages: Pages, path: str, method: str = "GET") -> Callable[[Endpoint], Endpoint]:
    """Add a route for browsers: what goes wrong is said on a page."""

    def register(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def answer(request: Request, *args: Any, **kwargs: Any) -> Response:
            try:
                return await endpoint(request, *args, **kwargs)
            except (CommandError, UnavailableError, BadBodyError) as error:
                status, title, text = _told(error)
                return pages.render(request, "problem.html", status, title=title, text=text)

        router.add_api_route(path, answer, methods=[method])
        return answer

    return register


def sentence(error: CommandError) -> str:
    """What is wrong with a request, with the field's name where there is one."""
    field = getattr(error, "field", None)
    return error.message if field is None else f"{field}: {error.message}"


def _told(error: CommandError | UnavailableError | BadBodyError) -> tuple[int, str, str]:
    if isinstance(error, BadBodyError):
        return error.status, "Not accepted", error.detail
    if isinstance(error, UnavailableError):
        return 503, "Not available at the moment", error.message
    if isinstance(error, NotFoundError):
        return 404, "Not found", sentence(error)
    return 422, "Not possible", sentence(error)
