"""What is on the wire: msgspec types, one module an API group; selectors, quantities, canonical order."""
