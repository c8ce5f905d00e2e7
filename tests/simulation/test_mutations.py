"""The table of mutations matches the sources."""

import ast
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_old_text_of_a_mutation_occurs_once_and_the_new_text_parses(mutation: Mutation) -> None:
    source = (ROOT / mutation.file).read_text()
    assert source.count(mutation.old) == 1
    ast.parse(source.replace(mutation.old, mutation.new))


def test_there_are_at_least_sixty_mutations_with_different_names() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 60
