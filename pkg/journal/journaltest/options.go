package journaltest

import (
	"fmt"
	"maps"
	"reflect"
)

// CheckRequest returns what is wrong with a request as it is compared when a run is resumed (journal.About.Request): every
// field of the options, and every field within those that are structs, changes it if its value changes, or is listed in
// free by its path ("Volume.Type") with the reason why a run may be resumed with another value. values are for fields that
// have no other value that can be made up.
func CheckRequest[Options any](request func(*Options) map[string]string, free map[string]string, values map[string]any) []string {
	c := &check[Options]{request: request, free: maps.Clone(free), values: values}
	c.fields("", reflect.TypeFor[Options](), nil)
	for path := range c.free {
		c.found("%s is listed, and there is no such option", path)
	}
	return c.wrong
}

type check[Options any] struct {
	request func(*Options) map[string]string
	free    map[string]string // those that were not met yet
	values  map[string]any
	wrong   []string
}

func (c *check[Options]) found(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// fields looks at the fields of a struct, which is itself at an index of the options.
func (c *check[Options]) fields(prefix string, of reflect.Type, at []int) {
	for i := range of.NumField() {
		field := of.Field(i)
		c.field(prefix+field.Name, field.Type, append(at[:len(at):len(at)], i))
	}
}

func (c *check[Options]) field(path string, of reflect.Type, at []int) {
	reason, listed := c.free[path]
	delete(c.free, path)
	value, known := c.values[path]
	switch {
	case listed && reason == "":
		c.found("%s is listed without a reason", path)
		return
	case listed && of.Kind() == reflect.Func:
		return // two of them cannot be compared
	case !listed && !known && of.Kind() == reflect.Struct:
		c.fields(path+".", of, at)
		return
	case !known:
		other := reflect.New(of).Elem()
		if !fill(other) {
			if !listed {
				c.found("%s: give a value of %s", path, of)
			}
			return
		}
		value = other.Interface()
	}
	var before, after Options
	reflect.ValueOf(&after).Elem().FieldByIndex(at).Set(reflect.ValueOf(value))
	differs := !maps.Equal(c.request(&before), c.request(&after))
	switch {
	case listed && differs:
		c.found("%s is compared, and listed as one that need not be", path)
	case !listed && !differs:
		c.found("%s is not compared: a run is resumed with another value of it unnoticed", path)
	}
}

// fill gives a value another one than zero; false if it cannot.
func fill(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).CanSet() || !fill(v.Field(i)) {
				return false
			}
		}
	default:
		return false
	}
	return true
}
