package kube

import (
	"github.com/pelletier/go-toml/v2"

	"github.com/tisnap/tisnap/pkg/failure"
)

// configValues returns the string values of spec.tikv.config by their dotted keys ("raft-engine.dir"). config is
// TOML text, or the object that old Operators kept. One that cannot be read is Corrupt: a folder that is
// overlooked would give a volume the wrong role.
func configValues(config any) (map[string]string, error) {
	const op = "read tikv configuration"
	values := map[string]string{}
	switch c := config.(type) {
	case nil:
	case string:
		var tables map[string]any
		if err := toml.Unmarshal([]byte(c), &tables); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, op, "")
		}
		flatten(values, "", tables)
	case map[string]any:
		flatten(values, "", c)
	default:
		return nil, failure.New(failure.Corrupt, op, "", "spec.tikv.config is a %T", config)
	}
	return values, nil
}

// flatten adds the strings of nested tables. Arrays hold no folder that TiKV knows.
func flatten(into map[string]string, prefix string, from map[string]any) {
	for k, v := range from {
		switch v := v.(type) {
		case string:
			into[prefix+k] = v
		case map[string]any:
			flatten(into, prefix+k+".", v)
		}
	}
}
