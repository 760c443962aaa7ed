package session

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// exported is a field's value as if its name were exported.
func exported(f reflect.Value) reflect.Value {
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// copier copies values deeply. What two pointers share, their copies share, too. Functions are not copied.
type copier map[unsafe.Pointer]reflect.Value

func (c copier) copy(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if from.IsNil() {
			return
		}
		old := from.UnsafePointer()
		if _, ok := c[old]; !ok {
			c[old] = reflect.New(from.Type().Elem())
			c.copy(c[old].Elem(), from.Elem())
		}
		to.Set(c[old])
	case reflect.Struct:
		for i := range from.NumField() {
			c.copy(exported(to.Field(i)), exported(from.Field(i)))
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				c.copy(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for k, v := range from.Seq2() {
				addressable, value := reflect.New(v.Type()).Elem(), reflect.New(v.Type()).Elem()
				addressable.Set(v)
				c.copy(value, addressable)
				to.SetMapIndex(k, value)
			}
		}
	case reflect.Func:
	default:
		to.Set(from)
	}
}

// fingerprinter hashes values deeply. Starts of ranks have the numbers in which they are met, so that it does not
// matter how many there were before.
type fingerprinter struct {
	hash     maphash.Hash
	pointers map[unsafe.Pointer]uint64
	nonces   map[string]uint64
}

func (f *fingerprinter) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = f.hash.Write(b[:])
}

func (f *fingerprinter) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			f.number(0)
			return
		}
		n, ok := f.pointers[v.UnsafePointer()]
		if !ok {
			n = uint64(len(f.pointers) + 1)
			f.pointers[v.UnsafePointer()] = n
		}
		f.number(n)
		if !ok {
			f.add(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !ignored[v.Type().Field(i).Name] {
				f.add(exported(v.Field(i)))
			}
		}
	case reflect.Slice:
		f.number(uint64(v.Len()))
		for i := range v.Len() {
			f.add(v.Index(i))
		}
	case reflect.Map:
		f.entries(v)
	case reflect.String:
		f.text(v.String())
	case reflect.Bool:
		if v.Bool() {
			f.number(1)
		} else {
			f.number(2)
		}
	case reflect.Func:
	default:
		switch {
		case v.CanInt():
			f.number(uint64(v.Int()))
		case v.CanUint():
			f.number(v.Uint())
		default:
			panic("fingerprint of a " + v.Kind().String())
		}
	}
}

func (f *fingerprinter) text(s string) {
	if strings.HasPrefix(s, "nonce ") {
		if _, ok := f.nonces[s]; !ok {
			f.nonces[s] = uint64(len(f.nonces) + 1)
		}
		f.number(f.nonces[s])
		return
	}
	f.number(uint64(len(s)))
	f.hash.WriteString(s)
}

// entries adds those of a map, in an order that does not depend on the map.
func (f *fingerprinter) entries(m reflect.Value) {
	type entry struct{ key, value reflect.Value }
	var all []entry
	for k, v := range m.Seq2() {
		key, value := reflect.New(k.Type()).Elem(), reflect.New(v.Type()).Elem()
		key.Set(k)
		value.Set(v)
		all = append(all, entry{key, value})
	}
	one := func(v reflect.Value) uint64 {
		g := newFingerprinter(f.hash.Seed())
		g.add(v)
		return g.hash.Sum64()
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(one(a.key), one(b.key)) })
	f.number(uint64(len(all)))
	for _, e := range all {
		f.add(e.key)
		f.add(e.value)
	}
}

func newFingerprinter(seed maphash.Seed) *fingerprinter {
	f := &fingerprinter{pointers: map[unsafe.Pointer]uint64{}, nonces: map[string]uint64{}}
	f.hash.SetSeed(seed)
	return f
}

// ignored are the fields that tell states apart which go on in the same way: calls are numbered, and what lies in etcd
// is the State.
var ignored = map[string]bool{
	"sent": true, "seq": true, "cutAt": true, "nonces": true, "writes": true, "etcd": true,
	"d": true, "id": true,
}
