"""Benchmarks: endpointd compared with kube-controller-manager on a real control plane, and single steps in isolation.

Run the modules from the root of the checkout; docs/benchmarks.md describes the measurements.
"""
