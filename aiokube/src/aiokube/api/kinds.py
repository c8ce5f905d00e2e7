"""The usual kinds with all their fields, as of Kubernetes 1.36. Written by scripts/generate_kinds.py; do not edit.

A field has the API's name in snake_case (``pod.status.pod_ips``). Numbers, texts and flags that are absent are zero, as in
Go; lists, maps and what may be absent in Go are None. Times and quantities are texts, binary values are ``bytes``.

Objects are for reading, creating and server-side apply. They are not declared complete, as a newer server has more
fields: an update is refused. A pod takes about ten kilobytes: a controller that caches very many objects, and reads few
of their fields, describes those fields in a type of its own.
"""

# ruff: noqa: D101 - the API reference of Kubernetes describes them

import msgspec

from aiokube.api.meta import ObjectMeta, ObjectReference
from aiokube.api.resource import Resource
from aiokube.api.selectors import LabelSelector


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What all types here have in common."""


class HostPathVolumeSource(_Part, frozen=True):
    path: str = ""
    type: str | None = None


class EmptyDirVolumeSource(_Part, frozen=True):
    medium: str = ""
    size_limit: str | None = None


class GCEPersistentDiskVolumeSource(_Part, frozen=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(_Part, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class GitRepoVolumeSource(_Part, frozen=True):
    repository: str = ""
    revision: str = ""
    directory: str = ""


class KeyToPath(_Part, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class SecretVolumeSource(_Part, frozen=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class NFSVolumeSource(_Part, frozen=True):
    server: str = ""
    path: str = ""
    read_only: bool = False


class LocalObjectReference(_Part, frozen=True):
    name: str = ""


class ISCSIVolumeSource(_Part, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool = False
    portals: tuple[str, ...] | None = None
    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None


class GlusterfsVolumeSource(_Part, frozen=True):
    endpoints: str = ""
    path: str = ""
    read_only: bool = False


class PersistentVolumeClaimVolumeSource(_Part, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class RBDVolumeSource(_Part, frozen=True):
    monitors: tuple[str, ...] | None = None
    image: str = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool = False


class FlexVolumeSource(_Part, frozen=True):
    driver: str = ""
    fs_type: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool = False
    options: dict[str, str] | None = None


class CinderVolumeSource(_Part, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class CephFSVolumeSource(_Part, frozen=True):
    monitors: tuple[str, ...] | None = None
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool = False


class FlockerVolumeSource(_Part, frozen=True):
    dataset_name: str = ""
    dataset_uuid: str = msgspec.field(default="", name="datasetUUID")


class ObjectFieldSelector(_Part, frozen=True):
    api_version: str = ""
    field_path: str = ""


class ResourceFieldSelector(_Part, frozen=True):
    container_name: str = ""
    resource: str = ""
    divisor: str | None = None


class DownwardAPIVolumeFile(_Part, frozen=True):
    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(_Part, frozen=True):
    items: tuple[DownwardAPIVolumeFile, ...] | None = None
    default_mode: int | None = None


class FCVolumeSource(_Part, frozen=True):
    target_wwns: tuple[str, ...] | None = msgspec.field(default=None, name="targetWWNs")
    lun: int | None = None
    fs_type: str = ""
    read_only: bool = False
    wwids: tuple[str, ...] | None = None


class AzureFileVolumeSource(_Part, frozen=True):
    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False


class ConfigMapVolumeSource(_Part, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class VsphereVirtualDiskVolumeSource(_Part, frozen=True):
    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = msgspec.field(default="", name="storagePolicyID")


class QuobyteVolumeSource(_Part, frozen=True):
    registry: str = ""
    volume: str = ""
    read_only: bool = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class AzureDiskVolumeSource(_Part, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class PhotonPersistentDiskVolumeSource(_Part, frozen=True):
    pd_id: str = msgspec.field(default="", name="pdID")
    fs_type: str = ""


class SecretProjection(_Part, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] | None = None
    optional: bool | None = None


class DownwardAPIProjection(_Part, frozen=True):
    items: tuple[DownwardAPIVolumeFile, ...] | None = None


class ConfigMapProjection(_Part, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] | None = None
    optional: bool | None = None


class ServiceAccountTokenProjection(_Part, frozen=True):
    audience: str = ""
    expiration_seconds: int | None = None
    path: str = ""


class ClusterTrustBundleProjection(_Part, frozen=True):
    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: str = ""


class PodCertificateProjection(_Part, frozen=True):
    signer_name: str = ""
    key_type: str = ""
    max_expiration_seconds: int | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: dict[str, str] | None = None


class VolumeProjection(_Part, frozen=True):
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(default=None, name="downwardAPI")
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(_Part, frozen=True):
    sources: tuple[VolumeProjection, ...] | None = None
    default_mode: int | None = None


class PortworxVolumeSource(_Part, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class ScaleIOVolumeSource(_Part, frozen=True):
    gateway: str = ""
    system: str = ""
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: bool = False
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    volume_name: str = ""
    fs_type: str = ""
    read_only: bool = False


class StorageOSVolumeSource(_Part, frozen=True):
    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class CSIVolumeSource(_Part, frozen=True):
    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    node_publish_secret_ref: LocalObjectReference | None = None


class VolumeResourceRequirements(_Part, frozen=True):
    limits: dict[str, str] | None = None
    requests: dict[str, str] | None = None


class TypedLocalObjectReference(_Part, frozen=True):
    api_group: str | None = None
    kind: str = ""
    name: str = ""


class TypedObjectReference(_Part, frozen=True):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class PersistentVolumeClaimSpec(_Part, frozen=True):
    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(_Part, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(_Part, frozen=True):
    reference: str = ""
    pull_policy: str = ""


class Volume(_Part, frozen=True):
    name: str = ""
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(default=None, name="downwardAPI")
    fc: FCVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = msgspec.field(default=None, name="scaleIO")
    storageos: StorageOSVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None


class ContainerPort(_Part, frozen=True):
    name: str = ""
    host_port: int = 0
    container_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class ConfigMapEnvSource(_Part, frozen=True):
    name: str = ""
    optional: bool | None = None


class SecretEnvSource(_Part, frozen=True):
    name: str = ""
    optional: bool | None = None


class EnvFromSource(_Part, frozen=True):
    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ConfigMapKeySelector(_Part, frozen=True):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class SecretKeySelector(_Part, frozen=True):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class FileKeySelector(_Part, frozen=True):
    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(_Part, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(_Part, frozen=True):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ResourceClaim(_Part, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(_Part, frozen=True):
    limits: dict[str, str] | None = None
    requests: dict[str, str] | None = None
    claims: tuple[ResourceClaim, ...] | None = None


class ContainerResizePolicy(_Part, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class ContainerRestartRuleOnExitCodes(_Part, frozen=True):
    operator: str = ""
    values: tuple[int, ...] | None = None


class ContainerRestartRule(_Part, frozen=True):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(_Part, frozen=True):
    name: str = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_path: str = ""
    sub_path: str = ""
    mount_propagation: str | None = None
    sub_path_expr: str = ""


class VolumeDevice(_Part, frozen=True):
    name: str = ""
    device_path: str = ""


class ExecAction(_Part, frozen=True):
    command: tuple[str, ...] | None = None


class HTTPHeader(_Part, frozen=True):
    name: str = ""
    value: str = ""


class HTTPGetAction(_Part, frozen=True):
    path: str = ""
    port: int | str | None = None
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] | None = None


class TCPSocketAction(_Part, frozen=True):
    port: int | str | None = None
    host: str = ""


class GRPCAction(_Part, frozen=True):
    port: int = 0
    service: str | None = None


class Probe(_Part, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    failure_threshold: int = 0
    termination_grace_period_seconds: int | None = None


class SleepAction(_Part, frozen=True):
    seconds: int = 0


class LifecycleHandler(_Part, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(_Part, frozen=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Capabilities(_Part, frozen=True):
    add: tuple[str, ...] | None = None
    drop: tuple[str, ...] | None = None


class SELinuxOptions(_Part, frozen=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class WindowsSecurityContextOptions(_Part, frozen=True):
    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None


class SeccompProfile(_Part, frozen=True):
    type: str = ""
    localhost_profile: str | None = None


class AppArmorProfile(_Part, frozen=True):
    type: str = ""
    localhost_profile: str | None = None


class SecurityContext(_Part, frozen=True):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class Container(_Part, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] | None = None
    env_from: tuple[EnvFromSource, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    volume_devices: tuple[VolumeDevice, ...] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(_Part, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] | None = None
    env_from: tuple[EnvFromSource, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    volume_devices: tuple[VolumeDevice, ...] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    target_container_name: str = ""


class Sysctl(_Part, frozen=True):
    name: str = ""
    value: str = ""


class PodSecurityContext(_Part, frozen=True):
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] | None = None
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: tuple[Sysctl, ...] | None = None
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None


class NodeSelectorRequirement(_Part, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(_Part, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(_Part, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(_Part, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(_Part, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] | None = None


class PodAffinityTerm(_Part, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(_Part, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(_Part, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] | None = None


class PodAntiAffinity(_Part, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] | None = None


class Affinity(_Part, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(_Part, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class HostAlias(_Part, frozen=True):
    ip: str = ""
    hostnames: tuple[str, ...] | None = None


class PodDNSConfigOption(_Part, frozen=True):
    name: str = ""
    value: str | None = None


class PodDNSConfig(_Part, frozen=True):
    nameservers: tuple[str, ...] | None = None
    searches: tuple[str, ...] | None = None
    options: tuple[PodDNSConfigOption, ...] | None = None


class PodReadinessGate(_Part, frozen=True):
    condition_type: str = ""


class TopologySpreadConstraint(_Part, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class PodOS(_Part, frozen=True):
    name: str = ""


class PodSchedulingGate(_Part, frozen=True):
    name: str = ""


class PodResourceClaim(_Part, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(_Part, frozen=True):
    pod_group_name: str | None = None


class PodSpec(_Part, frozen=True):
    volumes: tuple[Volume, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    node_selector: dict[str, str] | None = None
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] | None = None
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] | None = None
    host_aliases: tuple[HostAlias, ...] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: dict[str, str] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    set_hostname_as_fqdn: bool | None = msgspec.field(default=None, name="setHostnameAsFQDN")
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodCondition(_Part, frozen=True):
    type: str = ""
    observed_generation: int = 0
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class HostIP(_Part, frozen=True):
    ip: str = ""


class PodIP(_Part, frozen=True):
    ip: str = ""


class ContainerStateWaiting(_Part, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(_Part, frozen=True):
    started_at: str | None = None


class ContainerStateTerminated(_Part, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(_Part, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ImageVolumeStatus(_Part, frozen=True):
    image_ref: str = ""


class VolumeStatus(_Part, frozen=True):
    image: ImageVolumeStatus | None = None


class VolumeMountStatus(_Part, frozen=True):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    volume_status: VolumeStatus | None = None


class LinuxContainerUser(_Part, frozen=True):
    uid: int = 0
    gid: int = 0
    supplemental_groups: tuple[int, ...] | None = None


class ContainerUser(_Part, frozen=True):
    linux: LinuxContainerUser | None = None


class ResourceHealth(_Part, frozen=True):
    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = ""
    message: str | None = None


class ResourceStatus(_Part, frozen=True):
    name: str = ""
    resources: tuple[ResourceHealth, ...] | None = None


class ContainerStatus(_Part, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    started: bool | None = None
    allocated_resources: dict[str, str] | None = None
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] | None = None
    user: ContainerUser | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] | None = None
    stop_signal: str | None = None


class PodResourceClaimStatus(_Part, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(_Part, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(_Part, frozen=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] | None = None
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(_Part, frozen=True):
    resource_claim_name: str = ""
    containers: tuple[str, ...] | None = None
    resources: dict[str, str] | None = None


class PodStatus(_Part, frozen=True):
    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    host_ips: tuple[HostIP, ...] | None = msgspec.field(default=None, name="hostIPs")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] | None = msgspec.field(default=None, name="podIPs")
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    qos_class: str = ""
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: dict[str, str] | None = None
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] | None = None


class Pod(_Part, frozen=True):
    """Pod (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ServicePort(_Part, frozen=True):
    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str | None = None
    node_port: int = 0


class ClientIPConfig(_Part, frozen=True):
    timeout_seconds: int | None = None


class SessionAffinityConfig(_Part, frozen=True):
    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(_Part, frozen=True):
    ports: tuple[ServicePort, ...] | None = None
    selector: dict[str, str] | None = None
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] | None = msgspec.field(default=None, name="clusterIPs")
    type: str = ""
    external_ips: tuple[str, ...] | None = msgspec.field(default=None, name="externalIPs")
    session_affinity: str = ""
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] | None = None
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    publish_not_ready_addresses: bool = False
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: tuple[str, ...] | None = None
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None
    traffic_distribution: str | None = None


class PortStatus(_Part, frozen=True):
    port: int = 0
    protocol: str = ""
    error: str | None = None


class LoadBalancerIngress(_Part, frozen=True):
    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] | None = None


class LoadBalancerStatus(_Part, frozen=True):
    ingress: tuple[LoadBalancerIngress, ...] | None = None


class Condition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ServiceStatus(_Part, frozen=True):
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: tuple[Condition, ...] | None = None


class Service(_Part, frozen=True):
    """Service (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class NamespaceSpec(_Part, frozen=True):
    finalizers: tuple[str, ...] | None = None


class NamespaceCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(_Part, frozen=True):
    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] | None = None


class Namespace(_Part, frozen=True):
    """Namespace (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class Taint(_Part, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class ConfigMapNodeConfigSource(_Part, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    kubelet_config_key: str = ""


class NodeConfigSource(_Part, frozen=True):
    config_map: ConfigMapNodeConfigSource | None = None


class NodeSpec(_Part, frozen=True):
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] | None = msgspec.field(default=None, name="podCIDRs")
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None
    config_source: NodeConfigSource | None = None
    external_id: str = msgspec.field(default="", name="externalID")


class NodeCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(_Part, frozen=True):
    type: str = ""
    address: str = ""


class DaemonEndpoint(_Part, frozen=True):
    port: int = msgspec.field(default=0, name="Port")


class NodeDaemonEndpoints(_Part, frozen=True):
    kubelet_endpoint: DaemonEndpoint = DaemonEndpoint()


class NodeSwapStatus(_Part, frozen=True):
    capacity: int | None = None


class NodeSystemInfo(_Part, frozen=True):
    machine_id: str = msgspec.field(default="", name="machineID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""
    swap: NodeSwapStatus | None = None


class ContainerImage(_Part, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class AttachedVolume(_Part, frozen=True):
    name: str = ""
    device_path: str = ""


class NodeConfigStatus(_Part, frozen=True):
    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    last_known_good: NodeConfigSource | None = None
    error: str = ""


class NodeRuntimeHandlerFeatures(_Part, frozen=True):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(_Part, frozen=True):
    name: str = ""
    features: NodeRuntimeHandlerFeatures | None = None


class NodeFeatures(_Part, frozen=True):
    supplemental_groups_policy: bool | None = None


class NodeStatus(_Part, frozen=True):
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    phase: str = ""
    conditions: tuple[NodeCondition, ...] | None = None
    addresses: tuple[NodeAddress, ...] | None = None
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[ContainerImage, ...] | None = None
    volumes_in_use: tuple[str, ...] | None = None
    volumes_attached: tuple[AttachedVolume, ...] | None = None
    config: NodeConfigStatus | None = None
    runtime_handlers: tuple[NodeRuntimeHandler, ...] | None = None
    features: NodeFeatures | None = None
    declared_features: tuple[str, ...] | None = None


class Node(_Part, frozen=True):
    """Node (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ServiceAccount(_Part, frozen=True):
    """ServiceAccount (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    secrets: tuple[ObjectReference, ...] | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] | None = None
    automount_service_account_token: bool | None = None


class PersistentVolumeClaimCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ModifyVolumeStatus(_Part, frozen=True):
    target_volume_attributes_class_name: str = ""
    status: str = ""


class PersistentVolumeClaimStatus(_Part, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] | None = None
    capacity: dict[str, str] | None = None
    conditions: tuple[PersistentVolumeClaimCondition, ...] | None = None
    allocated_resources: dict[str, str] | None = None
    allocated_resource_statuses: dict[str, str] | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(_Part, frozen=True):
    """PersistentVolumeClaim (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class PodTemplateSpec(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class RollingUpdateDeployment(_Part, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(_Part, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(_Part, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class DeploymentStatus(_Part, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] | None = None
    collision_count: int | None = None


class Deployment(_Part, frozen=True):
    """Deployment (apps/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(_Part, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ReplicaSetStatus(_Part, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ReplicaSetCondition, ...] | None = None


class ReplicaSet(_Part, frozen=True):
    """ReplicaSet (apps/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateStatefulSetStrategy(_Part, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None


class StatefulSetUpdateStrategy(_Part, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(_Part, frozen=True):
    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetOrdinals(_Part, frozen=True):
    start: int = 0


class StatefulSetSpec(_Part, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] | None = None
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class StatefulSetStatus(_Part, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[StatefulSetCondition, ...] | None = None
    available_replicas: int = 0


class StatefulSet(_Part, frozen=True):
    """StatefulSet (apps/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(_Part, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DaemonSetUpdateStrategy(_Part, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(_Part, frozen=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class DaemonSetStatus(_Part, frozen=True):
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[DaemonSetCondition, ...] | None = None


class DaemonSet(_Part, frozen=True):
    """DaemonSet (apps/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class PodFailurePolicyOnExitCodesRequirement(_Part, frozen=True):
    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] | None = None


class PodFailurePolicyOnPodConditionsPattern(_Part, frozen=True):
    type: str = ""
    status: str = ""


class PodFailurePolicyRule(_Part, frozen=True):
    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] | None = None


class PodFailurePolicy(_Part, frozen=True):
    rules: tuple[PodFailurePolicyRule, ...] | None = None


class SuccessPolicyRule(_Part, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(_Part, frozen=True):
    rules: tuple[SuccessPolicyRule, ...] | None = None


class JobSpec(_Part, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class UncountedTerminatedPods(_Part, frozen=True):
    succeeded: tuple[str, ...] | None = None
    failed: tuple[str, ...] | None = None


class JobStatus(_Part, frozen=True):
    conditions: tuple[JobCondition, ...] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(_Part, frozen=True):
    """Job (batch/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(_Part, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(_Part, frozen=True):
    active: tuple[ObjectReference, ...] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(_Part, frozen=True):
    """CronJob (batch/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


PODS: Resource[Pod] = Resource(group="", version="v1", plural="pods", kind="Pod", wire=Pod)
SERVICES: Resource[Service] = Resource(
    group="", version="v1", plural="services", kind="Service", wire=Service
)
NAMESPACES: Resource[Namespace] = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", wire=Namespace, namespaced=False
)
NODES: Resource[Node] = Resource(
    group="", version="v1", plural="nodes", kind="Node", wire=Node, namespaced=False
)
SERVICE_ACCOUNTS: Resource[ServiceAccount] = Resource(
    group="", version="v1", plural="serviceaccounts", kind="ServiceAccount", wire=ServiceAccount
)
PERSISTENT_VOLUME_CLAIMS: Resource[PersistentVolumeClaim] = Resource(
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    wire=PersistentVolumeClaim,
)
DEPLOYMENTS: Resource[Deployment] = Resource(
    group="apps", version="v1", plural="deployments", kind="Deployment", wire=Deployment
)
REPLICA_SETS: Resource[ReplicaSet] = Resource(
    group="apps", version="v1", plural="replicasets", kind="ReplicaSet", wire=ReplicaSet
)
STATEFUL_SETS: Resource[StatefulSet] = Resource(
    group="apps", version="v1", plural="statefulsets", kind="StatefulSet", wire=StatefulSet
)
DAEMON_SETS: Resource[DaemonSet] = Resource(
    group="apps", version="v1", plural="daemonsets", kind="DaemonSet", wire=DaemonSet
)
JOBS: Resource[Job] = Resource(group="batch", version="v1", plural="jobs", kind="Job", wire=Job)
CRON_JOBS: Resource[CronJob] = Resource(
    group="batch", version="v1", plural="cronjobs", kind="CronJob", wire=CronJob
)
