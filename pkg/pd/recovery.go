package pd

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

const markPath = apiPrefix + "/admin/cluster/markers/snapshot-recovering"

// lastYear is the last whole year whose timestamps PD 8.5 can restart with; past 2046-12 it does not start.
const lastYear = 2045

// MarkRecovering sets the mark that makes TiKV start in recovery mode. Idempotent.
func (c *Client) MarkRecovering(ctx context.Context) error {
	return translate(ctx, c.rest.call(ctx, http.MethodPost, markPath, nil, nil, mayRepeat), "set recovering mark", "")
}

// UnmarkRecovering removes the mark. Idempotent.
func (c *Client) UnmarkRecovering(ctx context.Context) error {
	return translate(ctx, c.rest.call(ctx, http.MethodDelete, markPath, nil, nil, mayRepeat), "remove recovering mark",
		"")
}

// Recovering reads the mark.
func (c *Client) Recovering(ctx context.Context) (bool, error) {
	var answer struct {
		Marked bool `json:"marked"`
	}
	err := c.rest.call(ctx, http.MethodGet, markPath, nil, &answer, mayRepeat)
	return answer.Marked, translate(ctx, err, "read recovering mark", "")
}

// RaiseTS makes every later timestamp larger than ts, and takes one to verify it. Idempotent. A ts past 2045
// is Corrupt: it comes from broken data, and PD could not restart with it.
func (c *Client) RaiseTS(ctx context.Context, ts cluster.TS) error {
	const op = "raise timestamp"
	target := ts.String()
	if ts.Time().Year() > lastYear {
		return failure.New(failure.Corrupt, op, target,
			"its time is %s, and pd cannot restart with timestamps past 2046",
			ts.Time().Format("2006-01-02"))
	}
	body := map[string]any{"tso": ts.String(), "force-use-larger": true}
	if err := c.rest.call(ctx, http.MethodPost, apiPrefix+"/admin/reset-ts", body, nil, mayRepeat); err != nil {
		return translate(ctx, err, op, target)
	}
	now, err := c.Now(ctx)
	if err != nil {
		return failure.Annotate(err, op, target)
	}
	if now <= ts {
		return failure.New(failure.Conflict, op, target, "pd accepted it but then returned %s", now)
	}
	return nil
}

// RaiseAllocID makes every later id larger than id and verifies it by allocating one. It changes nothing if
// ids are already larger. Without the mark it is Unready. It uses up an id or two.
// It must not run while stores allocate ids close to id: PD has no compare-and-set.
func (c *Client) RaiseAllocID(ctx context.Context, id uint64) error {
	const op = "raise alloc id"
	target := strconv.FormatUint(id, 10)
	marked, err := c.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, op, target)
	}
	if !marked {
		return failure.New(failure.Unready, op, target, "pd is not marked as recovering").
			WithHint("set PD's snapshot-recovering mark first")
	}
	next, err := c.allocID(ctx)
	if err != nil {
		return translate(ctx, err, op, target)
	}
	if next > id {
		return nil
	}
	// Not sent to a second member if the answer is lost: the allocator may have advanced since, and the same
	// request would lower it. The caller starts over with a comparison.
	body := map[string]string{"id": target}
	if err := c.rest.call(ctx, http.MethodPost, apiPrefix+"/admin/base-alloc-id", body, nil, once); err != nil {
		return translate(ctx, err, op, target)
	}
	if next, err = c.allocID(ctx); err != nil {
		return translate(ctx, err, op, target)
	}
	if next <= id {
		return failure.New(failure.Conflict, op, target, "pd accepted it but then allocated %d", next)
	}
	return nil
}

// allocID allocates an id. pd/client has no such call, so it is made on its connection to the leader.
func (c *Client) allocID(ctx context.Context) (uint64, error) {
	conn := c.rpc.GetServiceDiscovery().GetServingEndpointClientConn()
	if conn == nil {
		return 0, status.Error(codes.Unavailable, "no leader")
	}
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	answer, err := pdpb.NewPDClient(conn).AllocID(ctx, &pdpb.AllocIDRequest{
		Header: &pdpb.RequestHeader{ClusterId: c.rpc.GetClusterID(ctx)}, Count: 1,
	})
	if err != nil {
		// pd/client looks for a new leader only after errors in its own calls.
		c.rpc.GetServiceDiscovery().ScheduleCheckMemberChanged()
		return 0, err
	}
	if refused := answer.GetHeader().GetError(); refused != nil {
		return 0, errors.New(refused.String())
	}
	return answer.GetId(), nil
}
