package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// member ties a JSON member to the field that value points to.
type member struct {
	name     string
	value    any
	optional bool // left out when zero; all others are always written, as br does
}

// unknown are the members of a JSON object that this version does not know. They are written back.
// encoding/json alone would drop them, and would take "Region" for "region".
type unknown map[string]json.RawMessage

func (u *unknown) decode(data []byte, members []member) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	for _, m := range members {
		raw, ok := all[m.name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, m.value); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		delete(all, m.name)
	}
	*u = nil
	if len(all) > 0 {
		*u = all
	}
	return nil
}

// encode writes the members in their order, then the unknown ones by name.
func (u unknown) encode(members []member) ([]byte, error) {
	var b bytes.Buffer
	write := func(name string, value any) error {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		for _, part := range []any{name, value} {
			enc, err := json.Marshal(part)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			b.Write(enc)
			b.WriteByte(':')
		}
		b.Truncate(b.Len() - 1)
		return nil
	}
	for _, m := range members {
		if m.optional && reflect.ValueOf(m.value).Elem().IsZero() {
			continue
		}
		if err := write(m.name, m.value); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u)) {
		if err := write(name, u[name]); err != nil {
			return nil, err
		}
	}
	return append(append([]byte{'{'}, b.Bytes()...), '}'), nil
}
