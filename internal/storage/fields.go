package storage

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// setField sets a field of what p points to, a profile or a catalogue, by its name in the environment, which is that of
// the configuration file in upper case, and reports whether there is such a field. Lists are separated by commas. What
// type a profile is of is set elsewhere.
func setField(p any, name, value string) (known bool, err error) {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("yaml")
		if tag == "type" || strings.ToUpper(tag) != name {
			continue
		}
		switch field := v.Field(i).Addr().Interface().(type) {
		case *string:
			*field = value
		case *[]string:
			*field = strings.Split(value, ",")
		case *bool:
			*field, err = boolean(value)
		case **bool:
			var b bool
			if b, err = boolean(value); err == nil {
				*field = &b
			}
		default:
			panic("a profile's field " + tag + " is of a type that the environment cannot have")
		}
		return true, err
	}
	return false, nil
}

func boolean(value string) (bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New("it must be true or false")
	}
	return b, nil
}
