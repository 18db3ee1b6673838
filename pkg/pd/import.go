package pd

import (
	"context"
	"strings"
)

// ImportTask is an import registered in PD.
type ImportTask struct {
	Kind string // "lightning", "restore" or "import-into", chosen by the tool
	Name string
}

// Imports lists running imports.
type Imports interface {
	// ImportTasks lists the registered imports: TiDB Lightning, br restore and IMPORT INTO since TiDB 7.1. A dead
	// task is listed until its 3 min lease expires. ADD INDEX and older tools do not register.
	ImportTasks(ctx context.Context) ([]ImportTask, error)
}

var _ Imports = (*Client)(nil)

// importPrefix is where br's registry (br/pkg/utils) keeps a leased key per running import.
const importPrefix = "/tidb/brie/import/"

// ImportTasks lists the registered imports, by kind and name.
func (c *Client) ImportTasks(ctx context.Context) ([]ImportTask, error) {
	pairs, err := c.etcdPrefix(ctx, importPrefix)
	if err != nil {
		return nil, translate(ctx, err, "list imports", "")
	}
	var tasks []ImportTask
	for _, kv := range pairs {
		kind, name, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), importPrefix), "/")
		tasks = append(tasks, ImportTask{Kind: kind, Name: name})
	}
	return tasks, nil
}
