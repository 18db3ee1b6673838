package ebs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// Limits of retrying.
const (
	maxWait      = 15 * time.Minute // for callers whose ctx has no deadline
	maxAmbiguous = 8                // attempts with unknown outcome

	throttleStart = 500 * time.Millisecond
	throttleMax   = 20 * time.Second
	spacing       = 15 * time.Second // EC2's minimum time between snapshots of one volume
	queueStart    = 5 * time.Second
	queueMax      = 30 * time.Second
)

// operation is shared by all calls of one API.
type operation struct {
	verb   string // of the error text: "create snapshots"
	action Action // in IAM
	tagged bool   // tags in the call need ec2:CreateTags too
	// notPermitted is what can be done about OperationNotPermitted if it is about the state of the target, which is a
	// Conflict then, and not about the caller.
	notPermitted string
	// repeatable calls may be resent when the outcome of the last attempt is unknown.
	repeatable bool
	timeout    time.Duration // of one answer; 0 is the client's
	queue      *callQueue    // nil is not paced
	priority   priority
}

func (op operation) needs() string {
	if op.tagged {
		return fmt.Sprintf("%s and ec2:CreateTags", op.action)
	}
	return string(op.action)
}

// reads reports whether the calls of the operation change nothing.
func (op operation) reads() bool {
	service, name, _ := strings.Cut(string(op.action), ":")
	return service == "kms" || strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "List") ||
		strings.HasPrefix(name, "Get")
}

// call sends a request until it is answered, permanently refused, or ctx ends. A request that certainly had no effect
// is resent until ctx ends; one that may have had an effect only if the operation is repeatable. The error of a call
// that may have happened anyway is marked; see MayHaveHappened. A mutating request is not sent or resent once the run's
// lock is lost; see package fenced.
func (c *Client) call(ctx context.Context, op operation, target string, send func(context.Context) error) error {
	lost, err := c.tries(ctx, op, target, send)
	if err != nil && lost > 0 && !op.reads() {
		return maybeHappened(err)
	}
	return err
}

// tries sends a request and counts the attempts with unknown outcome.
func (c *Client) tries(
	ctx context.Context, op operation, target string, send func(context.Context) error,
) (lost int, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	defer c.pace.gate.begin(op.priority)()
	place := op.queue.place(op.priority)
	var before error // of the try before
	for try := 0; ; try++ {
		if err := c.turn(ctx, op, place); err != nil {
			return lost, outOfTime(err, before, op, target)
		}
		if !op.reads() {
			if err := fenced.Check(ctx); err != nil {
				return lost, failure.Annotate(err, op.verb, target)
			}
		}
		err := c.once(ctx, op, send)
		v := classify(err)
		op.queue.answered(err != nil && v.retry == throttled)
		if err == nil {
			return lost, nil
		}
		if v.retry == ambiguous {
			lost++
		}
		if ctx.Err() != nil && before != nil { // the reason for the retries is more informative than their end
			err = fmt.Errorf("%w; the try before: %w", err, before)
		}
		if v.retry == never || v.retry == later || ctx.Err() != nil ||
			(v.retry == ambiguous && (!op.repeatable || lost >= maxAmbiguous)) {
			return lost, hinted(translate(err, op, target), before)
		}
		if waitErr := c.pause(ctx, op, v.retry, try); waitErr != nil {
			return lost, translate(fmt.Errorf("gave up after %d tries: %w", try+1, err), op, target)
		}
		before = err
	}
}

// hinted adds the previous attempt's hint to an error without one, such as that of a call that ctx ended.
func hinted(err, before error) error {
	hint := classify(before).hint
	if before == nil || hint == "" || failure.HintOf(err) != "" {
		return err
	}
	return failure.New(failure.KindOf(err), "", "", "%w", err).WithHint("%s", hint)
}

func (c *Client) once(ctx context.Context, op operation, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.answerTimeout(op))
	defer cancel()
	ctx, span := tracing.Call(ctx, string(op.action), "rpc.system", "aws-api")
	err := concise(send(ctx))
	span.End(err)
	return err
}

// turn lets urgent calls pass, then waits for its turn below EC2's rate.
func (c *Client) turn(ctx context.Context, op operation, place *place) error {
	if err := c.pace.gate.yield(ctx, op.priority, c.clock); err != nil {
		return err
	}
	return op.queue.turn(ctx, place)
}

// pause waits before the next attempt. A throttled call of a queue only takes its place again: the queue has slowed
// down for all its calls, and further waits would leave EC2's bucket unused.
func (c *Client) pause(ctx context.Context, op operation, r retry, try int) error {
	if r == throttled && op.queue != nil {
		return ctx.Err()
	}
	return c.clock.Sleep(ctx, delay(r, try))
}

// outOfTime returns the error of a call that ctx ended while it waited for its turn. The previous attempt's reason is
// more informative.
func outOfTime(err, before error, op operation, target string) error {
	err = fmt.Errorf("waiting for its turn below ec2's rate: %w", err)
	if before != nil {
		return translate(fmt.Errorf("%w; the try before: %w", err, before), op, target)
	}
	return failure.Wrap(err, kindOfEnd(err), op.verb, target)
}

// kindOfEnd returns the kind of a call that ctx ended before it was sent.
func kindOfEnd(err error) failure.Kind {
	if errors.Is(err, context.DeadlineExceeded) {
		return failure.Limited
	}
	return failure.Unknown
}

// delay returns the time to the next attempt, with jitter, so that many instances do not retry together.
func delay(r retry, try int) time.Duration {
	switch r {
	case spaced:
		return spacing + jitter(2*time.Second)
	case queued:
		return grow(queueStart, queueMax, try)
	default:
		return grow(throttleStart, throttleMax, try)
	}
}

// grow doubles from start to limit, and takes between half of that and all of it.
func grow(start, limit time.Duration, try int) time.Duration {
	d := limit
	if try < 16 {
		d = min(limit, start<<try)
	}
	return d/2 + jitter(d/2)
}

func jitter(d time.Duration) time.Duration { return rand.N(d + 1) }
