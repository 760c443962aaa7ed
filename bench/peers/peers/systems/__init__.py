"""The systems, each at its best settings: one module for each, with a class System (peers.subject)."""
