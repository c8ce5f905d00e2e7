"""Benchmarks: endpointd beside kube-controller-manager on a real control plane, and the pieces by themselves.

Run them as modules from the root of the checkout; docs/benchmarks.md says what is measured and how to read it.
"""
