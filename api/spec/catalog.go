package spec

import "strings"

// InCatalog reports whether the URI names a table of a catalogue, rest://CATALOG/namespace.table: where it lies, that
// says.
func (t TableURI) InCatalog() bool { return strings.HasPrefix(t.Root, "rest://") }
