package operator1

import (
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"github.com/tisnap/tisnap/pkg/failure"
)

// configValues returns the string values of spec.tikv.config by their dotted keys ("raft-engine.dir"). config is
// TOML text, or an object from old Operators. An unreadable one is Corrupt: overlooking a folder would give a volume
// the wrong role.
func configValues(config any) (map[string]string, error) {
	tables, err := configTables(config)
	values := map[string]string{}
	flatten(values, "", tables, func(v any) (string, bool) {
		text, ok := v.(string)
		return text, ok
	})
	return values, err
}

// configScalars is configValues including numbers and booleans, as texts.
func configScalars(config any) (map[string]string, error) {
	tables, err := configTables(config)
	values := map[string]string{}
	flatten(values, "", tables, func(v any) (string, bool) { return fmt.Sprint(v), true })
	return values, err
}

func configTables(config any) (map[string]any, error) {
	const op = "read tikv configuration"
	switch c := config.(type) {
	case nil:
		return nil, nil
	case string:
		var tables map[string]any
		err := toml.Unmarshal([]byte(c), &tables)
		return tables, failure.Wrap(err, failure.Corrupt, op, "")
	case map[string]any:
		return c, nil
	default:
		return nil, failure.New(failure.Corrupt, op, "", "spec.tikv.config is a %T", config)
	}
}

// flatten adds the values of nested tables that text accepts. It skips arrays: none has a folder of TiKV.
func flatten(into map[string]string, prefix string, from map[string]any, text func(v any) (string, bool)) {
	for k, v := range from {
		switch v := v.(type) {
		case map[string]any:
			flatten(into, prefix+k+".", v, text)
		case []any:
		default:
			if t, ok := text(v); ok {
				into[prefix+k] = t
			}
		}
	}
}
