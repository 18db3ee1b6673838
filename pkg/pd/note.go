package pd

import (
	"context"
	"net/http"
	"strconv"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Notes keeps small documents in PD's etcd, under tisnap's own prefix. They outlive the process that wrote them and
// PD's restarts, and are in no backup.
type Notes interface {
	// Note reads a document and its revision, which PutNote needs: nil and 0 if there is none.
	Note(ctx context.Context, name string) (body []byte, revision int64, err error)
	// PutNote replaces the document if it is still at this revision, 0 for none; a nil body removes it. Otherwise
	// Conflict, which may also mean that this very call succeeded and its answer was lost: read the note and decide.
	PutNote(ctx context.Context, name string, body []byte, revision int64) error
}

var _ Notes = (*Client)(nil)

const notePrefix = "/tisnap/"

// Note reads one key through etcd's JSON gateway.
func (c *Client) Note(ctx context.Context, name string) (body []byte, revision int64, err error) {
	query := map[string][]byte{"key": []byte(notePrefix + name)}
	var answer struct {
		KVs []etcdPair `json:"kvs"`
	}
	if err := c.rest.call(ctx, http.MethodPost, "/v3/kv/range", query, &answer, mayRepeat); err != nil {
		return nil, 0, translate(ctx, err, "read note", name)
	}
	if len(answer.KVs) == 0 {
		return nil, 0, nil
	}
	return answer.KVs[0].Value, answer.KVs[0].ModRevision, nil
}

// PutNote is one transaction that compares the key's revision; etcd has revision 0 for a key that does not exist.
func (c *Client) PutNote(ctx context.Context, name string, body []byte, revision int64) error {
	const op = "write note"
	key := []byte(notePrefix + name)
	change := map[string]any{"request_put": map[string][]byte{"key": key, "value": body}}
	if body == nil {
		change = map[string]any{"request_delete_range": map[string][]byte{"key": key}}
	}
	request := map[string]any{
		"compare": []any{
			map[string]any{
				"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": strconv.FormatInt(revision, 10),
			},
		},
		"success": []any{change},
	}
	var answer struct {
		Succeeded bool `json:"succeeded"` // omitted if false
	}
	if err := c.rest.call(ctx, http.MethodPost, "/v3/kv/txn", request, &answer, mayRepeat); err != nil {
		return translate(ctx, err, op, name)
	}
	if !answer.Succeeded {
		return failure.New(failure.Conflict, op, name, "it is no longer at revision %d", revision)
	}
	return nil
}
