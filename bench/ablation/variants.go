package main

// optimisations are on or off.
type optimisations struct {
	// Projection: only the columns that features need are read.
	Projection bool
	// Coalescing: column chunks near each other are read by one request.
	Coalescing bool
	// Decoder: worker/columns decodes, not arrow's reader.
	Decoder bool
	// Columnar: columns stay columns; else each row becomes a map from feature to value, and columns again.
	Columnar bool
	// Windows: transforms work on windows that fit the cache; else on whole row groups.
	Windows bool
	// Fusion: a column of a window goes through all of its ops, in memory that they take turns in, before the next one does. Else
	// each op goes over all columns of the window, to arrays of its own. (No op is one loop with another: see "What did not
	// help" in bench/README.md.)
	Fusion bool
	// Wire: batches are sent and received without needless copies; else by arrow's Flight.
	Wire bool
}

// optimisation is one of them by name, and where it is switched.
type optimisation struct {
	name string
	of   func(*optimisations) *bool
}

func each() []optimisation {
	return []optimisation{
		{"column projection", func(o *optimisations) *bool { return &o.Projection }},
		{"coalesced reads", func(o *optimisations) *bool { return &o.Coalescing }},
		{"own decoder", func(o *optimisations) *bool { return &o.Decoder }},
		{"columns rather than row maps", func(o *optimisations) *bool { return &o.Columnar }},
		{"cache-sized windows", func(o *optimisations) *bool { return &o.Windows }},
		{"fusion by column", func(o *optimisations) *bool { return &o.Fusion }},
		{"zero-copy wire", func(o *optimisations) *bool { return &o.Wire }},
	}
}

type variant struct {
	name string
	on   optimisations
}

// variants are all optimisations, all without one, without the two that keep transforms in the cache, each alone, and none.
func variants() []variant {
	all := optimisations{true, true, true, true, true, true, true}
	out := []variant{{"all", all}}
	for _, e := range each() {
		v := variant{"without " + e.name, all}
		*e.of(&v.on) = false
		out = append(out, v)
	}
	whole := variant{"without windows and fusion: each op over whole columns", all}
	whole.on.Windows, whole.on.Fusion = false, false
	out = append(out, whole)
	for _, e := range each() {
		v := variant{name: "only " + e.name}
		*e.of(&v.on) = true
		out = append(out, v)
	}
	return append(out, variant{name: "none"})
}
