"""The Endpoints controller."""
