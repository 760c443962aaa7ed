"""What writes the files of each format, by writers that others wrote."""
