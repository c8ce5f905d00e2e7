"""A controller: every namespace labelled ``example.com/welcome`` has a ConfigMap ``welcome`` with the label's text.

Run it with ``python docs/guide/examples/welcome.py``; then ``kubectl label namespace default
example.com/welcome=hello`` and ``kubectl get configmap welcome -o yaml``.
"""

import aiokube
from aiokube import CONFIG_MAPS, NAMESPACES, ConfigMap, Context, ObjectKey, ObjectMeta

LABEL = "example.com/welcome"
MANAGED = {"app.kubernetes.io/managed-by": "welcome"}
OURS = aiokube.Watch(
    CONFIG_MAPS, aiokube.owner_keys(NAMESPACES), label_selector="app.kubernetes.io/managed-by=welcome"
)


@aiokube.controller(NAMESPACES, watches=[OURS])
async def welcome(ctx: Context, key: ObjectKey) -> None:
    """Reconcile the ConfigMap of one namespace."""
    namespace = ctx.get(NAMESPACES, key)
    if namespace is None or namespace.metadata.deletion_timestamp is not None:
        return  # the ConfigMap is deleted with its namespace
    text = (namespace.metadata.labels or {}).get(LABEL)
    found = ctx.get(CONFIG_MAPS, ObjectKey(key.name, "welcome"))
    if text is None:
        if found is not None:
            await ctx.delete(CONFIG_MAPS, found)
    elif found is None or (found.data or {}).get("text") != text:
        owner = aiokube.owner_reference(NAMESPACES, namespace)
        meta = ObjectMeta(name="welcome", namespace=key.name, labels=MANAGED, owner_references=(owner,))
        await ctx.apply(CONFIG_MAPS, ConfigMap(meta, data={"text": text}))
        ctx.event(NAMESPACES, namespace, "Welcomed", f"It says {text!r}")


if __name__ == "__main__":
    aiokube.run(welcome)
