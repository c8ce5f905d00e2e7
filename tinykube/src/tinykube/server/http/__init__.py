"""The wire protocol: routes, content negotiation, authentication, discovery, errors as Status objects."""
