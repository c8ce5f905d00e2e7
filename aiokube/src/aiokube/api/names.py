"""Names that an API server generates from ``metadata.generateName``."""

import random

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated suffixes: no vowels, which could spell words, and no look-alikes."""
SUFFIX_LENGTH = 5
_LONGEST_NAME = 63


def name_suffix(rng: random.Random) -> str:
    """Return a random suffix of five characters."""
    return "".join(rng.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))


def generated_name(base: str, rng: random.Random) -> str:
    """Return a name of at most 63 characters: the base, truncated if necessary, and a random suffix."""
    return base[: _LONGEST_NAME - SUFFIX_LENGTH] + name_suffix(rng)
