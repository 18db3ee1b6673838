package brcompat

import (
	"context"
	"os"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// restoreVolumes creates the volumes for a cluster that the Operator created, and writes the document with their ids
// for the Operator to bind. A failed run leaves neither volumes nor document.
func (a *app) restoreVolumes(ctx context.Context, f restoreFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.close()
	r, err := a.newRestore(ctx, c)
	if err != nil {
		return err
	}
	if err := r.document.matchObjects(c.log); err != nil {
		return err
	}
	if r.deps.EBS, err = c.ebs(ctx); err != nil {
		return err
	}
	r.opts.Volume, r.opts.Zone, r.opts.FastRestore = f.volume(), cluster.Zone(f.TargetAZ), f.UseFSR
	r.opts.Encrypt, r.opts.Scope = f.VolumeEncrypted, volumes.Scope(f.VolumeScope)
	written := false
	r.deps.HandOver = func(_ context.Context, made []restore.Volume) error {
		err := r.document.writeRestored(f.OutputFile, made)
		written = written || err == nil
		return err
	}
	weights := map[string]float64{journal.StepCreateVolumes: 20, "await-volumes": 80}
	if f.UseFSR {
		weights["fast-restore"] = 100
	}
	err = a.carryOut(ctx, r, f.ProgressFile, weights, restore.Prepare)
	if err != nil && written {
		_ = os.Remove(f.OutputFile) // the run's error counts; the file is not read after a failure
	}
	return err
}

// matchObjects refuses a document whose volumes the Operator could not bind, which the Operator would notice only after
// they exist: each needs its persistent volume and claim. Objects without a volume, which the Operator refuses too, are
// omitted from its document.
func (d *document) matchObjects(log *zap.Logger) error {
	f := volumeFile{BRMeta: d.BRMeta}
	if err := f.matchObjects(); err != nil {
		return failure.Annotate(err, "check "+manifest.BRBackupMeta, string(d.manifest.ID))
	}
	if len(f.dropped) > 0 {
		log.Warn("omitting objects that belong to none of the backup's volumes",
			zap.Strings("objects", f.dropped))
	}
	return nil
}

// writeRestored writes the document with the created volumes.
func (d *document) writeRestored(file string, volumes []restore.Volume) error {
	for _, v := range volumes {
		if !d.SetRestoreVolume(v.Snapshot, v.ID, v.Zone) {
			return failure.New(failure.Corrupt, "write restored volumes", file,
				"the document does not name snapshot %s", v.Snapshot)
		}
	}
	content, err := d.Encode()
	if err != nil {
		return err
	}
	return failure.Wrap(replaceFile(file, content), failure.Denied, "write --output-file", file)
}
