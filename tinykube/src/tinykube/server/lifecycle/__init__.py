"""The background controllers of a control plane: namespace deletion, garbage collection, event expiry."""
