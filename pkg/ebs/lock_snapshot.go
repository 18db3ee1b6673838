package ebs

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/saturate"
	"github.com/tisnap/tisnap/pkg/wait"
)

const hintCompliance = "a lock in compliance mode can only be made longer, in the same mode"

// LockSnapshot locks a snapshot until at least the given time; see Locker.
func (c *Client) LockSnapshot(ctx context.Context, req LockRequest) (SnapshotLock, error) {
	op := operation{
		verb: "lock snapshot", action: ActionLockSnapshot,
		repeatable: true, queue: c.pace.lockSnapshot, priority: usual,
		notPermitted: hintCompliance,
	}
	id, until := string(req.Snapshot), req.until()
	if why := req.refusal(); why != "" {
		return SnapshotLock{}, failure.New(failure.Usage, op.verb, id, "%s", why)
	}
	var current, made SnapshotLock
	var enough bool
	// The call has no condition: right before each try, after its turn has come, it is asked whether it still makes the
	// lock longer.
	asking := fenced.With(ctx, func(ctx context.Context) (err error) {
		if current, err = c.currentLock(ctx, req.Snapshot); err == nil {
			enough, err = current.Covers(req)
		}
		if enough {
			return errEnough
		}
		return err
	})
	err := c.call(asking, op, id, func(ctx context.Context) error {
		in := &ec2.LockSnapshotInput{
			SnapshotId: aws.String(id), LockMode: types.LockMode(req.Mode), ExpirationDate: aws.Time(until),
		}
		if req.CoolOff > 0 && current.Mode != LockCompliance {
			in.CoolOffPeriod = aws.Int32(saturate.To[int32](req.CoolOff / time.Hour))
		}
		out, err := c.ec2.LockSnapshot(ctx, in)
		if err != nil {
			return err
		}
		made = SnapshotLock{
			Snapshot: req.Snapshot, Mode: string(out.LockState), ExpiresAt: aws.ToTime(out.LockExpiresOn),
			CooledOffAt: aws.ToTime(out.CoolOffPeriodExpiresOn),
		}
		return nil
	})
	if enough {
		return current, nil
	}
	return made, err
}

// errEnough keeps a call from being sent.
var errEnough = errors.New("it is locked for long enough")

// refusal is why EC2 would refuse the request, or "".
func (r LockRequest) refusal() string {
	switch {
	case r.Snapshot == "":
		return "no snapshot given"
	case r.Mode != LockGovernance && r.Mode != LockCompliance:
		return "the mode is neither " + LockGovernance + " nor " + LockCompliance
	case r.Until.IsZero():
		return "no end of the lock given"
	case r.CoolOff != 0 && r.Mode != LockCompliance:
		return "only a lock in compliance mode has a cooling-off period"
	case r.CoolOff < 0 || r.CoolOff > MaxCoolOff || r.CoolOff%time.Hour != 0:
		return "a cooling-off period has 1 to 72 whole hours"
	default:
		return ""
	}
}

// until is when the lock is to expire, in EC2's precision.
func (r LockRequest) until() time.Time { return r.Until.UTC().Truncate(time.Millisecond) }

// Covers reports whether a lock is all that is asked for; the zero lock is none. One that the request would make weaker
// or shorter is a Conflict, and one that no date is known of yet is Unready.
func (l SnapshotLock) Covers(req LockRequest) (bool, error) {
	until := req.until()
	if l.Snapshot == "" || !l.Holds() {
		return false, nil
	}
	const verb = "lock snapshot"
	if l.ExpiresAt.IsZero() {
		return false, failure.New(failure.Unready, verb, string(req.Snapshot),
			"it is locked until a time after its completion that ec2 does not know yet").
			WithHint("lock it when it is completed")
	}
	stronger := l.Mode == LockGovernance && req.Mode == LockCompliance
	switch {
	case !stronger && !l.ExpiresAt.Before(until):
		return true, nil
	case l.Mode != LockGovernance && req.Mode == LockGovernance:
		return false, failure.New(failure.Conflict, verb, string(req.Snapshot),
			"it is locked in compliance mode until %s", l.ExpiresAt.Format(time.RFC3339)).WithHint(hintCompliance)
	case l.ExpiresAt.After(until):
		return false, failure.New(failure.Conflict, verb, string(req.Snapshot),
			"it is locked until %s, and a lock is never made shorter", l.ExpiresAt.Format(time.RFC3339)).
			WithHint("lock it until that time, or later")
	default:
		return false, nil
	}
}

// lockOf is a snapshot's lock; the zero value if it has none, or does not exist.
func (c *Client) lockOf(ctx context.Context, id cluster.SnapshotID) (SnapshotLock, error) {
	locks, err := c.SnapshotLocks(ctx, []cluster.SnapshotID{id})
	if err != nil || len(locks) == 0 {
		return SnapshotLock{}, err
	}
	return locks[0], nil
}

// lockAge is for how long the answer about a lock is believed.
const lockAge = 5 * time.Second

// currentLock is lockOf, asked again if the process was suspended before it read the answer.
func (c *Client) currentLock(ctx context.Context, id cluster.SnapshotID) (SnapshotLock, error) {
	for {
		start := time.Now()
		lock, err := c.lockOf(ctx, id)
		if err != nil || wait.Younger(start, lockAge, time.Now()) {
			return lock, err
		}
	}
}

// UnlockSnapshot removes a lock; see Locker. How EC2 refuses to unlock what is not locked is not documented: after a
// refusal it is asked for the lock.
func (c *Client) UnlockSnapshot(ctx context.Context, id cluster.SnapshotID) error {
	op := operation{
		verb: "unlock snapshot", action: "ec2:UnlockSnapshot",
		repeatable: true, queue: c.pace.unlockSnapshot, priority: usual,
		notPermitted: "a lock in compliance mode cannot be removed: wait until it expires",
	}
	if id == "" {
		return failure.New(failure.Usage, op.verb, "", "no snapshot given")
	}
	recent := c.recent.has(string(id)) // when it was asked, not when it was answered
	err := c.call(ctx, op, string(id), func(ctx context.Context) error {
		_, err := c.ec2.UnlockSnapshot(ctx, &ec2.UnlockSnapshotInput{SnapshotId: aws.String(string(id))})
		return err
	})
	switch {
	case err == nil:
		return nil
	case failure.Is(err, failure.NotFound): // perhaps EC2 does not show it yet
		if recent {
			return err
		}
		return nil
	}
	if lock, lookErr := c.lockOf(ctx, id); lookErr == nil && (lock.Snapshot == "" || !lock.Holds()) {
		return nil
	}
	return err
}
