package pd

import (
	"context"
	"strings"
)

// ImportTask is an import that registered itself in PD.
type ImportTask struct {
	Kind string // "lightning", "restore" or "import-into", as its tool calls it
	Name string
}

// Imports lists the imports that run.
type Imports interface {
	// ImportTasks lists the imports that registered themselves: TiDB Lightning, br restore and IMPORT INTO since
	// TiDB 7.1. A task that died is listed until its lease of 3 min has run out. ADD INDEX and older tools do
	// not register.
	ImportTasks(ctx context.Context) ([]ImportTask, error)
}

var _ Imports = (*Client)(nil)

// importPrefix is where tools put a key with a lease while they import: the register of br (br/pkg/utils).
const importPrefix = "/tidb/brie/import/"

// ImportTasks lists the imports that registered themselves, by kind and name.
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
