"""The list of mutations stays in step with the source; `make mutations` and `make mutate` run them."""

import shutil
from pathlib import Path

import pytest

from tests.mutation_sweep import modules_of, selected_tests
from tests.mutations import MUTATIONS, Mutation, apply, file_of
from tests.servers import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_still_fits(mutation: Mutation, tmp_path: Path) -> None:
    """A mutation whose place or test is gone would protect nothing until someone next runs them all."""
    copy = tmp_path / file_of(mutation.place)
    copy.parent.mkdir(parents=True)
    shutil.copy(ROOT / file_of(mutation.place), copy)
    apply(mutation, tmp_path)
    path, _, name = mutation.test.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("module", modules_of([]), ids=str)
def test_every_swept_module_has_tests(module: Path) -> None:
    """A sweep that runs no test would report that nothing is noticed, hours later."""
    tests = ROOT / selected_tests(module)
    assert tests.is_file() or list(tests.rglob("test_*.py")), tests
