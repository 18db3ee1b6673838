package mutants

// forwardGuards are those of the way to PD and the stores through the API server.
func forwardGuards() []Mutant {
	return []Mutant{
		in("pkg/kube/forward/tunnel.go", "a tunnel that swallows everything is waited for without end", errorTable,
			"func() { _ = t.conn.Close() })\n		took", "func() {})\n		took",
			"TestTunnel_NothingComesBack_IsClosedByThePing"),
		in("pkg/kube/forward/tunnel.go", "the tunnel of a pod that was made again still leads to the old one", errorTable,
			"			t.stale.Store(true)\n", "",
			"TestForwarder_PodMadeAgain_SecondDialReachesIt"),
		in("pkg/kube/forward/tunnel.go", "a forward that broke looks like an end that the pod wanted", lostAnswer,
			"		if text == \"\" && !t.open() {", "		if false {",
			"TestForwarder_Breaks_NextDialOpensAgain"),
		in("pkg/kube/forward/name.go", "PD's service leads to a pod that is not ready", errorTable,
			"found == nil || ready(pod) && !ready(found)", "found == nil",
			"TestForwarder_PodsAndServices_OneConnectionAPod"),
		in("pkg/kube/forward/name.go", "a host outside Kubernetes is taken for a store of Operator 2.x", errorTable,
			"operator2.IsPod(labels[0]) && operator2.IsHeadless(labels[1])", "operator2.IsHeadless(labels[1])",
			"TestIsClusterAddress"),
		in("pkg/kube/forward/forwarder.go", "a slow opening ends with the dial that gave up, and is begun again for ever", errorTable,
			"f.open(context.WithoutCancel(ctx), pod, p)", "f.open(ctx, pod, p)",
			"TestForwarder_SlowOpening_IsFoundByTheNextDial"),
		in("pkg/kube/forward/upgrade.go", "a refusal of Kubernetes is tried again by a WebSocket, with other permissions", errorTable,
			"!byKubernetes || apierrors.IsBadRequest(refusal)", "len(body) >= 0 || byKubernetes",
			"TestForwarder_RefusedBySPDY_TriesNoWebSocket"),
		in("pkg/kube/forward/upgrade.go", "a proxy that lets no SPDY pass is the end", errorTable,
			"!byKubernetes || apierrors.IsBadRequest(refusal)", "len(body) < 0 && byKubernetes",
			"TestForwarder_NoSPDY_WebSocketCarriesIt"),
		in("pkg/kube/permissions.go", "the missing permission of port forwards is found by a cluster that stands there", errorTable,
			"	if c.forwards != nil {\n", "	if false {\n",
			"TestAllowed_PortForwards"),
		in("pkg/reach/route.go", "a restore does not see that it will need port forwards", errorTable,
			"	return err != nil\n}\n\n// Dial", "	return false && err != nil\n}\n\n// Dial",
			"TestRoute_WillForward"),
		in("pkg/reach/route.go", "a store whose pod restarts makes a run forward", errorTable,
			"		r.decided = Direct\n		return Direct", "		return Direct",
			"TestRoute_Auto_FirstAddressDecides"),
	}
}

// operator2Guards are those of clusters of TiDB Operator 2.x.
func operator2Guards() []Mutant {
	return []Mutant{
		in("pkg/kube/generation2.go", "the groups of another cluster are taken for the cluster's", provenHold,
			"!operator2.BelongsTo(name.Name, &o)", "name.Name == \"\" || &o == nil",
			"TestGeneration2_TwoInANamespace_AreToldApart"),
		in("pkg/preflight/backup.go", "a cluster that its Operator is changing is backed up", provenHold,
			"if tc.Unsteady != nil {", "if false {",
			"TestBackup_WhatWouldFailLater_IsRefused"),
	}
}
