"""The built-in resources, one module each: names, defaults, validation, printer columns."""
