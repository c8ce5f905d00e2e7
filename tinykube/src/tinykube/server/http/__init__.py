"""The wire: routes, negotiation of content, identity, discovery, errors as Status objects."""
