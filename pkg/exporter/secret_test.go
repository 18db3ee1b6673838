package exporter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// Nothing that the exporter serves, nor its error about a storage that does not answer, has the storage's credentials.
func TestExporter_CredentialsOfTheStorage_AreNowhere(t *testing.T) {
	secrets := []string{"AKIAHIDDENHIDDEN1234", "hidden-secret-key", "hidden-session-token"}
	for i, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, secrets[i])
	}
	server := objstoretest.New(objstoretest.Config{})
	require.NoError(t, server.Start(t.Context()))
	server.CreateBucket("backups")
	store, err := objstore.Open(t.Context(), "s3://backups/prod", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
	require.NoError(t, err)
	s := exportertest.New(t.Context(), store)
	prod, now := cluster.Name{Namespace: "tidb", Name: "prod"}, time.Now()
	s.Sealed("b1", prod, "run-b1", now)
	s.Report(exportertest.Backup("b1", prod, "run-b1", now, 900, 4))
	s.Lock(prod, "run-b2", now, false)
	s.Journal(prod, "run-b2", "b2", now, "hold")
	failed := exportertest.Failed(prod, "run-f", now)
	failed.Error = "Put https://user:" + secrets[1] + "@h/k?X-Amz-Security-Token=" + secrets[2] + "&X-Amz-Signature=" + secrets[2] + ": EOF"
	failed.Warnings = []string{failed.Error}
	s.Report(failed)
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	served := func(paths ...string) (all []string) {
		for _, path := range paths {
			all = append(all, get(t, x, path).Body.String())
		}
		return all
	}
	texts := served("/", "/backups/b1", "/runs/run-b1", "/runs/run-b2", "/live/run-b2", "/runs/run-f", "/metrics", "/-/ready", "/none")
	require.Contains(t, texts[5], "X-Amz-Signature=***", "the error is shown")
	require.Contains(t, texts[0], "s3://backups/prod", "it names the storage")
	require.NoError(t, server.Close())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = x.Refresh(ctx)
	require.Error(t, err)
	for _, text := range append(append(texts, served("/", "/metrics", "/-/ready")...), err.Error()) {
		for _, secret := range secrets {
			assert.NotContains(t, text, secret)
		}
	}
}
