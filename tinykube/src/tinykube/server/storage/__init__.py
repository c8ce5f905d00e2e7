"""Objects, revisions and their history: in memory for every read, in a SQLite log for every crash."""
