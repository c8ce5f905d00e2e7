"""A public test kit: a source that drops and lies, builders, virtual time, a real control plane."""
