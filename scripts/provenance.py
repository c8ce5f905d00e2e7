"""Record the sources of a release's files: ``python scripts/provenance.py FOLDER``, after ``make dist``.

Writes ``SHA256SUMS`` and ``provenance.json``: an in-toto statement with a SLSA v1 predicate. It is not signed; docs/releasing.md
describes signing.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MATERIALS = ("requirements/run.lock", "requirements/dev.lock", "deploy/Containerfile")
_WRITTEN = ("SHA256SUMS", "provenance.json")


def sha256(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def statement(folder: Path, *, source: str, commit: str, committed_at: str) -> dict[str, Any]:
    """Return the statement on all files of a folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in _WRITTEN)
    materials = [{"uri": path, "digest": {"sha256": sha256(ROOT / path)}} for path in MATERIALS]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://packaging.python.org/specifications/pyproject-toml",
                "externalParameters": {"source": source, "command": "make dist"},
                "internalParameters": {"sourceDateEpoch": committed_at},
                "resolvedDependencies": [{"uri": source, "digest": {"gitCommit": commit}}, *materials],
            },
            "runDetails": {"builder": {"id": f"python {sys.version.split()[0]} on {sys.platform}"}},
        },
    }


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> int:
    """Describe the files of the folder; return the exit code."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: python scripts/provenance.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    if _git("status", "--porcelain", "--untracked-files=no"):
        print(
            "provenance: the work tree has changes that no commit holds; commit them first", file=sys.stderr
        )
        return 2
    made = statement(
        folder,
        source=f"git+{_git('config', '--default=.', '--get', 'remote.origin.url')}",
        commit=_git("rev-parse", "HEAD"),
        committed_at=_git("log", "-1", "--format=%ct"),
    )
    (folder / "provenance.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    sums = [f"{entry['digest']['sha256']}  {entry['name']}\n" for entry in made["subject"]]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
