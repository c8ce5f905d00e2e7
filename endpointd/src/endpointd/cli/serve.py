"""``endpointd serve``: an alias of ``tinykube serve`` with a separate kubeconfig name."""

from tinykube.cli.serve import serve_command

serve = serve_command("endpointd")
