package catalog

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Pins returns the pins that hold now. One that cannot be read is of any backup of its name.
func (c Catalog) Pins(ctx context.Context) (map[cluster.BackupID]*manifest.PinRecord, error) {
	objects, err := c.Store.List(ctx, manifest.PinsPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list pins", c.Store.URL())
	}
	var mu sync.Mutex
	out := map[cluster.BackupID]*manifest.PinRecord{}
	err = parallel.Each(ctx, maxReads, objects, func(ctx context.Context, _ int, o objstore.Object) error {
		id, is := manifest.SplitPinKey(o.Key)
		if !is {
			return nil
		}
		pin, err := c.PinOf(ctx, id, "")
		mu.Lock()
		defer mu.Unlock()
		if pin != nil {
			out[id] = pin
		}
		return err
	})
	return out, err
}

// PinOf returns the pin that holds a backup of this run, as Pins does; nil if there is none.
func (c Catalog) PinOf(ctx context.Context, id cluster.BackupID, run cluster.RunID) (*manifest.PinRecord, error) {
	pin, _, err := c.StoredPin(ctx, id)
	if err != nil || pin == nil || !pin.Of(run) || !pin.Holds(time.Now()) {
		return nil, err
	}
	return pin, nil
}

// StoredPin returns what is stored as the backup's pin, whether or not it holds, and its version; nil if there is none.
func (c Catalog) StoredPin(
	ctx context.Context, id cluster.BackupID,
) (*manifest.PinRecord, objstore.Version, error) {
	doc, version, err := c.Store.Get(ctx, manifest.PinKey(id))
	switch {
	case failure.Is(err, failure.NotFound):
		return nil, "", nil
	case failure.Is(err, failure.Corrupt):
	case err != nil:
		return nil, "", failure.Annotate(err, "read pin", string(id))
	}
	var pin *manifest.PinRecord
	if err == nil {
		pin, err = manifest.DecodePin(doc)
	}
	if err != nil {
		pin = &manifest.PinRecord{Backup: id, Pin: manifest.Pin{Reason: "its pin cannot be read: " + err.Error()}}
	}
	return pin, version, nil
}

// PinRequest asks for a pin.
type PinRequest struct {
	Backup cluster.BackupID
	Reason string
	Until  time.Time // zero is until it is unpinned
	// Force ignores a deletion that was announced, whose process the user knows to be dead.
	Force bool
	// DryRun checks, and changes nothing.
	DryRun bool
}

// Pin keeps a sealed backup from being deleted, and returns the pin that holds afterwards. It is idempotent. A pin is
// never made shorter; that is a Conflict, as is a backup whose deletion was announced or has begun: a deletion looks
// for a pin after it was announced and before the backup is buried, and Pin looks for the announcement after it has
// written the pin, so that one of them sees the other. An unknown backup is NotFound.
func (c Catalog) Pin(ctx context.Context, req PinRequest) (*manifest.Pin, error) {
	if req.Reason == "" {
		return nil, failure.New(failure.Usage, "pin backup", string(req.Backup), "no reason given")
	}
	m, err := c.Load(ctx, req.Backup)
	if err != nil {
		return nil, err
	}
	stored, version, err := c.StoredPin(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	record := manifest.PinRecord{
		Backup: m.ID, Run: m.Run, Nonce: rand.Text(),
		Pin: manifest.Pin{Reason: req.Reason, PinnedAt: now, Until: req.Until.UTC().Truncate(time.Second)},
	}
	if req.Until.IsZero() {
		record.Until = time.Time{}
	}
	held := stored != nil && stored.Run == m.Run && stored.Holds(now)
	if err := refused(record, stored, held, now); err != nil {
		return nil, err
	}
	if held && stored.Reason == record.Reason && stored.Until.Equal(record.Until) {
		return &stored.Pin, nil
	}
	check := c.checkPinned
	if req.Force || held { // what is pinned already no deletion has passed
		check = c.checkSealed
	}
	if req.DryRun {
		return &record.Pin, check(ctx, m)
	}
	if version, err = c.writePin(ctx, record, version); err != nil {
		return nil, failure.Annotate(err, "pin backup", string(m.ID))
	}
	if err := check(ctx, m); err != nil {
		if !held {
			err = failure.Join(err, c.Store.DeleteVersion(ctx, manifest.PinKey(m.ID), version))
		}
		return nil, err
	}
	return &record.Pin, nil
}

// refused is why the pin cannot take the place of the stored one, which may be nil; held if that holds now.
func refused(record manifest.PinRecord, stored *manifest.PinRecord, held bool, now time.Time) error {
	const hint = "unpin it first: tisnap unpin %s"
	switch id := record.Backup; {
	case stored != nil && stored.Run == "":
		return failure.New(failure.Conflict, "pin backup", string(id), "%s", stored.Reason).WithHint(hint, id)
	case !record.Holds(now):
		return failure.New(failure.Usage, "pin backup", string(id), "%s is over", record.Until.Format(time.RFC3339))
	case held && stored.Outlasts(record.Pin):
		return failure.New(failure.Conflict, "pin backup", string(id), "it is %s, and a pin is never made shorter",
			stored.Pin).WithHint(hint, id)
	}
	return nil
}

func (c Catalog) writePin(
	ctx context.Context, r manifest.PinRecord, old objstore.Version,
) (version objstore.Version, err error) {
	doc, err := r.Encode()
	if err != nil {
		return "", err
	}
	key := manifest.PinKey(r.Backup)
	if old == "" {
		version, err = c.Store.Create(ctx, key, doc)
	} else {
		version, err = c.Store.Replace(ctx, key, doc, old)
	}
	if err == nil {
		return version, nil
	}
	// The answer may be lost; the nonce shows whether these bytes are ours.
	stored, version, readErr := c.Store.Get(ctx, key)
	switch {
	case readErr == nil && bytes.Equal(stored, doc):
		return version, nil
	case failure.Is(err, failure.Conflict):
		return "", failure.New(failure.Conflict, "", "", "another process pinned or unpinned it meanwhile").
			WithHint("run it again")
	}
	return "", err
}

// checkPinned returns a Conflict if a deletion of the backup was announced, or has begun.
func (c Catalog) checkPinned(ctx context.Context, m *manifest.Manifest) error {
	known, _, err := c.readDeletions(ctx, m.Source.Cluster)
	if err != nil {
		return failure.Annotate(err, "pin backup", string(m.ID))
	}
	for _, d := range known.Backups {
		if d == (manifest.Deletion{ID: m.ID, Run: m.Run}) {
			return failure.New(failure.Conflict, "pin backup", string(m.ID), "a deletion of it has been announced").
				WithHint("if no tisnap delete or prune runs, its process is dead: pass --force")
		}
	}
	return c.checkSealed(ctx, m)
}

// checkSealed returns a Conflict if the backup is being deleted.
func (c Catalog) checkSealed(ctx context.Context, m *manifest.Manifest) error {
	still, err := c.stillSealed(ctx, manifest.Deletion{ID: m.ID, Run: m.Run})
	if err == nil && !still {
		err = failure.New(failure.Conflict, "", "", "it is being deleted, or is gone").
			WithHint("see `tisnap list`")
	}
	return failure.Annotate(err, "pin backup", string(m.ID))
}

// Unpin deletes this version of the backup's pin: another one is a Conflict, and stays.
func (c Catalog) Unpin(ctx context.Context, id cluster.BackupID, version objstore.Version) error {
	return failure.Annotate(c.Store.DeleteVersion(ctx, manifest.PinKey(id), version), "unpin backup", string(id))
}
