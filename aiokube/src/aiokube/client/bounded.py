"""Limits on the memory that a peer's responses can occupy."""

import asyncio

import aiohttp

from aiokube.client.chunks import abort
from aiokube.client.errors import AnswerTooLargeError

MAX_ERROR_BYTES = 1024 * 1024
"""Of an error response. The rest is not read; the status code still counts."""
MAX_OBJECT_BYTES = 16 * 1024 * 1024
"""Of a response with one object, and of one list item: ten times the limit of etcd."""
MAX_ANSWER_BYTES = 512 * 1024 * 1024
"""Of any other response, for example one page of a list."""
MAX_PLUGIN_BYTES = 1024 * 1024
"""Of the output of a credential plugin."""

_READ_BYTES = 64 * 1024


async def read_at_most(response: aiohttp.ClientResponse, limit_bytes: int) -> tuple[bytes, bool]:
    """Read the decompressed body up to a limit; return it and whether it was complete.

    The connection of an incomplete response is closed. aiohttp limits the expansion of a compressed chunk.
    """
    content = response.content
    parts: list[bytes] = []
    read_bytes = 0
    try:
        while not content.at_eof():
            part = await content.readany()
            read_bytes += len(part)
            if read_bytes > limit_bytes:
                abort(response)
                return b"".join(parts), False
            parts.append(part)
    except BaseException:
        response.close()
        raise
    return parts[0] if len(parts) == 1 else b"".join(parts), True


async def read_whole(response: aiohttp.ClientResponse, limit_bytes: int, request: str) -> bytes:
    """Read the body of a response. Raises AnswerTooLargeError beyond the limit."""
    body, is_complete = await read_at_most(response, limit_bytes)
    if not is_complete:
        raise AnswerTooLargeError(
            f"{request}: the response is larger than {limit_bytes // 2**20} MiB: is this the address of an API server?"
        )
    return body


async def output_of(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Wait for a process to exit; return its standard output and the end of its standard error.

    The last :data:`MAX_PLUGIN_BYTES` of standard error are kept. Raises ValueError if standard output
    exceeds them.
    """

    async def read_output() -> bytes:
        found = bytearray()
        while process.stdout is not None and (part := await process.stdout.read(_READ_BYTES)):
            found += part
            if len(found) > MAX_PLUGIN_BYTES:
                raise ValueError(f"it printed more than {MAX_PLUGIN_BYTES // 2**20} MiB")
        return bytes(found)

    async def read_errors() -> bytes:
        found = bytearray()
        while process.stderr is not None and (part := await process.stderr.read(_READ_BYTES)):
            found += part
            del found[:-MAX_PLUGIN_BYTES]
        return bytes(found)

    try:
        async with asyncio.TaskGroup() as group:
            output = group.create_task(read_output(), name="output of a plugin")
            errors = group.create_task(read_errors(), name="errors of a plugin")
            await process.wait()
    except* ValueError as problems:
        raise problems.exceptions[0] from None
    return output.result(), errors.result()
