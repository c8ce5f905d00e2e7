"""Names generated from ``generateName``."""

import random
import re

from aiokube.api.names import SUFFIX_ALPHABET, generated_name, name_suffix


def test_a_name_suffix_has_five_characters_without_vowels_or_look_alikes() -> None:
    rng = random.Random(1)
    suffixes = {name_suffix(rng) for _ in range(200)}
    assert all(re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{5}", one) for one in suffixes)
    assert set("".join(suffixes)) == set(SUFFIX_ALPHABET)


def test_a_generated_name_has_at_most_63_characters() -> None:
    rng = random.Random(1)
    assert re.fullmatch(r"web-\w{5}", generated_name("web-", rng))
    assert re.fullmatch(r"x{58}\w{5}", generated_name("x" * 70, rng))


def test_the_name_depends_only_on_the_random_source() -> None:
    assert generated_name("web-", random.Random(7)) == generated_name("web-", random.Random(7))
