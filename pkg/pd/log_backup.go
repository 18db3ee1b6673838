package pd

import (
	"context"
	"encoding/binary"
	"net/http"
	"path"
	"strings"

	backup "github.com/pingcap/kvproto/pkg/brpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Keys of log backups in PD's etcd, as br, TiDB and TiKV write them. The name of the task follows; after it, a
// checkpoint has logBackupGlobal, and an error the id of the store that reports it.
const (
	logBackupInfo       = "/tidb/br-stream/info/"
	logBackupPause      = "/tidb/br-stream/pause/"
	logBackupCheckpoint = "/tidb/br-stream/checkpoint/"
	logBackupError      = "/tidb/br-stream/last-error/"
	logBackupGlobal     = "/central_global"
)

// logBackups lists the log backups by name.
func (c *Client) logBackups(ctx context.Context) ([]Task, error) {
	infos, err := c.etcdPrefix(ctx, logBackupInfo)
	if err != nil || len(infos) == 0 {
		return nil, err
	}
	of := map[string]map[string][]byte{} // values by prefix and what follows it
	for _, prefix := range []string{logBackupPause, logBackupCheckpoint, logBackupError} {
		pairs, err := c.etcdPrefix(ctx, prefix)
		if err != nil {
			return nil, err
		}
		of[prefix] = map[string][]byte{}
		for _, kv := range pairs {
			of[prefix][strings.TrimPrefix(string(kv.Key), prefix)] = kv.Value
		}
	}
	tasks := make([]Task, 0, len(infos))
	for _, kv := range infos {
		t := Task{Kind: TaskLogBackup, Name: strings.TrimPrefix(string(kv.Key), logBackupInfo), State: "running"}
		var info backup.StreamBackupTaskInfo
		if info.Unmarshal(kv.Value) == nil {
			t.StartTS, t.Storage = cluster.TS(info.StartTs), logStorage(info.Storage)
		}
		if _, paused := of[logBackupPause][t.Name]; paused {
			t.State = "paused"
		}
		t.Checkpoint = t.StartTS
		if ts := of[logBackupCheckpoint][t.Name+logBackupGlobal]; len(ts) == 8 {
			t.Checkpoint = max(t.Checkpoint, cluster.TS(binary.BigEndian.Uint64(ts)))
		}
		t.Error = lastError(of[logBackupError], t.Name)
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// lastError is the newest error that the stores have reported of a log backup.
func lastError(errors map[string][]byte, name string) string {
	var last backup.StreamBackupError
	found := false
	for key, value := range errors {
		var e backup.StreamBackupError
		if strings.HasPrefix(key, name+"/") {
			if e.Unmarshal(value) != nil {
				e = backup.StreamBackupError{ErrorMessage: "an error that cannot be read"}
			}
			if !found || e.HappenAt > last.HappenAt {
				last, found = e, true
			}
		}
	}
	if !found {
		return ""
	}
	return failure.Line(strings.TrimSpace(last.ErrorCode + " " + last.ErrorMessage))
}

// logStorage is the URL of a log's storage, without credentials; empty if it is of another kind than these.
func logStorage(of *backup.StorageBackend) string {
	switch b := of.GetBackend().(type) {
	case *backup.StorageBackend_S3:
		return "s3://" + path.Join(b.S3.GetBucket(), b.S3.GetPrefix())
	case *backup.StorageBackend_Gcs:
		return "gcs://" + path.Join(b.Gcs.GetBucket(), b.Gcs.GetPrefix())
	case *backup.StorageBackend_AzureBlobStorage:
		return "azure://" + path.Join(b.AzureBlobStorage.GetBucket(), b.AzureBlobStorage.GetPrefix())
	case *backup.StorageBackend_Local:
		return "local://" + b.Local.GetPath()
	}
	return ""
}

// PauseLogBackup writes the key that makes TiKV and TiDB pause the task. An unknown name has no effect.
func (c *Client) PauseLogBackup(ctx context.Context, name string) error {
	body := map[string][]byte{"key": []byte(logBackupPause + name), "value": {}}
	err := c.rest.call(ctx, http.MethodPost, "/v3/kv/put", body, nil, mayRepeat)
	return translate(ctx, err, "pause log backup", name)
}
