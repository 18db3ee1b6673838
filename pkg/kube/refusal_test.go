package kube_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// EKS' authenticator answers 401 for a moment, a restarted API server 403, a load balancer 502.
func TestTransientIsNotFinal_RefusedForAMoment_Succeeds(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"Unauthorized", "Forbidden"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			l := openServer(t, time.Nanosecond, patience)
			target := source("dst")
			require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.*.*", Position: fault.Before, Code: code, Times: 2}))
			require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run}))
			require.Empty(t, l.faults.Unreached())
			require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.persistentvolumes", Position: fault.Before, Code: code, Times: 2}))
			require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, target)))
			require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.update.*", Position: fault.Before, Code: code, Times: 2}))
			require.NoError(t, l.client.StartTiKV(t.Context(), target))
			require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.*", Position: fault.Before, Code: code, Times: 2}))
			require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
			require.Empty(t, l.faults.Unreached())
		})
	}
}

func TestTransientIsNotFinal_ServerRestarts_EveryErrorIsTransient(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	for name, call := range map[string]func(context.Context) error{
		"read":   func(ctx context.Context) error { _, err := l.client.TiKVPods(ctx, target); return err },
		"review": func(ctx context.Context) error { return l.client.Allowed(ctx, "tidb", nil) },
		"create": func(ctx context.Context) error {
			return l.client.CreateCluster(ctx, sourceObject(t), kube.Target{Name: target, Run: run})
		},
		"patch":   func(ctx context.Context) error { return l.client.StartTiKV(ctx, target) },
		"recover": func(ctx context.Context) error { return l.client.LeaveRecovery(ctx, target) },
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share the server
			require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: target})))
			if name == "create" {
				require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "dst")))
			}
			l.server.Restart()
			require.Eventually(t, func() bool {
				err := call(t.Context())
				require.True(t, err == nil || failure.Transient(err), "%v", err)
				return err == nil
			}, patience, 5*time.Millisecond)
		})
	}
}

func TestTransientIsNotFinal_BadGateway_IsTransient(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.get.*", Position: fault.Before, Code: "BadGateway"}))
	_, err := l.client.Cluster(t.Context(), source("src"))
	require.True(t, failure.Transient(err), "%v", err)
}

func TestTransientIsNotFinal_RefusalThatStays(t *testing.T) {
	t.Parallel()
	t.Run("the review agrees", func(t *testing.T) {
		t.Parallel()
		l := newServer(t)
		l.server.Deny("get", "tidbclusters")
		_, err := l.client.Cluster(t.Context(), source("src"))
		require.Equal(t, failure.Denied, failure.KindOf(err))
		require.ErrorContains(t, err, `cannot get resource "tidbclusters"`)
	})
	t.Run("the review does not agree", func(t *testing.T) {
		t.Parallel()
		l := newServer(t)
		require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.get.*", Position: fault.Before, Code: "Forbidden", Times: -1}))
		_, err := l.client.Cluster(t.Context(), source("src"))
		require.True(t, failure.Transient(err), "%v", err)
		require.ErrorContains(t, err, "though the role allows it")
	})
	t.Run("no credentials", func(t *testing.T) {
		t.Parallel()
		l := newServer(t)
		require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.*.*", Position: fault.Before, Code: "Unauthorized", Times: -1}))
		_, err := l.client.Cluster(t.Context(), source("src"))
		require.Equal(t, failure.Denied, failure.KindOf(err))
	})
	t.Run("the run ends", func(t *testing.T) {
		t.Parallel()
		l := newServer(t)
		l.server.Deny("get", "tidbclusters")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := l.client.Cluster(ctx, source("src"))
		require.Equal(t, failure.Limited, failure.KindOf(err))
	})
}

// Admission answers 403 and 422, too: its refusals carry their own message, and no role helps.
func TestRefusals_Admission_AreOfTheirOwnKind(t *testing.T) {
	t.Parallel()
	const quota = `exceeded quota: storage, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=3, limited: persistentvolumeclaims=3`
	const webhook = `admission webhook "gate.example.com" denied the request: no databases here`
	const policy = `ValidatingAdmissionPolicy 'sizes' with binding 'sizes' denied request: volumes of more than 5 GiB need a ticket`
	for name, c := range map[string]struct {
		status        int
		message, hint string
	}{
		"quota":              {http.StatusForbidden, quota, "raise the ResourceQuota"},
		"webhook":            {http.StatusForbidden, webhook, "the webhook"},
		"policy, forbidden":  {http.StatusForbidden, policy, "the policy"},
		"policy, invalid":    {http.StatusUnprocessableEntity, policy, "the policy"},
		"a plugin of others": {http.StatusForbidden, "no disk on Sundays", "RBAC is not the cause"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			l.server.Refuse(kubetest.Refusal{Verb: "create", Resource: "persistentvolumeclaims", Status: c.status, Message: c.message})
			err := l.client.BindVolume(t.Context(), recordedVolume(t, source("dst")))
			require.Equal(t, failure.Unready, failure.KindOf(err))
			require.ErrorContains(t, err, c.message)
			require.Contains(t, failure.HintOf(err), c.hint)
			require.Equal(t, 1, l.faults.Calls("kube.create.persistentvolumeclaims"), "it is not waited for")
		})
	}
}

func TestRefusals_Namespace_AreOfTheirOwnKind(t *testing.T) {
	t.Parallel()
	t.Run("terminating", func(t *testing.T) {
		t.Parallel()
		l := newServer(t)
		require.NoError(t, l.server.Put(kubetest.NewNamespace("tidb", "Terminating")))
		err := l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("dst"), Run: run})
		require.Equal(t, failure.Unready, failure.KindOf(err))
		require.ErrorContains(t, err, "because it is being terminated")
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		l := newServer(t)
		l.server.ForgetNamespace("tidb")
		err := l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("dst"), Run: run})
		require.Equal(t, failure.Unready, failure.KindOf(err))
		require.Contains(t, failure.HintOf(err), "kubectl create namespace tidb")
	})
}
