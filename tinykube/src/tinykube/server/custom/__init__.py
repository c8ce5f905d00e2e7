"""Custom resources: validation of definitions, their storage, and serving the kinds that they define.

CEL rules (``x-kubernetes-validations``) are not evaluated; clients that create definitions with rules get a
warning. Conversion between versions only changes ``apiVersion`` (strategy None); definitions with a
conversion webhook are rejected.
"""
