"""Changes that are made in two steps, without a script: a page that says what will happen, and the button on it.

A change without anything to fill in begins with that page, one with fields with a form. The fields of the form travel
on through the page that confirms them, hidden.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response

from prudent.dashboard.forms import AGAIN, CONFIRMED, MORE, REFUSALS, Field, Form, Values, read_own_form, refused
from prudent.dashboard.rendering import Pages, page, see
from prudent.dashboard.rules import Rule
from prudent.security.sessions import Sessions


@dataclass(frozen=True)
class Question:
    """What is asked before something is done. button: what is pressed to do it; facts: what it will be like."""

    title: str
    text: Sequence[str]
    button: str
    facts: Sequence[Rule] = ()
    is_grave: bool = False


@dataclass(frozen=True)
class Step:
    """A change that somebody is about to make.

    back: the page that it belongs to. ask: checks what was filled in, and says what it means; do: makes the change, and
    gives the page to see next; both raise `REFUSALS`. title, text, fields, values: of its form, if it has one.
    template: of a form that is not a list of fields; names: of the fields in it that an error may belong to; settings:
    of those, what is seldom needed, by headline.
    tidied: what was filled in, as it is shown again.
    """

    back: str
    ask: Callable[[Values], Question]
    do: Callable[[Values], Awaitable[Response]]
    title: str = ""
    text: Sequence[str] = ()
    fields: Sequence[Field] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    template: str = "ask.html"
    names: Sequence[str] = ()
    settings: Mapping[str, Sequence[Field]] = field(default_factory=dict)
    tidied: Callable[[Values], Values] = dict

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the fields; none without a form."""
        return self.names or [one.name for one in self.fields]


MakeStep = Callable[..., Awaitable[Step]]


class Confirmations:
    """Adds changes to a router."""

    def __init__(self, router: APIRouter, pages: Pages, sessions: Sessions) -> None:
        self._router, self._pages, self._sessions = router, pages, sessions

    def add(self, path: str) -> Callable[[MakeStep], MakeStep]:
        """Have a function make the change at this path. It takes the request and the parameters of the path."""

        def register(make: MakeStep) -> MakeStep:
            @page(self._router, self._pages, path)
            async def show(request: Request) -> Response:
                change = await make(request, **request.path_params)
                if change.inputs:
                    return self._form(request, change, Form(change.values))
                return self._question(request, change, change.ask({}), {})

            @page(self._router, self._pages, path, "POST")
            async def send(request: Request) -> Response:
                sent = await read_own_form(request, self._sessions)
                change = await make(request, **request.path_params)
                values = change.tidied(sent)
                if AGAIN in values or MORE in values:
                    return self._form(request, change, Form(values))
                try:
                    if CONFIRMED in values:
                        return await change.do(values)
                    question = change.ask(values)
                except REFUSALS as error:
                    if not change.inputs:
                        raise
                    form, status = refused(values, error, change.inputs)
                    return self._form(request, change, form, status)
                return self._question(request, change, question, values)

            return make

        return register

    def _form(self, request: Request, change: Step, form: Form, status: int = 200) -> Response:
        return self._pages.render(request, change.template, status, change=change, form=form)

    def _question(self, request: Request, change: Step, question: Question, values: Values) -> Response:
        return self._pages.render(
            request,
            "confirm.html",
            question=question,
            back=change.back,
            has_form=bool(change.inputs),
            values={name: value for name, value in values.items() if name not in (CONFIRMED, AGAIN, MORE)},
        )


def seen(location: str) -> Response:
    """The page to see after a change, which says what was changed."""
    return see(f"{location}?changed=1")
