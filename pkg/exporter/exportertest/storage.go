package exportertest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Storage writes into a store. Its methods do nothing after the first error, which Err returns.
type Storage struct {
	ctx   context.Context // of one test
	store objstore.Store
	err   error
}

// New writes into the store.
func New(ctx context.Context, store objstore.Store) *Storage { return &Storage{ctx: ctx, store: store} }

// Err is the first error.
func (s *Storage) Err() error { return s.err }

func (s *Storage) put(key string, body any) {
	if s.err != nil {
		return
	}
	raw, isRaw := body.([]byte)
	if !isRaw {
		raw, s.err = json.Marshal(body)
	}
	if s.err == nil {
		_, s.err = s.store.Create(s.ctx, key, raw)
	}
}

// Sealed adds a sealed backup without a report. Its key is its id, which has to be one.
func (s *Storage) Sealed(id cluster.BackupID, of cluster.Name, run cluster.RunID, at time.Time) {
	doc := []byte(`{"not":"read"}`)
	digest := sha256.Sum256(doc)
	s.put(manifest.ManifestKey(id), doc)
	s.put(manifest.SealKey(id), manifest.SealRecord{
		APIVersion: manifest.APIVersion, Kind: manifest.SealKind, ID: id, SHA256: hex.EncodeToString(digest[:]), Size: int64(len(doc)),
		SealedAt: at.Add(15 * time.Minute), Run: run, Cluster: of, Version: "v8.5.2", BackupTS: cluster.TS(at.UnixMilli() << 18), CreatedAt: at,
		Stores: 3, Snapshots: 6, SizeGiB: 6000, DataBytes: 3 << 40,
	})
}

// Report adds the report of a run.
func (s *Storage) Report(r *report.Report) {
	var b bytes.Buffer
	if s.err == nil {
		s.err = r.JSON(&b)
	}
	s.put(manifest.ReportKey(r.Backup, r.Run), b.Bytes())
}

// Archives adds what a repository has.
func (s *Storage) Archives(repository string, of ...manifest.ClustersArchives) {
	s.UnreadableArchives(repository, 0, of...)
}

// UnreadableArchives is Archives of a repository in which some archives cannot be read.
func (s *Storage) UnreadableArchives(repository string, unreadable int, of ...manifest.ClustersArchives) {
	s.put(manifest.ArchivesKey(repository), manifest.Archives{
		APIVersion: manifest.APIVersion, Kind: manifest.ArchivesKind, Repository: repository, Clusters: of,
		Unreadable: unreadable,
	})
}

// Lock adds a cluster's lock; dead is one whose owner did not renew it for long.
func (s *Storage) Lock(of cluster.Name, run cluster.RunID, acquired time.Time, dead bool) {
	r := runlock.Record{
		Cluster: of, Owner: runlock.Owner{Run: run, Host: "backup-28a1-xk2p", PID: 1, Command: "backup"}, Epoch: 1, AcquiredAt: acquired,
		RenewedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute), RenewSeconds: 20, Nonce: "n",
	}
	if dead {
		r.RenewedAt, r.ExpiresAt, r.RenewSeconds = acquired, acquired.Add(time.Minute), 0
	}
	s.put(manifest.LockKey(of), r)
}

// SilentLock adds the lock of an owner that has missed some renewals, and may be dead.
func (s *Storage) SilentLock(of cluster.Name, run cluster.RunID, acquired time.Time) {
	s.put(manifest.LockKey(of), runlock.Record{
		Cluster: of, Owner: runlock.Owner{Run: run, Host: "backup-28a1-xk2p", PID: 1, Command: "backup"}, Epoch: 1, AcquiredAt: acquired,
		RenewedAt: time.Now().Add(-70 * time.Second), ExpiresAt: time.Now().Add(9 * time.Minute), RenewSeconds: 20, Nonce: "n",
	})
}

// Journal adds the journal of a backup that came as far as the last of the steps, ten seconds each, and did not end it.
func (s *Storage) Journal(of cluster.Name, run cluster.RunID, backup cluster.BackupID, began time.Time, steps ...string) {
	s.Began(journal.About{Operation: journal.Backup, Cluster: of, Backup: backup, Tool: "v1"}, run, began, steps...)
}

// Began adds the journal of any run as Journal does.
func (s *Storage) Began(about journal.About, run cluster.RunID, began time.Time, steps ...string) {
	seq := 0
	add := func(kind phase.RecordType, step string, data any) {
		seq++
		r := phase.Record{Seq: seq, Time: began, Run: run, Type: kind, Step: step}
		if data != nil {
			r.Data, s.err = json.Marshal(data)
		}
		s.put(manifest.JournalKey(run, seq), r)
	}
	add(phase.RecordRun, "", about)
	for i, step := range steps {
		add(phase.RecordBegin, step, nil)
		began = began.Add(10 * time.Second)
		if i < len(steps)-1 {
			add(phase.RecordDone, step, nil)
		}
	}
}

// Expected adds to a journal how long its run should take, as this record of it.
func (s *Storage) Expected(run cluster.RunID, seq int, at time.Time, expected report.Expected) {
	data, err := json.Marshal(expected)
	s.err = cmp.Or(s.err, err)
	s.put(manifest.JournalKey(run, seq), phase.Record{
		Seq: seq, Time: at, Run: run, Type: phase.RecordResult, Step: "preflight", Name: journal.ResultExpected, Data: data,
	})
}

// Example fills the storage with three clusters: one that is backed up every day and just now, one that a dead run holds,
// and one whose backups fail.
func (s *Storage) Example(now time.Time) {
	prod, held, failing := cluster.Name{Namespace: "tidb", Name: "prod"}, cluster.Name{Namespace: "tidb", Name: "orders"}, cluster.Name{Namespace: "dev", Name: "sandbox"}
	for i := range 40 {
		at := now.Add(-time.Duration(40-i) * 24 * time.Hour)
		id := cluster.BackupID("prod-" + at.UTC().Format("20060102-150405"))
		run := cluster.RunID(fmt.Sprintf("%s-%08x", at.UTC().Format("20060102t150405"), i))
		s.Sealed(id, prod, run, at)
		s.Report(Backup(id, prod, run, at, 780+float64(i*37%211), 3.5+float64(i*13%29)/10))
		if i == 38 {
			s.Report(Restore(id, cluster.Name{Namespace: "dr", Name: "copy"}, "20261120t120000-0000beef", at.Add(6*time.Hour)))
			s.Report(Drill(id, prod, "20261120t180000-0000d211", at.Add(12*time.Hour)))
			s.Report(Archive(id, prod, "20261120t190000-0000a4c1", at.Add(13*time.Hour)))
		}
	}
	s.Archives("a4c1", manifest.ClustersArchives{Cluster: prod, Archives: 3, Blocks: 4 << 20, UnreadBlocks: 1 << 20, Verified: now.Add(-30 * time.Hour)})
	s.Sealed("orders-1", held, "20261101t010000-00000aaa", now.Add(-30*time.Hour))
	s.Report(Backup("orders-1", held, "20261101t010000-00000aaa", now.Add(-30*time.Hour), 420, 2.1))
	s.Report(Failed(failing, "20261121t010000-00000bad", now.Add(-3*time.Hour)))
	s.Lock(prod, "20261122t100000-11fe11fe", now.Add(-50*time.Second), false)
	s.Journal(prod, "20261122t100000-11fe11fe", "prod-now", now.Add(-50*time.Second), "preflight", "lock", "connect", "hold", "hold-gc")
	s.Expected("20261122t100000-11fe11fe", 11, now.Add(-40*time.Second), report.Expected{
		Model: "12 runs of this storage", Seconds: 900, LowSeconds: 760, HighSeconds: 1080,
	})
	s.Lock(held, "20261122t090000-0dead000", now.Add(-time.Hour), true)
	s.Journal(held, "20261122t090000-0dead000", "orders-2", now.Add(-time.Hour), "preflight", "lock", "connect", "hold", "hold-gc", "backup-ts", "cut")
}
