"""ServiceAccounts: secret references are reduced to their names."""

from tinykube.server.json_access import get_list
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition, Request, Strategy
from tinykube.server.registry.printing import AGE, NAME


class _ServiceAccountStrategy(Strategy):
    """Secret references are reduced to their names."""

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        if "secrets" in obj:
            obj["secrets"] = [
                {"name": secret["name"]} if secret.get("name") else {} for secret in get_list(obj, "secrets")
            ]

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        self.prepare_for_create(request, obj)


SERVICE_ACCOUNTS = Definition(
    group="",
    version="v1",
    plural="serviceaccounts",
    kind="ServiceAccount",
    singular="serviceaccount",
    namespaced=True,
    short_names=("sa",),
    strategy=_ServiceAccountStrategy(),
    columns=(NAME, AGE),
    returns_object_on_delete=True,
)
