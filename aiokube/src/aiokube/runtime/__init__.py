"""The controller runtime, independent of kinds: watches, stores, queues, workers, Events, shutdown."""
