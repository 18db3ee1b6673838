package crash

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
)

// Run is the command that is killed.
type Run string

// The runs of the matrix.
const (
	Backup  Run = "backup"
	Restore Run = "restore"
	Resolve Run = "resolve" // of a cluster whose restore was killed when its stores were up
	Prune   Run = "prune"
	Delete  Run = "delete"
	Archive Run = "archive" // of the baseline
	// RestoreArchive restores an archive of the baseline.
	RestoreArchive Run = "restore-archive"
	// RestoreVolumes does so straight to volumes that Jobs fill.
	RestoreVolumes Run = "restore-volumes"
	// Copy pushes the baseline into another account and region, by a role there.
	Copy Run = "copy"
	// Lock locks the snapshots of a backup.
	Lock Run = "lock"
	// Adopt makes one backup of two parts.
	Adopt Run = "adopt"
	// ArchivePrune, ArchiveForget, ArchiveRotate, ArchiveRepair and ArchiveVerify prune, forget, give new keys, repair damage
	// and look for it in a repository of archives.
	ArchivePrune  Run = "archive-prune"
	ArchiveForget Run = "archive-forget"
	ArchiveRotate Run = "archive-rotate"
	ArchiveRepair Run = "archive-repair"
	ArchiveVerify Run = "archive-verify"
	// Restore2 and Resolve2 are of a cluster of TiDB Operator 2.x.
	Restore2 Run = "restore-2x"
	Resolve2 Run = "resolve-2x"
)

// Runs lists all of them.
func Runs() []Run {
	return []Run{
		Backup, Restore, Resolve, Prune, Delete, Archive, RestoreArchive, RestoreVolumes, ArchivePrune, ArchiveForget, ArchiveRotate, ArchiveRepair,
		ArchiveVerify, Copy, Lock, Adopt, Restore2, Resolve2,
	}
}

// operator is the generation of TiDB Operator that the clusters of the run are of.
func (r Run) operator() int {
	if r == Restore2 || r == Resolve2 {
		return 2
	}
	return 1
}

// resolves reports whether the run is a resolve alone.
func (r Run) resolves() bool { return r == Resolve || r == Resolve2 }

// restores reports whether the run leads to a cluster that serves.
func (r Run) restores() bool {
	return r == Restore || r == RestoreArchive || r == RestoreVolumes || r == Restore2 || r.resolves()
}

// steps are those of the run, with every option that adds one; nil for a command without a journal, which is killed at
// its effects.
func (r Run) steps() []phase.Outline {
	ofRestore, ofResolve := restore.Outline()
	return map[Run][]phase.Outline{
		Backup: backup.Outline(), Restore: ofRestore, Resolve: ofResolve, Archive: create.Outline(),
		RestoreArchive: restore.OutlineFromArchive(), RestoreVolumes: restore.OutlineToVolumes(), Restore2: ofRestore, Resolve2: ofResolve, Copy: copyrun.Outline(),
	}[r]
}

// scene is one run that is killed, run again and checked, on names of its own.
type scene struct {
	*world
	run    Run
	store  objstore.Store // the one that gets what the run makes
	name   string         // of the backup
	target cluster.Name   // of the restore
	report *report.Report // the last one that was read as a result
	only   cluster.RunID  // whose journal nothing may be written to by a process that was suspended; "" is all runs
}

// scene makes the next one.
func (w *world) scene(run Run) *scene {
	w.n++
	s := &scene{world: w, run: run, store: w.store, name: baseline, target: cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("copy-%d", w.n)}}
	if !run.restores() && run != Archive && run != Copy {
		s.name = fmt.Sprintf("backup-%d", w.n)
	}
	return s
}

// args is the command.
func (s *scene) args() []string {
	switch s.run {
	case Backup:
		return s.backupArgs(s.name)
	case Resolve, Resolve2:
		return []string{"resolve", s.target.String(), "--backup", s.name, "--timeout", "1m"}
	case Prune: // the baseline has its tag, and the newest one always stays
		return []string{"prune", source.String(), "--keep-last", "1", "--keep-tag", baseline, "--yes", "--delete-rate", "100"}
	case Archive:
		return s.inRepo("create", s.name)
	case RestoreArchive:
		return append(append(s.restoreArgs(s.name, s.target), "--from-archive"), s.repoFlags()...)
	case RestoreVolumes:
		return append([]string{
			"restore", s.name, "--to", s.target.String(), "--timeout", "2m", "--from-archive", "--archive-via", "volumes", "--image",
			"tisnap", "--worker-secret", s.secret(),
		}, s.repoFlags()...)
	case ArchivePrune:
		return append(s.pruneArgs(), "--break-leases-after", "2h")
	case ArchiveForget:
		return s.inRepo("forget", "--keep-last", "2", "--yes")
	case ArchiveRotate:
		return s.inRepo("key", "rotate")
	case ArchiveRepair:
		return s.inRepo("repair")
	case ArchiveVerify:
		return s.inRepo("verify")
	case Copy:
		return s.copyArgs()
	case Lock:
		return []string{"lock", s.name, "--mode", ebs.LockGovernance, "--until", lockedUntil}
	case Adopt:
		return s.adoptArgs()
	case Delete:
		return []string{"delete", s.name, "--yes", "--delete-rate", "100"}
	default:
		return s.restoreArgs(s.name, s.target)
	}
}

// locked is the cluster whose lock the run takes.
func (s *scene) locked() cluster.Name {
	if s.run.restores() {
		return s.target
	}
	about := journal.About{Cluster: source}
	switch s.run {
	case Archive:
		about.Operation = journal.Archive
	case Copy:
		about.Operation = journal.Copy
	default:
		return source
	}
	return about.Lock()
}

// verifyResult proves what the run made, and removes it: a backup is restored for that.
func (s *scene) verifyResult(ctx context.Context) error {
	switch s.run {
	case Prune, Delete:
		return s.verifyDeleted(ctx)
	case Archive:
		return s.verifyArchived(ctx)
	case ArchivePrune, ArchiveForget, ArchiveRotate, ArchiveRepair, ArchiveVerify:
		return s.verifyRepository(ctx)
	case Copy:
		return s.verifyCopied(ctx)
	case Lock:
		return s.verifyLocked(ctx)
	case Adopt:
		return s.verifyAdopted(ctx)
	default: // has or makes a cluster
	}
	if s.run == Backup {
		if err := s.succeeds(ctx, "restore", s.name, "--to", s.target.String(), "--timeout", "1m"); err != nil {
			return err
		}
	}
	if err := s.verify(ctx, s.target); err != nil {
		return err
	}
	if err := s.balanced(ctx); err != nil {
		return err
	}
	if _, err := s.bed.DestroyCluster(ctx, s.target); err != nil {
		return err
	}
	if s.run == Backup {
		return s.succeeds(ctx, "delete", s.name, "--yes", "--delete-rate", "100")
	}
	return nil
}
