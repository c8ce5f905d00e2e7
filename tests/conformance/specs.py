"""Kubernetes' conformance specs: those that apply to tinykube, the reasons for the others, and parsing of a run's output."""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

Outcome = Literal["passed", "failed", "timed out", "skipped"]

CONTAINER = "a container has to run"
NETWORK = "traffic has to flow to a container"
WEBHOOK = "a webhook or API server in a container has to answer"

_LINE = re.compile(r"^\s*\S+:\d+: (?P<name>\[sig-.*\[Conformance\].*)$")
_RULES: tuple[tuple[str, str], ...] = (
    (r"AdmissionWebhook|CustomResourceConversionWebhook|Aggregator ", WEBHOOK),
    (r"AdmissionPolicy ", "no admission policies: the kind does not exist"),
    (r"API priority and fairness", "no FlowSchema and no PriorityLevelConfiguration"),
    (r"\[sig-auth\] Certificates API", "no CertificateSigningRequest"),
    (r"\[DRA\]|VolumeAttributesClass", "no resource.k8s.io and no VolumeAttributesClass"),
    (r"CSIStorageCapacit", "no CSIStorageCapacity"),
    (
        r"ReplicationController|created by rc|the rc around|both valid owner and owner|rc and pods|Update Demo",
        "no ReplicationController",
    ),
    (
        r"Kubectl client Kubectl (expose|patch)|Kubectl client Guestbook",
        "no ReplicationController, or " + CONTAINER,
    ),
    (r"ResourceQuota should", "no quota controller and no quota admission"),
    (r"LimitRange should create", "no LimitRange admission"),
    (r"\[sig-apps\] (Job|CronJob) (?!should support CronJob API)", "Jobs do not run"),
    (r"DisruptionController", "no disruption controller"),
    (
        r"SchedulerPreemption.*(preempt)|NoExecuteTaintManager|SchedulerPredicates.*hostPort",
        "no preemption, no taint manager, no host ports",
    ),
    (r"RuntimeClass should (reject|schedule)", "no RuntimeClass admission"),
    (r"opting out of API token automount", "no ServiceAccount admission"),
    (r"\[sig-network\] (DNS|HostPort|Networking|Proxy|Service endpoints latency)", NETWORK),
    (
        r"\[sig-network\] Services should (be able to|have session|serve)|EndpointSlice should support a Service",
        NETWORK,
    ),
    (r"kubectl.*logs|Kubectl logs|Proxy server", CONTAINER),
    (r"ServiceAccountIssuerDiscovery|mount (an API|projected)", CONTAINER),
    (
        r"should retry creating failed daemon pods|Should recreate evicted",
        "the spec writes the status of a simulated pod",
    ),
    (r"StatefulSetBasic\] (Burst|Scaling should|should perform)", "a probe is broken by exec"),
    (
        r"\[sig-storage\](?!.*(CSIDriver|csinode|be immutable|PersistentVolumes CSI|StorageClasses CSI|VolumeAttachment C|in Pod API))",
        CONTAINER,
    ),
    (
        r"\[sig-node\] (ConfigMap should be cons|Container|Downward|Image|Init|Kubelet|PreStop|Probing|Security|Variable)",
        CONTAINER,
    ),
    (
        r"\[sig-node\] (Secrets should be|Sysctls .*support|Pod InPlace|Ephemeral Containers .*start)",
        CONTAINER,
    ),
    (r"\[sig-node\] Pods should (contain env|support re)", CONTAINER),
    (r"NodeProblem|Metrics|\[sig-instrumentation\] Metrics", "no metrics"),
)


_KNOWN_FAILURES: tuple[tuple[str, str], ...] = (
    (
        r"aggregated discovery (interface|endpoint) ?(Accept headers)? \[Conf|Discovery should locate",
        "no APIService, CertificateSigningRequest, CSINode, and no autoscaling/v1",
    ),
    (
        r"original version has been compacted away",
        "a quiet server keeps its history longer than the spec waits",
    ),
    (r"PriorityClass endpoints", "has not been run since updates are validated"),
    (
        r"works for CRD without validation schema",
        "the published schema says that unknown fields are preserved",
    ),
    (r"ReplicaSet should serve a basic image", CONTAINER),
    (r"should have Endpoints and EndpointSlices pointing to API Server", "on loopback there is no endpoint"),
    (r"ServiceCIDR and IPAddress API", "both kinds are read-only, and there is no default ServiceCIDR"),
    (r"Ephemeral Containers", "no subresource ephemeralcontainers"),
    (
        r"Pod Generation (issue 500|pod generation should start)",
        "simulated pods report no observedGeneration",
    ),
    (r"activeDeadlineSeconds to be updated", "simulated pods have no deadline"),
    (r"Sysctls", "security contexts are not validated"),
    (r"validates resource limits", "the simulated scheduler does not count resources"),
    (r"lifecycle of a csinode|VolumeAttachment", "no CSINode and no VolumeAttachment"),
    (r"pv/pvc status", "the status of a PersistentVolumeClaim differs"),
)
"""Specs that are run but do not pass, with the reason."""


class Result(NamedTuple):
    """Result of one spec."""

    spec: str
    outcome: Outcome
    seconds: float
    detail: str = ""


def conformance_specs(listing: str) -> list[str]:
    """Return the conformance specs in the output of ``e2e.test -list-tests``, sorted, each once."""
    return sorted({found["name"].strip() for line in listing.splitlines() if (found := _LINE.match(line))})


def reason_left_out(spec: str) -> str:
    """Return the reason why a spec is not run; ``""`` if it is run."""
    return next((reason for pattern, reason in _RULES if re.search(pattern, spec)), "")


def known_failure(spec: str) -> str:
    """Return the reason why a spec is known to fail; ``""`` if it must pass."""
    return next((reason for pattern, reason in _KNOWN_FAILURES if re.search(pattern, spec)), "")


def is_new_failure(result: Result) -> bool:
    """Return whether a spec failed that must pass."""
    return result.outcome in ("failed", "timed out") and not known_failure(result.spec)


def outcome_of(log: str, exit_code: int | None) -> tuple[Outcome, str]:
    """Return the outcome of one spec and the first line of its failure, parsed from the program's output.

    ``exit_code`` None: it was stopped at its time limit.
    """
    failure = _failure(log)
    if exit_code is None or "A suite timeout occurred" in log:
        return "timed out", failure
    if exit_code:
        return "failed", failure
    if "1 Passed" in log:
        return "passed", ""
    return "skipped", _skip(log)


def table(results: Iterable[Result], left_out: Iterable[tuple[str, str]]) -> str:
    """Return the report: counts, each spec that did not pass, and the number of specs left out per reason."""
    results, reasons = list(results), [reason for _, reason in left_out]
    passed = sum(result.outcome == "passed" for result in results)
    lines = [
        f"{passed} of {len(results)} specs passed; {len(reasons)} of {len(results) + len(reasons)} left out",
        "",
    ]
    for result in sorted(results):
        if result.outcome != "passed":
            lines.append(f"{result.outcome:10} {result.seconds:5.0f} s  {_short(result.spec)}")
            detail = f"known: {reason}" if (reason := known_failure(result.spec)) else result.detail
            if detail:
                lines.append(f"{'':20} {detail}")
    lines += ["", "left out"]
    for reason in sorted(set(reasons), key=lambda one: (-reasons.count(one), one)):
        lines.append(f"{reasons.count(reason):5}  {reason}")
    return "\n".join(lines)


def _failure(log: str) -> str:
    found = re.search(r"^\s*\[FAILED\] (?!in \[)(.*)$", log, re.MULTILINE)
    if found is None:
        return ""
    rest = log[found.end() :].splitlines()
    more = next((line.strip() for line in rest[1:3] if line.strip()), "") if found[1].endswith(":") else ""
    return f"{found[1]} {more}".strip()[:300]


def _skip(log: str) -> str:
    found = re.search(r"^\s*\[SKIPPED\] (.*)$", log, re.MULTILINE)
    return found[1][:300] if found else "it was not run"


def _short(spec: str) -> str:
    return re.sub(r" \[(Conformance|NodeConformance|Privileged:ClusterAdmin)\]", "", spec)
