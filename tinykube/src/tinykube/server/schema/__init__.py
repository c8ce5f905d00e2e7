"""One description of each type, and all code that derives from it.

* ``types/*.types``: the type descriptions, one line per field; ``model``: their meaning; ``loader``: reads
  them on demand.
* ``descriptions``: documentation of types and fields (``types/*.about``), read only for OpenAPI documents.
* ``conform``: type checks, removal of unknown fields, canonical values.
* ``defaults``: static defaults. ``json_text``, ``yaml_text``: decoding with detection of duplicate keys.
* ``openapi_schemas``, ``openapi_v2``, ``protobuf``: the descriptions for kubectl, and the wire format of Go
  clients.
"""
