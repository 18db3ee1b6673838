package kube_test

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	claimsPath   = "/api/v1/namespaces/NS/persistentvolumeclaims"
	volumesPath  = "/api/v1/persistentvolumes"
	clustersPath = "/apis/pingcap.com/v1alpha1/namespaces/NS/tidbclusters"
	dry          = "?dryRun=All"

	goodClaim  = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], storageClassName: ebs-sc, volumeName: v, resources: {requests: {storage: 1Gi}}}}`
	goodVolume = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: NS-v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}}}`
)

// edit replaces one part of a body.
func edit(body, from, to string) string { return strings.Replace(body, from, to, 1) }

func exchanges() []exchange {
	const (
		post, put, patch, get = http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet
		invalid               = metav1.StatusReasonInvalid
		bad                   = metav1.StatusReasonBadRequest
	)
	merge := "application/merge-patch+json"
	return []exchange{
		{name: "claim without access modes", method: post, path: claimsPath, body: edit(goodClaim, "[ReadWriteOnce]", "[]"), code: 422, reason: invalid},
		{name: "claim without a size", method: post, path: claimsPath, body: edit(goodClaim, "{storage: 1Gi}", "{}"), code: 422, reason: invalid},
		{name: "claim with a name that is none", method: post, path: claimsPath, body: edit(goodClaim, "name: c", "name: Not_A_Name"), code: 422, reason: invalid},
		{name: "claim without a name", method: post, path: claimsPath, body: edit(goodClaim, "name: c", ""), code: 422, reason: invalid},
		{name: "claim with a label that is none", method: post, path: claimsPath, body: edit(goodClaim, "name: c", "name: c, labels: {run: 'a/b:c'}"), code: 422, reason: invalid},
		{name: "claim with a label that is too long", method: post, path: claimsPath, body: edit(goodClaim, "name: c", "name: c, labels: {run: "+strings.Repeat("x", 64)+"}"), code: 422, reason: invalid},
		{name: "claim with annotations that are too long", method: post, path: claimsPath, body: edit(goodClaim, "name: c", "name: c, annotations: {a: "+strings.Repeat("x", 257<<10)+"}"), code: 422, reason: invalid},
		{name: "claim of another namespace", method: post, path: claimsPath, body: edit(goodClaim, "name: c", "name: c, namespace: another"), code: 400, reason: bad},
		{name: "claim of another kind", method: post, path: claimsPath, body: edit(goodClaim, "PersistentVolumeClaim", "Pod"), code: 400, reason: bad},
		{name: "claim tried", method: post, path: claimsPath + dry, body: goodClaim, code: 201},
		{name: "claim that was only tried", method: get, path: claimsPath + "/c", code: 404, reason: metav1.StatusReasonNotFound},
		{name: "claim", method: post, path: claimsPath, body: goodClaim, code: 201},
		{name: "claim again", method: post, path: claimsPath, body: goodClaim, code: 409, reason: metav1.StatusReasonAlreadyExists},
		{name: "claim tried again", method: post, path: claimsPath + dry, body: goodClaim, code: 409, reason: metav1.StatusReasonAlreadyExists},
		{name: "claim's volume changed", method: patch, path: claimsPath + "/c", kind: merge, body: `{"spec":{"volumeName":"w"}}`, code: 422, reason: invalid},
		{name: "claim under another name", method: put, path: claimsPath + "/d", body: goodClaim, code: 400, reason: bad},
		{name: "claim that is not there", method: put, path: claimsPath + "/d", body: edit(goodClaim, "name: c", "name: d"), code: 404, reason: metav1.StatusReasonNotFound},
		{name: "patch of an old version", method: patch, path: claimsPath + "/c", kind: merge, body: `{"metadata":{"resourceVersion":"1"}}`, code: 409, reason: metav1.StatusReasonConflict},
		{name: "patch of what is not there", method: patch, path: claimsPath + "/d", kind: merge, body: `{}`, code: 404, reason: metav1.StatusReasonNotFound},
		{name: "patch of a kind that is none", method: patch, path: claimsPath + "/c", kind: "application/none", body: `{}`, code: 415, reason: metav1.StatusReasonUnsupportedMediaType},
		{name: "patch that does not decode", method: patch, path: claimsPath + "/c", kind: merge, body: `{`, code: 400, reason: bad},
		{name: "volume without a type", method: post, path: volumesPath, body: edit(goodVolume, ", csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}", ""), code: 422, reason: invalid},
		{name: "volume of two types", method: post, path: volumesPath, body: edit(goodVolume, ", csi:", ", awsElasticBlockStore: {volumeID: vol-1}, csi:"), code: 422, reason: invalid},
		{name: "volume without a size", method: post, path: volumesPath, body: edit(goodVolume, "{storage: 1Gi}", "{}"), code: 422, reason: invalid},
		{name: "volume without access modes", method: post, path: volumesPath, body: edit(goodVolume, "[ReadWriteOnce]", "[]"), code: 422, reason: invalid},
		{name: "volume without a handle", method: post, path: volumesPath, body: edit(goodVolume, ", volumeHandle: vol-1", ""), code: 422, reason: invalid},
		{name: "volume without a driver", method: post, path: volumesPath, body: edit(goodVolume, "driver: ebs.csi.aws.com, ", ""), code: 422, reason: invalid},
		{name: "volume", method: post, path: volumesPath, body: goodVolume, code: 201},
		{name: "volume's handle changed", method: patch, path: volumesPath + "/NS-v", kind: merge, body: `{"spec":{"csi":{"volumeHandle":"vol-2"}}}`, code: 422, reason: invalid},
		{name: "cluster of another kind", method: post, path: clustersPath, body: `{apiVersion: pingcap.com/v1alpha1, kind: Backup, metadata: {name: x}, spec: {}}`, code: 422, reason: invalid},
		{name: "cluster with a spec of another type", method: post, path: clustersPath, body: `{apiVersion: pingcap.com/v1alpha1, kind: TidbCluster, metadata: {name: x}, spec: {tikv: 3}}`, code: 422, reason: invalid},
		{name: "cluster without a version to update", method: put, path: clustersPath + "/x", body: `{apiVersion: pingcap.com/v1alpha1, kind: TidbCluster, metadata: {name: x}, spec: {}}`, code: 404, reason: metav1.StatusReasonNotFound},
		{name: "body that does not decode", method: post, path: clustersPath, kind: "application/json", body: `{`, code: 400, reason: bad},
		{name: "body that is too large", method: post, path: clustersPath, kind: "application/json", body: `{"x":"` + strings.Repeat("x", 4<<20) + `"}`, code: 413, reason: metav1.StatusReasonRequestEntityTooLarge},
		{name: "selector that is none", method: get, path: claimsPath + "?labelSelector=a%3D%3D%3Db", code: 400, reason: bad},
		{name: "field that has no selector", method: get, path: claimsPath + "?fieldSelector=spec.none%3Dx", code: 400, reason: bad},
		{name: "resource that is not served", method: get, path: "/apis/pingcap.com/v1alpha1/namespaces/NS/nones", code: 404},
		{name: "group that is not served", method: get, path: "/apis/none.example.com/v1/things", code: 404},
	}
}
