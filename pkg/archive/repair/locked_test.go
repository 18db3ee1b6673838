package repair_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repair"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

const daily = "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>"

// In a bucket with Object Lock, by its default or by the repository's retention, a repair needs to delete nothing: what
// others deleted or overwrote is copied from behind that, and what is lost from another archive. What it writes is
// retained.
func TestRun_ObjectLock_IsRepairedAndRetained(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	for name, row := range map[string]struct {
		rule string
		keep format.Retention
	}{
		"by default":   {rule: daily},
		"by retention": {keep: format.Retention{Mode: objstore.RetainCompliance, Days: 2}},
		"by both":      {daily, format.Retention{Mode: objstore.RetainCompliance, Days: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			server := objstoretest.New(objstoretest.Config{})
			require.NoError(t, server.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			server.CreateBucket("locked")
			server.LockBucket("locked")
			server.SetObjectLock("locked", row.rule)
			store, err := objstore.Open(t.Context(), "s3://locked/a", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
			require.NoError(t, err)
			t.Cleanup(store.(interface{ Close() }).Close)
			l := &lab{store: store}
			l.Repository, l.owner, err = archivetest.NewWith(t.Context(), store, format.Settings{
				PackSize: format.MaxSealed, Storage: format.Storage{ObjectLock: true}, Retention: row.keep,
			})
			require.NoError(t, err)
			a := l.archive(t, "a", "", 1, 2, 3)
			l.archive(t, "other", "", 9, 8, 7, 1)
			lost := append(format.Segment{}, a...)
			lost[0].Pack.Name = format.NewPackName() // never written
			l.commit(t, "b", "", lost)
			l.lose(t, a[1])
			l.flip(t, a[2].Pack.Name.Path(), int(a[2].Block.Offset))

			report, err := repair.Run(t.Context(), l.Repository, l.options(t))
			require.NoError(t, err)
			require.Empty(t, report.Left)
			require.NotEmpty(t, report.Repaired)
			l.isWhole(t, "a", 1, 2, 3)
			l.isWhole(t, "b", 1, 2, 3)
			bucket, _ := objstore.BucketOf(store)
			for _, place := range l.segment(t, "b") {
				has, err := bucket.Retention(t.Context(), place.Pack.Name.Path(), "")
				require.NoError(t, err)
				require.Equal(t, objstore.RetainCompliance, has.Mode)
			}
			again, err := repair.Run(t.Context(), l.Repository, l.options(t))
			require.NoError(t, err)
			require.Empty(t, again.Found.Findings)
		})
	}
}
