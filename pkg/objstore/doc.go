// Package objstore keeps manifests, journals, locks and reports in object storage below one prefix.
//
// The contract is in store.go; s3.go and file.go are the adapters, error_table.go turns S3's codes into
// failure kinds. Open reads "s3://bucket/prefix" and "file:///folder".
package objstore
