"""The programs of the guide. The tests run them, so they work as they stand."""
