"""Large bodies arrive complete and unchanged, also at slow clients and on keep-alive connections."""

import asyncio
import json

from tests.unit.server.http.served import a_server

MAPS = "/api/v1/namespaces/default/configmaps"
LETTERS = "abcdefgh"


async def test_a_list_of_many_megabytes_comes_whole_and_the_connection_goes_on() -> None:
    async with a_server() as api:
        for letter in LETTERS:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": letter}}
            await api("POST", MAPS, {**body, "data": {"x": letter * 400_000}})
        async with api.session.get(MAPS) as response:
            await asyncio.sleep(0.05)  # more than all buffers hold, so the server has to pause
            text = await response.read()
        assert int(response.headers["Content-Length"]) == len(text) > 3_200_000
        found = {item["metadata"]["name"]: item["data"]["x"] for item in json.loads(text)["items"]}
        assert found == {letter: letter * 400_000 for letter in LETTERS}
        assert (await api("GET", f"{MAPS}/a")).code == 200


async def test_a_client_that_leaves_in_the_middle_harms_nobody() -> None:
    async with a_server() as api:
        for letter in LETTERS:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": letter}}
            await api("POST", MAPS, {**body, "data": {"x": letter * 900_000}})
        async with api.session.get(MAPS) as response:
            await response.content.readexactly(1_000)
            response.close()
        assert len((await api("GET", MAPS)).json()["items"]) == len(LETTERS)
