"""The proxy process: settings, start-up, logs, rule file watch and shutdown."""
