"""Wire types: one module of msgspec types per API group, plus selectors, quantities and addresses."""
