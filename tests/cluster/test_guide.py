"""The guide's controller on a real control plane, with its caches, Events and permissions."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from aiokube import (
    CONFIG_MAPS,
    EVENTS,
    Client,
    NotFoundError,
    ObjectKey,
    SystemClock,
    load_config,
    run_controllers,
)
from docs.guide.examples import welcome
from tinykube.testing.control_plane import ControlPlane

USER = "welcome-controller"
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: welcome-controller}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch, patch, create, delete]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
"""
BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: welcome-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: welcome-controller}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: welcome-controller}]
"""


@asynccontextmanager
async def running(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Run the controller with the permissions named in the guide; yields an admin client."""
    config = load_config(control_plane.kubeconfig_for(USER), clock=SystemClock())
    stop = asyncio.Event()
    async with (
        Client.from_config(config, clock=SystemClock()) as its_own,
        Client.from_config(control_plane.client_config(), clock=SystemClock()) as admin,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(run_controllers(its_own, welcome.welcome, stop=stop))
        yield admin
        stop.set()


async def text_in(client: Client, namespace: str) -> str | None:
    try:
        found = await client.get(CONFIG_MAPS, ObjectKey(namespace, "welcome"))
    except NotFoundError:
        return None
    return (found.data or {}).get("text")


async def until(is_so: Callable[[str | None], bool], client: Client, namespace: str) -> None:
    clock = SystemClock()
    async with asyncio.timeout(20.0):
        while not is_so(await text_in(client, namespace)):
            await clock.sleep(0.02)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    name = f"welcome-{random.SystemRandom().randrange(10**8)}"
    control_plane.kubectl("create", "namespace", name)
    return name


async def test_the_controller_of_the_guide_works_as_described(
    control_plane: ControlPlane, namespace: str
) -> None:
    for document in (ROLE, BINDING):
        control_plane.kubectl("apply", "-f", "-", document=document)
    control_plane.kubectl("label", "namespace", namespace, f"{welcome.LABEL}=hello")
    async with running(control_plane) as client:
        await until(lambda text: text == "hello", client, namespace)
        control_plane.kubectl("label", "namespace", namespace, "--overwrite", f"{welcome.LABEL}=good-evening")
        await until(lambda text: text == "good-evening", client, namespace)
        control_plane.kubectl("-n", namespace, "delete", "configmap", "welcome")
        await until(lambda text: text == "good-evening", client, namespace)
        control_plane.kubectl("label", "namespace", namespace, f"{welcome.LABEL}-")
        await until(lambda text: text is None, client, namespace)
    async with Client.from_config(control_plane.client_config(), clock=SystemClock()) as client:
        events = (await client.list_page(EVENTS, namespace="default")).items
    told = [each for each in events if each.involved_object.name == namespace]
    assert {event.message for event in told} == {"It says 'hello'", "It says 'good-evening'"}
    assert {(event.reason, event.reporting_component) for event in told} == {("Welcomed", "welcome")}
