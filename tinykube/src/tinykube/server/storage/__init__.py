"""Objects, revisions and their history: in memory for reads, in a SQLite log for durability."""
