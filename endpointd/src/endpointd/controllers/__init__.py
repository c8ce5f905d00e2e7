"""The three controllers and their shared parts: service membership and the published view of a pod."""
