package doctor

import (
	"context"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// check is a check to make, and what it is for.
type check struct {
	Check
	of   []Purpose
	make func(context.Context, Check) []Check
}

// checks lists all checks, in the order in which they are shown.
func (p *patient) checks() []check {
	backup, restore, both := []Purpose{Backup}, []Purpose{Restore}, []Purpose{Backup, Restore}
	all := []Purpose{Backup, Restore, GC}
	row := func(name, subject string, of []Purpose, f func(context.Context, Check) []Check) check {
		return check{Check{Name: name, Subject: subject}, of, f}
	}
	return []check{
		row("kubernetes", p.name.String(), all, p.checkKubernetes),
		row("rbac", "backup", backup, p.checkRBAC(false)),
		row("rbac", "restore", []Purpose{Restore, GC}, p.checkRBAC(true)),
		row("pd", p.name.String(), backup, p.checkPD),
		row("tikv", "stores", backup, p.checkTiKV),
		row("tikv", "pods and volumes", backup, p.checkSource),
		row("tikv", "resolved ts", backup, p.checkResolvedTS),
		row("tikv", "early apply", backup, p.checkEarlyApply),
		row("ec2", "account", all, p.checkEC2),
		row("iam", "ec2:Describe…", all, p.checkReads),
		row("iam", string(ebs.ActionCreateSnapshots), backup, p.checkCut),
		row("iam", string(ebs.ActionCreateVolume), restore, p.probe(ebs.ActionCreateVolume, true)),
		row("iam", string(ebs.ActionDeleteSnapshot), []Purpose{Backup, GC}, p.probe(ebs.ActionDeleteSnapshot, true)),
		row("iam", string(ebs.ActionDeleteVolume), []Purpose{Restore, GC}, p.probe(ebs.ActionDeleteVolume, true)),
		row("iam", string(ebs.ActionModifyVolume), restore, p.probe(ebs.ActionModifyVolume, false)),
		row("iam", string(ebs.ActionEnableFastRestore), restore, p.probe(ebs.ActionEnableFastRestore, false)),
		row("kms", "volumes", both, p.checkKeys),
		row("quota", "pending snapshots", backup, p.checkPending),
		row("quota", "volumes", restore, p.checkRoom),
		row("storage", "writes", all, p.checkWrites),
		row("storage", "identity", all, p.checkIdentity),
		row("bucket", "versioning", all, p.checkVersioning),
		row("bucket", "lifecycle", all, p.checkLifecycle),
		row("bucket", "object lock", all, p.checkObjectLock),
		row("clock", "pd", backup, p.checkPDClock),
		row("clock", "s3", all, p.checkS3Clock),
	}
}
