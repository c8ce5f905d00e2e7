"""What can be done to any resource: create, get, list, watch, update, patch, delete. No HTTP in here."""
