"""A team's package, which workers have in their image."""
