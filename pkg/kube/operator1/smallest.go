package operator1

import (
	"encoding/json"
	"maps"

	"github.com/pelletier/go-toml/v2"

	"github.com/tisnap/tisnap/pkg/failure"
)

// smallestPatch returns the patch that turns a cluster into the smallest one that opens its data: one PD and one TiDB,
// whose background work rests, and neither TiFlash nor anything that sends data elsewhere. What it would need of the
// source's namespace is left out: TLS, service accounts, and settings that make its services reachable from outside.
func smallestPatch(source json.RawMessage) (json.RawMessage, error) {
	const op = "make smallest cluster"
	var content map[string]any
	if err := decodeObject(source, &content); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, op, "")
	}
	spec, _ := content["spec"].(map[string]any)
	tidb, _ := spec["tidb"].(map[string]any)
	if tidb == nil {
		return nil, failure.New(failure.Usage, op, "", "the source has no TiDB, so nothing of it can be checked by SQL")
	}
	config, err := restingConfig(tidb["config"])
	if err != nil {
		return nil, err
	}
	inside := map[string]any{"type": "ClusterIP", "annotations": nil, "labels": nil}
	pd := map[string]any{"replicas": 1, "serviceAccount": nil}
	if was, _ := spec["pd"].(map[string]any); was["service"] != nil {
		pd["service"] = inside
	}
	change := map[string]any{
		"tiflash": nil, "ticdc": nil, "tiproxy": nil, "pump": nil, "helper": nil, "services": nil,
		"tlsCluster": nil, "serviceAccount": nil, "pvReclaimPolicy": "Delete",
		"pd":   pd,
		"tikv": map[string]any{"serviceAccount": nil},
		"tidb": map[string]any{
			"replicas": 1, "config": config, "service": inside, "tlsClient": nil, "serviceAccount": nil,
			"binlogEnabled": nil,
		},
	}
	patch, err := json.Marshal(map[string]any{"spec": change})
	return patch, failure.Wrap(err, failure.Corrupt, op, "")
}

// restingConfig is TiDB's configuration without a DDL owner, so that jobs in the queue rest, and without automatic
// ANALYZE. It is text or an object, as it was.
func restingConfig(config any) (any, error) {
	tables, err := configTables(config)
	if err != nil {
		return nil, failure.Annotate(err, "read TiDB's configuration", "")
	}
	out := map[string]any{}
	maps.Copy(out, tables)
	for table, values := range map[string]map[string]any{
		"instance": {"tidb_enable_ddl": false}, "performance": {"run-auto-analyze": false},
	} {
		merged := map[string]any{}
		if was, ok := out[table].(map[string]any); ok {
			maps.Copy(merged, was)
		}
		maps.Copy(merged, values)
		out[table] = merged
	}
	if _, object := config.(map[string]any); object {
		return out, nil
	}
	text, err := toml.Marshal(out)
	return string(text), failure.Wrap(err, failure.Corrupt, "write TiDB's configuration", "")
}
