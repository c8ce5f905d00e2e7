"""The HTTP proxy for a server, from the environment."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from aiokube.client.errors import ConfigError


def checked_proxy(url: str, where: str) -> str:
    """Return the URL of a supported proxy. Raises ConfigError, whose message omits the password."""
    try:
        parts = urlsplit(url)
        is_good = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(f"the proxy of {where} is not a URL like http://host:port: fix it")
    if parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy of {where} uses {parts.scheme}: only http and https proxies are supported, "
            "put one of these in front"
        )
    return url


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy URL for a server from HTTPS_PROXY and NO_PROXY, ``""`` for none.

    HTTP_PROXY is for http servers. The rules are those of Go: upper or lower case, never for loopback, and NO_PROXY lists hosts, domains
    (``.x`` matches subdomains only), addresses and CIDRs, each with an optional port, or is ``*``. Raises
    ConfigError.
    """
    parts = urlsplit(server)
    host = (parts.hostname or "").rstrip(".")
    variable = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(variable) or environ.get(variable.lower()) or ""
    if not proxy or _is_loopback(host):
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(rule.strip().lower(), host.lower(), port) for rule in exceptions.split(",")):
        return ""
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", f"the environment ({variable})")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(rule: str, host: str, port: int) -> bool:
    if not rule:
        return False
    if rule == "*":
        return True
    address = _address(host)
    if "/" in rule:
        try:
            return address is not None and address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    name, separator, wanted_port = rule.rpartition(":")
    if separator and wanted_port.isdecimal() and (":" not in name or name.startswith("[")):
        if int(wanted_port) != port:
            return False
        rule = name
    rule = rule.strip("[]")
    if address is not None:
        return _address(rule) == address
    if rule.startswith("*."):
        rule = rule[1:]
    if rule.startswith("."):
        return host.endswith(rule)
    return host == rule or host.endswith(f".{rule}")
