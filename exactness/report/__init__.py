"""Reports: one JSON object, and its views."""
