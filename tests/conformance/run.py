"""Run Kubernetes' conformance specs on the embedded server: ``make test-conformance``.

Each worker has a separate cluster (``endpointd up``: the server, simulated nodes and pods, the three controllers), and
runs one spec after another, each with a time limit. Exit code 1 if a spec fails that specs.py does not list as a known
failure.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.specs import (
    Result,
    conformance_specs,
    is_new_failure,
    outcome_of,
    reason_left_out,
    table,
)

_UP = ("up", "--speed", "10", "--nodes", "3")
_START_SECONDS = 60.0


def main() -> int:
    """Run the selected specs, print the table, and return the exit code."""
    arguments = _arguments()
    listing = subprocess.run([arguments.program, "-list-tests"], capture_output=True, text=True, check=True)
    specs = [
        spec for spec in conformance_specs(listing.stdout) if re.search(arguments.focus, spec, re.IGNORECASE)
    ]
    left_out = [(spec, reason) for spec in specs if (reason := reason_left_out(spec))]
    chosen = [spec for spec in specs if not reason_left_out(spec)]
    if arguments.list:
        print("\n".join(chosen))
        return 0
    if not chosen:
        print(f"no conformance spec matches --focus {arguments.focus!r}", file=sys.stderr)
        return 2
    logs = arguments.logs or Path(tempfile.mkdtemp(prefix="tinykube-conformance-"))
    logs.mkdir(parents=True, exist_ok=True)
    print(f"{len(chosen)} specs, {arguments.workers} at a time; logs in {logs}", flush=True)
    results = _run_all(arguments.program, chosen, logs, arguments.workers, arguments.seconds)
    report = table(results, left_out)
    print(f"\n{report}")
    (logs / "report.txt").write_text(f"{report}\n")
    (logs / "results.json").write_text(json.dumps([result._asdict() for result in results], indent=1))
    return 1 if any(is_new_failure(result) for result in results) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "program", type=Path, help="e2e.test, as tests/cluster/programs/build conformance makes it"
    )
    parser.add_argument(
        "--focus", default="", help="run only specs whose name contains this regular expression"
    )
    parser.add_argument(
        "--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="specs at a time"
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="time limit of each spec")
    parser.add_argument("--logs", type=Path, help="folder for the logs; a temporary one by default")
    parser.add_argument("--list", action="store_true", help="print the specs that would run, and end")
    return parser.parse_args()


def _run_all(program: Path, specs: list[str], logs: Path, workers: int, seconds: float) -> list[Result]:
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for spec in specs:
        waiting.put(spec)
    results: list[Result] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        with _cluster(logs / f"cluster-{number}") as kubeconfig:
            while True:
                try:
                    spec = waiting.get_nowait()
                except queue.Empty:
                    return
                limit = seconds * (4 if "[Slow]" in spec else 1)
                result = _run_one(program, kubeconfig, spec, logs, limit)
                with lock:
                    results.append(result)
                    print(f"{len(results):4} {result.outcome:10} {result.seconds:4.0f} s  {spec}", flush=True)

    threads = [
        threading.Thread(target=work, args=(number,), name=f"worker {number}") for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[Path]:
    """Run a cluster in a folder; yield its kubeconfig."""
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "endpointd", *_UP, "--kubeconfig-out", str(kubeconfig)]
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        ends = time.perf_counter() + _START_SECONDS
        while not kubeconfig.exists():
            if child.poll() is not None or time.perf_counter() > ends:
                raise RuntimeError(f"the cluster did not start: {(folder / 'log').read_text()[-2000:]}")
            threading.Event().wait(0.1)
        yield kubeconfig
    finally:
        child.terminate()
        child.wait()


def _run_one(program: Path, kubeconfig: Path, spec: str, logs: Path, seconds: float) -> Result:
    path = logs / (re.sub(r"[^A-Za-z0-9]+", "-", spec)[:150] + ".log")
    command = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        "--provider=local",
        "--disable-log-dump",
        f"--kubectl-path={_kubectl()}",
        "--ginkgo.v",
        "--ginkgo.no-color",
        "--ginkgo.seed=1",
        f"--ginkgo.timeout={seconds:.0f}s",
        f"--ginkgo.focus={re.escape(spec)}$",
    ]
    began = time.perf_counter()
    with path.open("wb") as log:
        try:
            code: int | None = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds + 60.0, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    outcome, detail = outcome_of(path.read_text(errors="replace"), code)
    return Result(spec, outcome, time.perf_counter() - began, detail)


def _kubectl() -> str:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    return str(Path(assets) / "kubectl") if assets else "kubectl"


if __name__ == "__main__":
    sys.exit(main())
