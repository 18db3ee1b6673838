package ebsdirect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// Limits of retrying.
const (
	maxWait      = 15 * time.Minute // of one call
	maxAmbiguous = 5                // attempts with unknown outcome
	pauseStart   = 500 * time.Millisecond
	pauseMax     = 20 * time.Second
)

// operation is what all calls of one API have in common.
type operation struct {
	verb   string // of the error text
	action string // in IAM
	queue  queue
	writes bool
	block  string // that the call is about, in words
}

var (
	opList     = operation{verb: "list blocks", action: "ebs:ListSnapshotBlocks", queue: lists}
	opChanged  = operation{verb: "list changed blocks", action: "ebs:ListChangedBlocks", queue: lists}
	opRead     = operation{verb: "read block", action: "ebs:GetSnapshotBlock", queue: reads}
	opPut      = operation{verb: "write block", action: "ebs:PutSnapshotBlock", queue: puts, writes: true}
	opStart    = operation{verb: "start snapshot", action: "ebs:StartSnapshot", queue: starts, writes: true}
	opComplete = operation{verb: "complete snapshot", action: "ebs:CompleteSnapshot", queue: completes, writes: true}
)

func (op operation) on(index int64) operation {
	op.block = fmt.Sprintf("%d of ", index)
	return op
}

// call sends a request until it is answered, refused for good, or ctx ends. All requests may be repeated. One that
// writes is not sent once the run's lock is lost; see package fenced.
func (c *Client) call(
	ctx context.Context, op operation, id cluster.SnapshotID, send func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	target := op.block + string(id)
	var before error // of the try before
	for try, lost := 0, 0; ; try++ {
		err := c.try(ctx, op, id, send)
		v := classify(err)
		if v.retry == ambiguous {
			lost++
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errNotSent):
			return failure.Wrap(errors.Join(err, before), kindOfEnd(err), op.verb, target)
		case fenced.Refused(err):
			return failure.Annotate(err, op.verb, target)
		case v.retry == never || lost >= maxAmbiguous || ctx.Err() != nil:
			return translate(err, op, target)
		}
		before = err
		if v.retry == throttled {
			continue // the governor has slowed down
		}
		if c.clock.Sleep(ctx, pause(try)) != nil {
			return translate(fmt.Errorf("gave up after %d tries: %w", try+1, err), op, target)
		}
	}
}

// errNotSent marks the end of ctx while a call waited for its turn.
var errNotSent = errors.New("waiting for its turn below the account's and the snapshot's rate")

func (c *Client) try(
	ctx context.Context, op operation, id cluster.SnapshotID, send func(context.Context) error,
) error {
	done, err := c.governor.enter(ctx, op.queue, id)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	var slow scope
	defer func() { done(slow) }()
	if op.writes {
		if err := fenced.Check(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx, span := tracing.Call(ctx, op.action, "rpc.system", "aws-api")
	err = send(ctx)
	span.End(err)
	slow = classify(err).slow
	return err
}

// kindOfEnd returns the kind of a call that ctx ended before it was sent.
func kindOfEnd(err error) failure.Kind {
	if errors.Is(err, context.DeadlineExceeded) {
		return failure.Limited
	}
	return failure.Unknown
}

// pause doubles with each try, and takes between half of that and all of it.
func pause(try int) time.Duration {
	d := min(pauseMax, pauseStart<<min(try, 16))
	return d/2 + rand.N(d/2)
}
