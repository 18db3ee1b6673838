package backup

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Options are what the user chose.
type Options struct {
	Cluster cluster.Name
	Backup  cluster.BackupID
	Run     cluster.RunID
	Owner   runlock.Owner
	Tool    string // version of the program, for the manifest
	// LockWait bounds how long another run's lock is watched, to find out whether that run is alive; zero is 90 s, and
	// runlock.NoWait refuses at once.
	LockWait time.Duration
	// OtherHolds means that another process of this program holds the cluster: its hold is proven and not changed.
	OtherHolds bool
	// ClusterMeta is the document that TiDB Operator passed to br, in a prefix made for this backup alone; nil for a
	// shared storage. With it br's backupmeta and backup.lock are written at the root of the prefix.
	ClusterMeta json.RawMessage
	// MaxLag is how far the resolved ts may lie behind PD's clock; zero is 5 min.
	MaxLag time.Duration
	// PendingQuota is the account's limit of pending snapshots; zero is Service Quotas' value, else 100.
	PendingQuota int
	// MaxHold is the budget of one hold; zero is 2 min.
	MaxHold time.Duration
	// Lease is how long the cluster stays held after the process dies; zero is 30 s, or half of MaxHold if that is
	// less. It is renewed every third of it, and must be below MaxHold.
	Lease time.Duration
	// HoldAttempts is the maximum number of holds, if one breaks; zero is 3.
	HoldAttempts int
	// Steady is how long all stores must be up without a restart before another attempt; zero is 16 s, as EC2 accepts
	// one snapshot per volume every 15 s.
	Steady time.Duration
	// SteadyTimeout is how long to wait for that; zero is 5 min.
	SteadyTimeout time.Duration
	// ConsistentNow includes everything committed before the run started: the resolved ts must first reach the time of
	// the start.
	ConsistentNow bool
	// ConsistentTimeout is how long that may take; zero is 10 min.
	ConsistentTimeout time.Duration
	// OnImport is what to do if an import is running; empty refuses.
	OnImport preflight.ImportPolicy
	// ImportTimeout is how long to wait for imports; zero is 1 h.
	ImportTimeout time.Duration
	// PendingTimeout is how long to wait for volumes with as many pending snapshots as EC2 allows; zero is 1 h.
	PendingTimeout time.Duration
	// TiFlash is what to do about TiFlash stores; empty reports them.
	TiFlash preflight.TiFlashPolicy
	// KeepTags are tag keys to copy from the source's volumes to their snapshots.
	KeepTags []string
	// Tags are the user's labels for the backup, up to 128 printable characters each, without spaces and commas.
	Tags []string
	// SignKey signs the seal; nil seals without a signature.
	SignKey *manifest.SigningKey
	// Marks decides whether to read marks of the regions' logs before the hold; empty is AutoMarks.
	Marks MarksPolicy
	// MarksTimeout is how long the resolved ts may take to pass the marks; zero is 1 min, three times TiKV's interval.
	MarksTimeout time.Duration
	// EarlyApply is what to do about TiKV's early apply; empty is PreventEarlyApply.
	EarlyApply EarlyApplyPolicy
	// Stuck is how long the snapshots may make no progress; zero is 2 h.
	Stuck time.Duration
	// Timeout bounds the wait for the snapshots; zero is 48 h: EBS promises no time.
	Timeout time.Duration
	// Visibility is how long EC2 may hide a snapshot that exists; zero is ebs.VisibleWithin.
	Visibility time.Duration
}

func (o *Options) defaults() {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.MaxLag, 5 * time.Minute},
		{&o.MaxHold, 2 * time.Minute},
		{&o.Steady, 16 * time.Second},
		{&o.SteadyTimeout, 5 * time.Minute},
		{&o.ConsistentTimeout, 10 * time.Minute},
		{&o.ImportTimeout, time.Hour},
		{&o.PendingTimeout, time.Hour},
		{&o.MarksTimeout, time.Minute},
		{&o.Stuck, 2 * time.Hour},
		{&o.Timeout, 48 * time.Hour},
		{&o.Visibility, ebs.VisibleWithin},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if o.Lease == 0 {
		o.Lease = max(minLease, min(30*time.Second, (o.MaxHold/2).Truncate(time.Second)))
	}
	if o.HoldAttempts == 0 {
		o.HoldAttempts = 3
	}
	if o.Marks == "" {
		o.Marks = AutoMarks
	}
	if o.EarlyApply == "" {
		o.EarlyApply = PreventEarlyApply
	}
	if o.OnImport == "" {
		o.OnImport = preflight.RefuseOnImport
	}
}

// minLease allows three renewals, a second apart.
const minLease = 3 * time.Second

// Validate returns a Usage error if the options contradict each other. Zero values stand for the defaults.
func (o *Options) Validate() error {
	c := *o
	c.defaults()
	refuse := func(format string, args ...any) error {
		return failure.New(failure.Usage, "check options", "", format, args...)
	}
	switch {
	case c.Lease < minLease:
		return refuse("--lease %s is too short to be renewed: want at least %s, and --max-hold above it", c.Lease,
			minLease)
	case c.Lease >= c.MaxHold:
		return refuse("--lease %s has to be less than --max-hold %s: a process that dies must not hold longer than "+
			"one that lives", c.Lease, c.MaxHold)
	case c.HoldAttempts < 1:
		return refuse("--hold-attempts %d: want at least 1", c.HoldAttempts)
	case c.SteadyTimeout < c.Steady:
		return refuse("--steady-timeout %s is less than --steady %s", c.SteadyTimeout, c.Steady)
	}
	if err := ebs.CheckKeepTags(c.KeepTags); err != nil {
		return err
	}
	for _, tag := range c.Tags {
		if !regexp.MustCompile(`^[\pL\pN\pP\pS]{1,128}$`).MatchString(tag) || strings.Contains(tag, ",") {
			return refuse("--tag %q: want up to 128 printable characters, without spaces and commas", tag)
		}
	}
	if _, err := ParseMarksPolicy(string(c.Marks)); err != nil {
		return err
	}
	if _, err := ParseEarlyApplyPolicy(string(c.EarlyApply)); err != nil {
		return err
	}
	_, err := preflight.ParseImportPolicy(string(c.OnImport))
	return err
}
