package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// versionsOf lists those of a key, without what only the server chooses.
func versionsOf(t *testing.T, of objstore.Bucket, key string) (out, plain []objstore.ObjectVersion) {
	t.Helper()
	all, err := of.Versions(t.Context(), key)
	require.NoError(t, err)
	for _, v := range all {
		if v.Key != key {
			continue
		}
		require.NotEmpty(t, v.ID)
		require.WithinDuration(t, time.Now(), v.Modified, time.Minute)
		out = append(out, v)
		v.ID, v.Modified = "", time.Time{}
		plain = append(plain, v)
	}
	return out, plain
}

func versionsRead(t *testing.T, b *madeBucket) {
	b.setVersioning(t, "Enabled")
	of, s := b.folder(t, "p"), b.server.Open(t, "s3://"+b.name+"/p")
	first := create(t, s, "a", "one")
	second, err := s.Replace(t.Context(), "a", []byte("second"), first)
	require.NoError(t, err)
	create(t, s, "a2", "x")
	all, plain := versionsOf(t, of, "a")
	want := []objstore.ObjectVersion{{Key: "a", Size: 6, Version: second, Latest: true}, {Key: "a", Size: 3, Version: first}}
	require.Equal(t, want, plain)
	require.NoError(t, s.Delete(t.Context(), "a"))
	want[0].Latest = false
	_, plain = versionsOf(t, of, "a")
	require.Equal(t, append(want, objstore.ObjectVersion{Key: "a", Latest: true, Marker: true}), plain)
	_, _, err = s.Get(t.Context(), "a")
	kind(t, failure.NotFound, err)
	body, version, err := of.Get(t.Context(), "a", all[1].ID)
	require.NoError(t, err)
	require.Equal(t, "one", string(body))
	require.Equal(t, first, version)
	part := make([]byte, 3)
	require.NoError(t, of.GetRange(t.Context(), "a", all[0].ID, 3, part))
	require.Equal(t, "ond", string(part))
}

func versionsRemoved(t *testing.T, b *madeBucket) {
	b.setVersioning(t, "Enabled")
	of, s := b.folder(t, "p"), b.server.Open(t, "s3://"+b.name+"/p")
	first := create(t, s, "a", "one")
	_, err := s.Replace(t.Context(), "a", []byte("two"), first)
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "a"))
	all, _ := versionsOf(t, of, "a")
	require.Len(t, all, 3)
	for _, v := range []objstore.ObjectVersion{all[2], all[0]} { // the marker, and what it was put before
		require.NoError(t, of.Remove(t.Context(), "a", v.ID))
	}
	body, _, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "one", string(body))
	require.NoError(t, of.Remove(t.Context(), "a", all[1].ID))
	none, _ := versionsOf(t, of, "a")
	require.Empty(t, none)
	kind(t, failure.Usage, of.Remove(t.Context(), "a", ""))
}

func retaining(t *testing.T, b *madeBucket) {
	of := b.folder(t, "p")
	s := of.Retaining(objstore.RetainGovernance, time.Hour)
	first := create(t, s, "a", "one")
	_, err := s.Replace(t.Context(), "a", []byte("two"), first)
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "a"), "a marker is put before it")
	all, _ := versionsOf(t, of, "a")
	require.Len(t, all, 3)
	for _, v := range all[:2] {
		r, err := of.Retention(t.Context(), "a", v.ID)
		require.NoError(t, err)
		require.Equal(t, objstore.RetainGovernance, r.Mode)
		require.WithinDuration(t, time.Now().Add(time.Hour), r.Until, time.Minute)
		kind(t, failure.Denied, of.Remove(t.Context(), "a", v.ID))
	}
	body, _, err := of.Get(t.Context(), "a", all[1].ID)
	require.NoError(t, err)
	require.Equal(t, "one", string(body))
}

// byDefault keeps all that is written for a day.
const byDefault = `<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><ObjectLockEnabled>Enabled</ObjectLockEnabled>` +
	"<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>"

// Under a default retention all that works as ever: S3 puts versions and markers before what is kept.
func retainedByDefault(t *testing.T, b *madeBucket) {
	b.set(t, "object-lock", byDefault)
	of, s := b.folder(t, "p"), b.server.Open(t, "s3://"+b.name+"/p")
	first := create(t, s, "a", "one")
	_, err := s.Replace(t.Context(), "a", []byte("two"), first)
	require.NoError(t, err)
	_, err = s.Replace(t.Context(), "a", []byte("three"), first)
	kind(t, failure.Conflict, err)
	require.NoError(t, s.Delete(t.Context(), "a"))
	_, _, err = s.Get(t.Context(), "a")
	kind(t, failure.NotFound, err)
	all, _ := versionsOf(t, of, "a")
	require.Len(t, all, 3)
	kind(t, failure.Denied, of.Remove(t.Context(), "a", all[1].ID))
}

func defaultIsShown(t *testing.T, b *madeBucket) {
	b.set(t, "object-lock", byDefault)
	create(t, b.server.Open(t, "s3://"+b.name+"/p"), "a", "one")
	r, err := b.folder(t, "p").Retention(t.Context(), "a", "")
	require.NoError(t, err)
	require.Equal(t, objstore.RetainCompliance, r.Mode)
	require.WithinDuration(t, time.Now().AddDate(0, 0, 1), r.Until, 2*time.Hour)
}

func extend(t *testing.T, b *madeBucket) {
	of, s := b.folder(t, "p"), b.server.Open(t, "s3://"+b.name+"/p")
	create(t, s, "a", "one")
	all, _ := versionsOf(t, of, "a")
	until := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	for _, by := range []time.Duration{0, -time.Hour, time.Minute} { // shorter is none
		require.NoError(t, of.Extend(t.Context(), "a", all[0].ID, objstore.Retention{Mode: objstore.RetainGovernance, Until: until.Add(by)}))
		r, err := of.Retention(t.Context(), "a", "")
		require.NoError(t, err)
		require.True(t, until.Add(max(by, 0)).Equal(r.Until), "%s by %s", r.Until, by)
	}
	kind(t, failure.NotFound, of.Extend(t.Context(), "b", "", objstore.Retention{Mode: objstore.RetainGovernance, Until: until}))
}
