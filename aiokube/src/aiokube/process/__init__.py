"""Support for command-line programs: log format, redaction of secrets, faster start-up."""
