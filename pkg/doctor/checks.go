package doctor

import (
	"context"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube"
)

// check is a check to make, and what it is for.
type check struct {
	Check
	of   []Purpose
	make func(context.Context, Check) []Check
}

// checks lists all checks, in the order in which they are shown.
func (p *patient) checks() []check {
	backup, restore, both := []Purpose{Backup}, []Purpose{Restore, Drill}, []Purpose{Backup, Restore, Drill}
	all, stored := []Purpose{Backup, Restore, GC, Drill}, []Purpose{Backup, Restore, GC, Archive, Copy, Drill}
	row := func(name, subject string, of []Purpose, f func(context.Context, Check) []Check) check {
		return check{Check{Name: name, Subject: subject}, of, f}
	}
	var keys []check
	for _, key := range p.keys {
		keys = append(keys, row("kms", key, []Purpose{Archive}, p.checkArchiveKey))
	}
	if p.repository != nil {
		of := []Purpose{Archive}
		keys = append(keys, row("repository", "writes", of, checkWrites(p.repository)),
			row("repository", "versions", of, p.checkRepositoryVersions),
			row("repository", "object lock", of, p.checkRepositoryLock),
			row("rbac", "archive create --on-kubernetes", of, p.checkJobs(kube.JobsArchive)),
			row("rbac", "archive restore --to-claims", of, p.checkJobs(kube.JobsFill)))
	}
	return append(keys, []check{
		row("kubernetes", p.name.String(), all, p.checkKubernetes),
		row("rbac", "backup", backup, p.checkRBAC(false)),
		row("rbac", "restore", []Purpose{Restore, GC}, p.checkRBAC(true)),
		row("rbac", "drill", []Purpose{Drill}, p.checkDrillRBAC),
		row("pd", p.name.String(), backup, p.checkPD),
		row("tikv", "stores", backup, p.checkTiKV),
		row("tikv", "pods and volumes", backup, p.checkSource),
		row("tikv", "resolved ts", backup, p.checkResolvedTS),
		row("tikv", "early apply", backup, p.checkEarlyApply),
		row("ec2", "account", stored, p.checkEC2),
		row("iam", "ec2:Describe…", stored, p.checkReads),
		row("iam", string(ebs.ActionCreateSnapshots), backup, p.checkCut),
		row("iam", string(ebs.ActionCreateVolume), restore, p.probe(ebs.ActionCreateVolume, true)),
		row("iam", string(ebs.ActionDeleteSnapshot), []Purpose{Backup, GC, Copy},
			p.probe(ebs.ActionDeleteSnapshot, true)),
		row("iam", string(ebs.ActionDeleteVolume), []Purpose{Restore, GC, Drill},
			p.probe(ebs.ActionDeleteVolume, true)),
		row("iam", string(ebs.ActionModifyVolume), restore, p.probe(ebs.ActionModifyVolume, false)),
		row("iam", string(ebs.ActionEnableFastRestore), restore, p.probe(ebs.ActionEnableFastRestore, false)),
		row("iam", string(ebs.ActionLockSnapshot), backup, p.probe(ebs.ActionLockSnapshot, false)),
		row("iam", string(ebs.ActionCopySnapshot), []Purpose{Copy}, p.checkCopy),
		row("iam", "ebs:GetSnapshotBlock", []Purpose{Archive}, p.checkBlocks),
		row("kms", "volumes", both, p.checkKeys),
		row("kms", "default key", []Purpose{Copy}, p.checkDefaultKey),
		row("quota", "pending snapshots", backup, p.checkPending),
		row("quota", "volumes", restore, p.checkRoom),
		row("storage", "writes", stored, checkWrites(p.store)),
		row("storage", "identity", stored, p.checkIdentity),
		row("bucket", "versioning", stored, p.checkVersioning),
		row("bucket", "lifecycle", stored, p.checkLifecycle),
		row("bucket", "object lock", stored, p.checkObjectLock),
		row("clock", "pd", backup, p.checkPDClock),
		row("clock", "s3", stored, p.checkS3Clock),
	}...)
}
