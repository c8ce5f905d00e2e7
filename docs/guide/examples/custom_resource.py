"""Define a type for a custom resource, with only the fields that the controller reads."""

import msgspec

import aiokube


class BackupSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The schedule of a backup."""

    schedule: str = ""


class Backup(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A custom resource: the fields that this controller uses."""

    metadata: aiokube.ObjectMeta
    spec: BackupSpec = BackupSpec()


BACKUPS = aiokube.Resource[Backup](
    group="example.com", version="v1", plural="backups", kind="Backup", wire=Backup
)
