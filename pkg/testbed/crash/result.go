package crash

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	identity "github.com/tisnap/tisnap/pkg/storage"
)

// result is all that a run made, as the values of its documents by their paths: "manifest.replicas" is "3". What must
// differ between two runs is left out, or has a word in its place.
type result map[string]string

// result reads what the run of the scene made.
func (s *scene) result(ctx context.Context) (result, error) {
	docs := map[string]any{}
	var err error
	switch {
	case s.run == Backup:
		err = s.readBackup(ctx, docs)
	case s.run.restores():
		err = s.readRestored(ctx, docs)
	case s.run == Archive:
		err = s.readArchived(ctx, docs)
	case s.run.inRepository():
		err = s.readRepository(ctx, docs)
	case s.run == Copy:
		err = s.readCopied(ctx, docs)
	case s.run == Lock:
		err = s.readLocked(ctx, docs)
	case s.run == Adopt:
		err = s.readAdopted(ctx, docs)
	default:
		err = s.readDeleted(ctx, docs)
	}
	if err != nil {
		return nil, failure.Annotate(err, "read the result", string(s.run))
	}
	own, err := identity.Read(ctx, s.store)
	if err != nil {
		return nil, failure.Annotate(err, "read the storage's id", string(s.run))
	}
	out := result{}
	names, runs := s.names(own.ID), runIDs()
	for name, doc := range docs {
		text, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		value, err := decode(runs.ReplaceAllString(names.Replace(string(text)), "RUN"))
		if err != nil {
			return nil, err
		}
		out.add(name, value)
	}
	out.nameStores(s.pods())
	return out, nil
}

// readBackup reads the manifest and the report. The manifest has the digest of the marks.
func (s *scene) readBackup(ctx context.Context, docs map[string]any) error {
	c := catalog.Catalog{Store: s.store}
	m, err := c.Load(ctx, cluster.BackupID(s.name))
	if err != nil {
		return err
	}
	reports, err := history.Open(s.store).Reports(ctx, m.ID)
	if err != nil {
		return err
	}
	m.Kubernetes.TidbCluster, err = withoutStatus(m.Kubernetes.TidbCluster)
	if err != nil {
		return err
	}
	docs["manifest"] = m
	if len(reports) == 0 || reports[0].Operation != report.Backup {
		return fmt.Errorf("backup %s has no report", m.ID)
	}
	docs["report"], s.report = reports[0], reports[0]
	return nil
}

// readRestored reads the report of the run and the cluster: its objects and volumes.
func (s *scene) readRestored(ctx context.Context, docs map[string]any) error {
	reports, err := history.Open(s.store).Reports(ctx, cluster.BackupID(s.name))
	if err != nil {
		return err
	}
	for _, r := range reports {
		if r.Cluster != s.target || r.Outcome != phase.Done {
			continue
		}
		if docs["report"] != nil {
			return fmt.Errorf("%s has more than one report", s.target)
		}
		docs["report"], s.report = r, r
	}
	if docs["report"] == nil {
		return fmt.Errorf("%s has no report", s.target)
	}
	docs["kubernetes"] = s.objects()
	docs["volumes"] = s.volumes()
	return nil
}

// makes proves that the run made what an undisturbed one makes.
func (s *scene) makes(ctx context.Context, undisturbed result) error {
	made, err := s.result(ctx)
	if err != nil {
		return err
	}
	return failure.Annotate(made.equal(undisturbed), "compare the result", "")
}

// withoutStatus is an object without what the Operator saw last.
func withoutStatus(object json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	return json.Marshal(fields)
}
