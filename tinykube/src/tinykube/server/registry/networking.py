"""ServiceCIDRs and IPAddresses: the service address ranges as kube-apiserver reports them, read-only."""

from tinykube.server.json_access import get_list, get_object, get_str
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Strategy
from tinykube.server.registry.printing import AGE, NAME, NONE, column


def _parent(obj: JsonObject) -> str:
    parent = get_object(get_object(obj, "spec"), "parentRef")
    if not parent:
        return NONE
    group = get_str(parent, "group")
    resource = (get_str(parent, "resource") + (f".{group}" if group else "")).lower()
    return "/".join(
        part for part in (resource, get_str(parent, "namespace"), get_str(parent, "name")) if part
    )


SERVICE_CIDRS = Definition(
    group="networking.k8s.io",
    version="v1",
    plural="servicecidrs",
    kind="ServiceCIDR",
    singular="servicecidr",
    namespaced=False,
    verbs=("get", "list", "watch"),
    strategy=Strategy(),
    columns=(NAME, column("CIDRs", lambda obj: ",".join(get_list(get_object(obj, "spec"), "cidrs"))), AGE),
)

IP_ADDRESSES = Definition(
    group="networking.k8s.io",
    version="v1",
    plural="ipaddresses",
    kind="IPAddress",
    singular="ipaddress",
    namespaced=False,
    short_names=("ip",),
    verbs=("get", "list", "watch"),
    strategy=Strategy(),
    columns=(NAME, column("ParentRef", _parent)),
    fields=lambda obj: {
        "spec.parentRef.resource": get_str(get_object(get_object(obj, "spec"), "parentRef"), "resource")
    },
)
