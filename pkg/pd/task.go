package pd

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// TaskKind is a kind of consumer of a cluster's changes.
type TaskKind string

// The kinds of tasks.
const (
	TaskLogBackup  TaskKind = "log-backup" // of `br log`
	TaskChangefeed TaskKind = "changefeed" // of TiCDC
)

// Task is a log backup or a changefeed of a cluster. A flashback writes new versions of old rows, which a task
// replicates as new changes, so what it produced before cannot be continued.
type Task struct {
	Kind TaskKind `json:"kind"`
	// Name is the log backup's name, or the changefeed's as CLUSTER/NAMESPACE/ID (its id alone before TiCDC 6.2).
	Name string `json:"name"`
	// State is TiCDC's term ("normal", "stopped"), or "running" or "paused" for a log backup; "" if unknown.
	State string `json:"state,omitempty"`
	// StartTS is where a log backup starts; 0 if it could not be read.
	StartTS cluster.TS `json:"startTS,omitempty"`
	// Checkpoint is the timestamp up to which a log backup has all changes; StartTS before it has any.
	Checkpoint cluster.TS `json:"checkpoint,omitempty"`
	// Error is the last one of a log backup since it was started or resumed; Storage is where its log is, without keys.
	Error   string `json:"error,omitempty"`
	Storage string `json:"storage,omitempty"`
}

// Running reports whether the task reads changes now, or will resume on its own.
func (t Task) Running() bool {
	switch t.State {
	case "paused", "stopped", "failed", "finished", "removed":
		return false
	}
	return true
}

// Tasks lists and pauses a cluster's tasks, which are in PD's etcd.
type Tasks interface {
	// Tasks lists log backups and changefeeds, by kind and name.
	Tasks(ctx context.Context) ([]Task, error)
	// PauseLogBackup pauses a log backup as `br log pause` does; `br log resume` ends the pause. Idempotent.
	PauseLogBackup(ctx context.Context, name string) error
}

var _ Tasks = (*Client)(nil)

// Keys of changefeeds in PD's etcd, since TiCDC 6.2 (/tidb/cdc/CLUSTER/NAMESPACE/changefeed/info/ID) and before
// (/tidb/cdc/changefeed/info/ID).
const (
	cdcPrefix      = "/tidb/cdc/"
	changefeedInfo = "changefeed/info/"
)

// Tasks lists log backups and changefeeds, by kind and name.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	const op = "list log backups and changefeeds"
	tasks, err := c.logBackups(ctx)
	if err != nil {
		return nil, translate(ctx, err, op, "")
	}
	pairs, err := c.etcdPrefix(ctx, cdcPrefix)
	if err != nil {
		return nil, translate(ctx, err, op, "")
	}
	for _, kv := range pairs {
		if name, ok := changefeedName(string(kv.Key)); ok {
			tasks = append(tasks, Task{Kind: TaskChangefeed, Name: name, State: changefeedState(kv.Value)})
		}
	}
	return tasks, nil
}

// changefeedName returns the name in a changefeed's info key; ok is false for TiCDC's other keys, including its
// backups of older versions.
func changefeedName(key string) (name string, ok bool) {
	owner, id, ok := strings.Cut(strings.TrimPrefix(key, cdcPrefix), changefeedInfo)
	if !ok || id == "" || strings.Contains(id, "/") {
		return "", false
	}
	if owner == "" {
		return id, true
	}
	cluster, namespace, ok := strings.Cut(strings.TrimSuffix(owner, "/"), "/")
	if !ok || !strings.HasSuffix(owner, "/") || strings.Contains(namespace, "/") ||
		!cdcClusters().MatchString(cluster) {
		return "", false
	}
	return owner + id, true
}

// cdcClusters matches names of TiCDC clusters; its internal folders start with two underscores.
func cdcClusters() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$`) }

// changefeedState returns the state in a changefeed's info, "" if it cannot be read, which counts as running.
func changefeedState(value []byte) string {
	var info struct {
		State string `json:"state"`
	}
	if json.Unmarshal(value, &info) != nil {
		return ""
	}
	return info.State
}

// etcdPair is a key in PD's etcd. The JSON gateway encodes bytes as base64, like encoding/json.
type etcdPair struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
	Lease       int64  `json:"lease,string"` // 0 if the key does not expire
	ModRevision int64  `json:"mod_revision,string"`
}

// etcdPrefix reads the keys that start with prefix, in order. The prefix ends in '/'.
func (c *Client) etcdPrefix(ctx context.Context, prefix string) ([]etcdPair, error) {
	query := map[string][]byte{"key": []byte(prefix), "range_end": []byte(strings.TrimSuffix(prefix, "/") + "0")}
	var answer struct {
		KVs []etcdPair `json:"kvs"`
	}
	if err := c.rest.call(ctx, http.MethodPost, "/v3/kv/range", query, &answer, mayRepeat); err != nil {
		return nil, err
	}
	return answer.KVs, nil
}
