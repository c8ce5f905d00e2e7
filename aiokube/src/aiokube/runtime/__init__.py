"""A controller runtime that knows no kind: watch, store, work queue, workers, events, shutdown."""
