"""A server's door: kubeconfig and credentials, transport, verbs, watch lines, retry, rate limit."""
