package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// verdictTime bounds planning whether a cluster can do without stores.
const verdictTime = 30 * time.Second

// canDoWithout decides by what was read of the other stores so far. It may be called after a step's deadline.
func (r *run) canDoWithout(ctx context.Context, late []cluster.StoreID) resolve.Verdict {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verdictTime)
	defer cancel()
	return r.resolver.Without(ctx, late)
}

// commandWithout returns the command that brings the cluster up without these stores and those already tolerated.
func (r *run) commandWithout(late []cluster.StoreID) string {
	command := fmt.Sprintf("tisnap restore %s --to %s", r.opts.Backup, r.opts.Target)
	if r.target.existing || r.keepsOnFailure() {
		command = fmt.Sprintf("tisnap resolve %s --backup %s", r.opts.Target, r.opts.Backup)
	}
	for _, id := range slices.Concat(r.opts.TolerateStores, late) {
		command += " --tolerate-store " + id.String()
	}
	return command
}

// hintWithout returns the hint about stores that did not come up in time. It names a command if every region has a
// quorum on those that did.
func (r *run) hintWithout(
	ctx context.Context, err error, ids []cluster.StoreID, up map[cluster.StoreID]time.Time,
) error {
	var e *failure.Error
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.As(err, &e) {
		return err
	}
	late := slices.DeleteFunc(slices.Clone(ids), func(id cluster.StoreID) bool { _, came := up[id]; return came })
	if len(late) == 0 {
		return err
	}
	names := make([]string, len(late))
	for i, id := range late {
		names[i] = id.String()
	}
	hint := fmt.Sprintf("see why the pods of stores %s do not run (kubectl -n %s describe pods, and their logs)",
		failure.List(names), r.opts.Target.Namespace)
	switch v := r.canDoWithout(ctx, late); {
	case !v.Known:
		hint += "; the other stores have not been read, so whether the cluster can do without them is unknown"
	case v.Refused != nil:
		hint += "; the cluster cannot do without them: " + strings.TrimSpace(failure.Line(v.Refused.Error()))
	default:
		hint += "; every region has a quorum without them, so that they can be left out: " + r.commandWithout(late)
	}
	return e.WithHint("%s", hint)
}
