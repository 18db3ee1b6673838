package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// unusable is a KMS key with which EC2 lost volumes.
type unusable struct {
	key           string // empty is the account's default key
	lost, volumes int
}

// keyAtFault reports whether a KMS key is why volumes are lost: it is not enabled, or all of its volumes failed. A key
// whose state cannot be read is at fault once all of its volumes are lost.
func (m *Maker) keyAtFault(ctx context.Context, a *awaited, lost []*Volume) error {
	of := map[string]*unusable{}
	for _, v := range lost {
		if v.Encrypted && of[v.KMSKey] == nil {
			of[v.KMSKey] = &unusable{key: v.KMSKey}
		}
		if v.Encrypted {
			of[v.KMSKey].lost++
		}
	}
	for i := range m.volumes {
		if v := &m.volumes[i]; v.Encrypted && of[v.KMSKey] != nil {
			of[v.KMSKey].volumes++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		u := of[key]
		answer := preflight.DescribeKey(ctx, m.ec2, key)
		if answer.Known && !answer.Enabled || u.allFailed(a, lost) {
			return u.because(answer)
		}
	}
	return nil
}

// allFailed reports whether EC2 shows all of the key's volumes, several, as failed.
func (u *unusable) allFailed(a *awaited, lost []*Volume) bool {
	failed := 0
	for _, v := range lost {
		if v.Encrypted && v.KMSKey == u.key && a.failed[v.ID] != "" {
			failed++
		}
	}
	return failed > 1 && failed == u.volumes
}

// unusableKey returns the key whose volumes were all lost, or nil: several volumes once each, or a single one twice, as
// EC2 occasionally loses a volume for no reason. A key with which a volume was made is usable.
func unusableKey(volumes []Volume) *unusable {
	type use struct{ all, lost, times int }
	keys := map[string]use{}
	for _, v := range volumes {
		if !v.Encrypted {
			continue
		}
		u := keys[v.KMSKey]
		u.all++
		if v.generation > 1 && v.Seconds == 0 {
			u.lost++
			u.times += v.generation - 1
		}
		keys[v.KMSKey] = u
	}
	for key, u := range keys {
		if u.lost == u.all && u.times > 1 {
			return &unusable{key: key, lost: u.all, volumes: u.all}
		}
	}
	return nil
}

// why reads the key's state from KMS and returns what to do. If it may not be read the error reports that.
func (u *unusable) why(ctx context.Context, keys ebs.Keys) error {
	return u.because(preflight.DescribeKey(ctx, keys, u.key))
}

func (u *unusable) because(answer preflight.Key) error {
	state, count := answer.State, fmt.Sprintf("all %d", u.volumes)
	if answer.Enabled {
		state += ", so this role may not use it"
	}
	if u.lost != u.volumes {
		count = fmt.Sprintf("%d of %d", u.lost, u.volumes)
	}
	return failure.New(failure.Denied, "create volumes", answer.Name,
		"%s volumes that EC2 was to encrypt with it failed or vanished while they were made: %s", count, state).
		WithHint("%s; then restore again", answer.Do)
}
