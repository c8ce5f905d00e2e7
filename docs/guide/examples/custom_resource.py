"""A type of one's own: a custom resource, as far as a controller reads it."""

import msgspec

import aiokube


class BackupSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What to back up, and how often."""

    schedule: str = ""


class Backup(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A custom resource: the fields that this controller uses."""

    metadata: aiokube.ObjectMeta
    spec: BackupSpec = BackupSpec()


BACKUPS = aiokube.Resource[Backup](
    group="example.com", version="v1", plural="backups", kind="Backup", wire=Backup
)
