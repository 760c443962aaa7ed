package spec

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// pairs reads a field that is a map from texts to scalars.
func (d *decoder) pairs(m protoreflect.Map, of protoreflect.FieldDescriptor, n *node, path string) {
	if !d.mapping(n, path, "a mapping") {
		return
	}
	for i, key := range n.keys {
		at := join(path, key)
		if !d.enter(n.items[i]) {
			return
		}
		k := protoreflect.ValueOfString(key).MapKey()
		switch {
		case len(key) > maxKey:
			d.problems.add(path, "found a key of %d bytes%s; want at most %d", len(key), atLine(n.items[i]), maxKey)
		case m.Has(k):
			d.problems.add(at, "stands here twice%s", atLine(n.items[i]))
		default:
			if v, ok := d.scalar(of, n.items[i], at); ok {
				m.Set(k, v)
			}
		}
	}
}

// pairs writes a map from texts to scalars in braces.
func (f *formatter) pairs(m protoreflect.Map) string {
	var items []string
	for _, key := range keysOf(m) {
		items = append(items, f.text(key.String())+": "+f.scalar(m.Get(key)))
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// pairs compares maps from texts to scalars.
func (d *differ) pairs(of protoreflect.FieldDescriptor, path string, a, b protoreflect.Map) {
	keys := append(keysOf(a), keysOf(b)...)
	slices.SortFunc(keys, byText)
	text := func(m protoreflect.Map, key protoreflect.MapKey) string {
		if !m.Has(key) {
			return "nothing"
		}
		return shown(of, m.Get(key))
	}
	for _, key := range slices.CompactFunc(keys, func(a, b protoreflect.MapKey) bool { return byText(a, b) == 0 }) {
		if x, y := text(a, key), text(b, key); x != y {
			d.add(join(path, key.String()), x, y)
		}
	}
}

// keysOf are a map's keys, sorted.
func keysOf(m protoreflect.Map) []protoreflect.MapKey {
	var keys []protoreflect.MapKey
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, byText)
	return keys
}

func byText(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) }
