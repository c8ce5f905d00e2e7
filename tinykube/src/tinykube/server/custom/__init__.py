"""Custom resources: kinds that come while the server runs. What a definition says is judged, kept, and lived by here.

Not evaluated: CEL rules (``x-kubernetes-validations``); whoever sends a definition that has some is warned. Conversion
between versions is by ``apiVersion`` alone (strategy None); definitions that want a webhook are refused.
"""
