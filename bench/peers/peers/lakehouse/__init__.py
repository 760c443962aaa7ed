"""Tables with deleted rows, under several readers."""
