"""Test kit: virtual time, a source of objects that misbehaves on request, an in-memory server, builders."""
