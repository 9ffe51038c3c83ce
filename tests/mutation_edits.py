"""Edits of a syntax tree that put a fault into one definition, and what a mutation is."""

import ast
from collections.abc import Callable
from dataclasses import dataclass

Edit = Callable[[ast.AST], ast.AST | None]
"""What takes the place of a node; None leaves it as it is."""


def drop_call(name: str) -> Edit:
    """Leave out a statement that does nothing but make this call."""

    def edit(node: ast.AST) -> ast.AST | None:
        return ast.Pass() if isinstance(node, ast.Expr) and _called(node.value) == name else None

    return edit


def drop_raise(name: str) -> Edit:
    """Carry on where this exception would be raised."""

    def edit(node: ast.AST) -> ast.AST | None:
        return ast.Pass() if isinstance(node, ast.Raise) and node.exc and _called(node.exc) == name else None

    return edit


def drop_try(handled: str) -> Edit:
    """Leave out a statement that tries something whose failure has this name."""

    def edit(node: ast.AST) -> ast.AST | None:
        is_it = isinstance(node, ast.Try) and any(
            one.type and ast.unparse(one.type) == handled for one in node.handlers
        )
        return ast.Pass() if is_it else None

    return edit


def drop_element(holds: str) -> Edit:
    """Leave out the one element of a tuple, or argument of a call, that is this expression."""

    def edit(node: ast.AST) -> ast.AST | None:
        elements = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
        kept = [element for element in elements if ast.unparse(element) != holds]
        if len(kept) == len(elements):
            return None
        if isinstance(node, ast.Call):
            return ast.Call(node.func, kept, node.keywords)
        return ast.Tuple(kept, ast.Load())

    return edit


def skip_branch(test: str) -> Edit:
    """Never enter the `if` whose condition is this expression."""

    def edit(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == test:
            return ast.If(ast.Constant(value=False), node.body, node.orelse)
        return None

    return edit


def drop_condition(part: str) -> Edit:
    """Hold one part of an `and` for true."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.And):
            return None
        kept = [value for value in node.values if ast.unparse(value) != part]
        return None if len(kept) == len(node.values) else ast.BoolOp(node.op, [*kept, ast.Constant(value=True)])

    return edit


def unwrap(method: str) -> Edit:
    """Leave out the call of a method that returns a variant of its object."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != method:
            return None
        return node.func.value

    return edit


def call_instead(old: str, new: str) -> Edit:
    """Call another function with the same arguments."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or _called(node) != old:
            return None
        return ast.Call(ast.parse(new, mode="eval").body, node.args, node.keywords)

    return edit


def replace(old: str, new: str) -> Edit:
    """Put one expression in the place of another."""

    def edit(node: ast.AST) -> ast.AST | None:
        is_old = isinstance(node, ast.expr) and ast.unparse(node) == old
        return ast.parse(new, mode="eval").body if is_old else None

    return edit


@dataclass(frozen=True)
class Mutation:
    """A fault, and the test that must notice it. place: a module and a function, method or variable in it."""

    name: str
    place: str
    edit: Edit
    test: str


def _called(node: ast.AST) -> str | None:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else None
