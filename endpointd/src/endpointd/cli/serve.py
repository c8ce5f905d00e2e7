"""``endpointd serve``: an alias of ``tinykube serve`` with a kubeconfig of its own name."""

from tinykube.cli.serve import serve_command

serve = serve_command("endpointd")
