// Package testbed is AWS, EKS and TiDB in one process, on loopback and over the real wire protocols: the
// shipped binaries run against it unchanged, by AWS_ENDPOINT_URL and a kubeconfig.
//
// It joins the stand-ins that live beside the contracts they implement: EC2 (ebstest), S3 (objstoretest),
// Kubernetes with TiDB Operator (kubetest), PD (pdtest) and TiKV (tikvtest). It is never linked into tisnap.
package testbed
