"""Validation of a service's addresses and IP families, on create and update."""

from tinykube.server.errors import FieldError, duplicate, invalid_value, not_supported, required
from tinykube.server.json_access import get_list, get_str, string_list
from tinykube.server.objects import JsonObject
from tinykube.server.registry.ips import address_errors, family_of, is_dual_stack
from tinykube.server.registry.service_spec import (
    HEADLESS,
    PREFER_DUAL,
    REQUIRE_DUAL,
    SINGLE,
    is_headless,
    needs_cluster_ip,
)

_FAMILIES = ("IPv4", "IPv6")
_POLICIES = (PREFER_DUAL, REQUIRE_DUAL, SINGLE)
_IPS = "spec.clusterIPs"
_ONCE = "may not change once set"


def cluster_ip_errors(spec: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Return the errors of cluster IPs, families and policy, and of their combination."""
    if not needs_cluster_ip(spec):
        return []
    first, ips = get_str(spec, "clusterIP"), get_list(spec, "clusterIPs")
    errors: list[FieldError] = []
    if first and not ips:
        errors.append(required(_IPS))
    elif first and ips[0] != first:
        errors.append(invalid_value(_IPS, string_list(ips), "first value must match `clusterIP`"))
    elif not first and ips:
        errors.append(
            invalid_value(_IPS, string_list(ips), "must be empty when `clusterIP` is not specified")
        )
    errors += _family_errors(spec)
    wrong = _each_ip_errors(ips, old)
    errors += wrong
    if len(ips) > 2:
        errors.append(invalid_value(_IPS, string_list(ips), "may only hold up to 2 values"))
    if wrong:
        return errors
    if len(ips) > 1 and not is_dual_stack(ips):
        errors.append(
            invalid_value(_IPS, string_list(ips), "may specify no more than one IP for each IP family")
        )
    if not is_headless(spec):
        for index, (ip, family) in enumerate(zip(ips, get_list(spec, "ipFamilies"), strict=False)):
            if family in _FAMILIES and family_of(ip) != family:
                detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(invalid_value(f"{_IPS}[{index}]", ip, detail))
    return errors


def _family_errors(spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    families = get_list(spec, "ipFamilies")
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    return errors


def _each_ip_errors(ips: list[str], old: JsonObject | None) -> list[FieldError]:
    known = tuple(get_list(old, "clusterIPs")) if old is not None else ()
    errors: list[FieldError] = []
    for index, ip in enumerate(ips):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.append(
                    invalid_value(_IPS, string_list(ips), "'None' must be the first and only value")
                )
            continue
        errors += address_errors(f"{_IPS}[{index}]", ip, known)
    return errors


def update_errors(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return the errors of an update: addresses and families change only by adding or removing the second one."""
    if not needs_cluster_ip(spec) or not needs_cluster_ip(old):
        return []
    errors: list[FieldError] = []
    if not (is_headless(spec) and is_headless(old)):
        errors += _ip_update_errors(spec, old)
    if not is_headless(spec) and not is_headless(old):
        errors += _family_update_errors(spec, old)
    return errors


def _must_be_single(spec: JsonObject, what: str) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy == SINGLE:
        return []
    return [
        invalid_value(
            "spec.ipFamilyPolicy", policy, f"must be set to 'SingleStack' when releasing the secondary {what}"
        )
    ]


def _ip_update_errors(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    ips, old_ips = get_list(spec, "clusterIPs"), get_list(old, "clusterIPs")
    shown = string_list(ips)
    if len(ips) == len(old_ips):
        return [
            invalid_value(f"{_IPS}[{index}]", shown, _ONCE)
            for index, (ip, old_ip) in enumerate(zip(ips, old_ips, strict=True))
            if ip != old_ip
        ]
    errors: list[FieldError] = []
    if not ips:
        return [invalid_value(f"{_IPS}[0]", shown, "primary clusterIP can not be unset")]
    if old_ips and ips[0] != old_ips[0]:
        errors.append(invalid_value(f"{_IPS}[0]", shown, _ONCE))
    if len(ips) < len(old_ips) and len(ips) == 1:
        errors += _must_be_single(spec, "clusterIP")
    return errors


def _family_update_errors(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    families, old_families = get_list(spec, "ipFamilies"), get_list(old, "ipFamilies")
    field = "spec.ipFamilies[0]"
    if len(families) == len(old_families):
        return [
            invalid_value(field, string_list(families), _ONCE)
            for family, old_family in zip(families, old_families, strict=True)
            if family != old_family
        ]
    errors: list[FieldError] = []
    if families and old_families and families[0] != old_families[0]:
        errors.append(invalid_value(field, string_list(get_list(spec, "clusterIPs")), _ONCE))
    if len(families) < len(old_families) and len(families) == 1:
        errors += _must_be_single(spec, "ipFamily")
    return errors
