package doctor

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// checkEC2 asks whose credentials these are.
func (p *patient) checkEC2(ctx context.Context, c Check) []Check {
	e, err := p.ebs()
	if err != nil {
		return c.failed(err)
	}
	account, err := e.AccountID(ctx)
	if err != nil {
		return c.failed(err)
	}
	return c.ok("%s in %s", account, e.Region())
}

// checkReads lists what tisnap made, as gc does.
func (p *patient) checkReads(_ context.Context, c Check) []Check {
	if _, err := p.made(); err != nil {
		return c.outcomeOf(err)
	}
	return c.ok("snapshots and volumes can be listed")
}

// ofCluster makes a check of the cluster's volumes.
func (p *patient) ofCluster(c Check, f func(*preflight.Source, EBS) []Check) []Check {
	src, err := p.source()
	if err != nil {
		return c.notMade(err)
	}
	e, err := p.ebs()
	if err != nil {
		return c.notMade(err)
	}
	return f(src, e)
}

// checkCut asks EC2 whether an instance may be snapshotted.
func (p *patient) checkCut(ctx context.Context, c Check) []Check {
	return p.ofCluster(c, func(src *preflight.Source, e EBS) []Check {
		if err := preflight.ProbeCut(ctx, e, &src.Topology); err != nil {
			return c.outcomeOf(err)
		}
		return c.ok("allowed, by a dry run")
	})
}

// probe asks EC2 whether an action is allowed on what tisnap made. Not being allowed to do what only an option of a
// restore, or `tisnap lock`, does is a warning.
func (p *patient) probe(action ebs.Action, needed bool) func(context.Context, Check) []Check {
	return func(ctx context.Context, c Check) []Check {
		found, err := p.made()
		if err != nil {
			return c.notMade(err)
		}
		e, err := p.ebs()
		if err != nil {
			return c.notMade(err)
		}
		target := string(found.snapshot)
		if action == ebs.ActionDeleteVolume || action == ebs.ActionModifyVolume {
			target = string(found.volume)
		}
		if target == "" && action != ebs.ActionCreateVolume {
			return c.as(Unknown, "check again after a backup or restore",
				"the account has nothing of tisnap's to ask about")
		}
		switch err := e.Probe(ctx, action, target, found.zone); {
		case failure.Is(err, failure.Denied) && !needed:
			by := "options of a restore need"
			if action == ebs.ActionLockSnapshot {
				by = "`tisnap lock` needs"
			}
			return c.as(Warn, failure.HintOf(err), "%v; only %s it", err, by)
		case err != nil:
			return c.outcomeOf(err)
		}
		return c.ok("allowed, by a dry run")
	}
}

// checkCopy asks EC2 whether a snapshot that tisnap made may be copied, within its region and account. Who
// asks about more than copies is only warned.
func (p *patient) checkCopy(ctx context.Context, c Check) []Check {
	found, err := p.made()
	if err != nil {
		return c.notMade(err)
	}
	e, err := p.ebs()
	if err != nil {
		return c.notMade(err)
	}
	if found.snapshot == "" {
		return c.as(Unknown, "check again after a backup, or see tisnap copy --dry-run",
			"the account has no snapshot of tisnap's to ask about")
	}
	err = e.ProbeCopy(ctx, ebs.CopyRequest{
		Snapshot: found.snapshot, Region: e.Region(), Tags: ebs.Tags{ebs.TagRun: "probe", ebs.TagCluster: "probe"},
	})
	switch {
	case failure.Is(err, failure.Denied) && p.purpose != Copy:
		return c.as(Warn, failure.HintOf(err), "%v; only copies need it", err)
	case err != nil:
		return c.outcomeOf(err)
	}
	return c.ok("allowed, by a dry run")
}

// checkKeys has a row for each KMS key of the cluster's volumes.
func (p *patient) checkKeys(ctx context.Context, c Check) []Check {
	return p.ofCluster(c, func(src *preflight.Source, e EBS) []Check {
		var ids []string
		for _, st := range src.Topology.Stores {
			for _, v := range st.Volumes {
				ids = append(ids, v.KMSKey)
			}
		}
		var rows []Check
		for _, key := range preflight.DescribeKeys(ctx, e, ids) {
			c.Subject = key.Name
			switch err := key.Refusal(); {
			case err != nil:
				rows = append(rows, c.failed(err)...)
			case !key.Known:
				rows = append(rows, c.as(Unknown, key.Do, "%s", key.State)...)
			default:
				rows = append(rows, c.ok("%s", key.State)...)
			}
		}
		if len(rows) == 0 {
			return c.ok("none is encrypted with a key of its own")
		}
		return rows
	})
}

// checkDefaultKey asks for the key of copies that are made without another. The permissions for it are optional.
func (p *patient) checkDefaultKey(ctx context.Context, c Check) []Check {
	e, err := p.ebs()
	if err != nil {
		return c.notMade(err)
	}
	chosen, err := e.DefaultKey(ctx)
	var key ebs.Key
	if err == nil {
		key, err = e.DescribeKey(ctx, chosen.Name)
	}
	switch {
	case failure.Is(err, failure.Denied):
		return c.as(Warn, failure.HintOf(err), "%v; without it the plan of a copy without --kms-key counts all in full",
			err)
	case failure.Is(err, failure.NotFound) && chosen.Name == ebs.OwnKeyAlias:
		return c.ok("%s: AWS makes it when it is first used", chosen.Name)
	case err != nil:
		return c.outcomeOf(err)
	case key.State != ebs.KeyEnabled:
		return c.as(Warn, "enable it, or copy with --kms-key",
			"%s is %s: copies of encrypted snapshots get it without --kms-key", key.ARN, key.State)
	}
	return c.ok("%s is %s", key.ARN, key.State)
}

// checkPending checks whether a backup's snapshots fit the account's limit.
func (p *patient) checkPending(ctx context.Context, c Check) []Check {
	return p.ofCluster(c, func(src *preflight.Source, e EBS) []Check {
		n := len(src.Topology.VolumeIDs())
		if err := preflight.CheckPending(ctx, e, n, 0); err != nil {
			return c.outcomeOf(err)
		}
		return c.ok("room for %d more", n)
	})
}

// checkRoom checks whether volumes like the cluster's fit the account's quotas.
func (p *patient) checkRoom(ctx context.Context, c Check) []Check {
	return p.ofCluster(c, func(src *preflight.Source, e EBS) []Check {
		quotas, err := e.Quotas(ctx)
		if err != nil {
			return c.notMade(err)
		}
		var copies []volumes.Volume
		for _, st := range src.Topology.Stores {
			for _, v := range st.Volumes {
				copies = append(copies, volumes.Volume{Spec: v.VolumeSpec})
			}
		}
		if err := volumes.CheckRoom(ctx, e, copies, quotas); err != nil {
			return c.outcomeOf(err)
		}
		return c.ok("room for a copy of the cluster's %d volumes", len(copies))
	})
}

// checkArchiveKey encrypts a text by the KMS key that the check is of, and decrypts it. Who only reads archives may not
// encrypt, and then decrypting cannot be tried.
func (p *patient) checkArchiveKey(ctx context.Context, c Check) []Check {
	const text = "tisnap doctor"
	about := map[string]string{format.KMSContextKey: "doctor"}
	sealed, err := p.kms.EncryptByKey(ctx, c.Subject, []byte(text), about)
	if failure.Is(err, failure.Denied) {
		return c.as(Warn, failure.HintOf(err), "%v; only who makes keys needs it; decrypting cannot be tried without",
			err)
	}
	if err == nil {
		_, err = p.kms.DecryptByKey(ctx, c.Subject, sealed, about)
	}
	if err != nil {
		return c.outcomeOf(err)
	}
	return c.ok("it encrypts and decrypts")
}

// checkBlocks lists the blocks of a snapshot that tisnap made, and reads one of them, as an archive does. Who asks
// about more than archives is only warned.
func (p *patient) checkBlocks(ctx context.Context, c Check) []Check {
	found, err := p.made()
	if err != nil {
		return c.notMade(err)
	}
	if found.snapshot == "" {
		return c.as(Unknown, "check again after a backup", "the account has no snapshot of tisnap's to read")
	}
	blocks, err := p.blocks()
	if err != nil {
		return c.notMade(err)
	}
	empty := true
	for b, listErr := range blocks.Blocks(ctx, found.snapshot, 0) {
		empty = false
		if err = listErr; err == nil {
			_, err = blocks.Read(ctx, b, make([]byte, ebsdirect.BlockSize))
		}
		break
	}
	switch {
	case empty:
		return c.as(Unknown, "check again after a backup of volumes with data",
			"%s has no block to read", found.snapshot)
	case failure.Is(err, failure.Denied) && p.purpose != Archive:
		return c.as(Warn, failure.HintOf(err), "%v; only archives need it", err)
	case err != nil:
		return c.outcomeOf(err)
	}
	return c.ok("a block of %s can be read", found.snapshot)
}
