"""What a control plane does by itself: namespaces that go, what is owned by what is gone, events that expire."""
