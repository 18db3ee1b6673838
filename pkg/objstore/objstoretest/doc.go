// Package objstoretest holds stand-ins for object storage.
//
// Server speaks S3's wire protocol on a loopback port, with conditional writes, checksums and paging, for
// the testbed and for tests of the adapter. Memory is a Store without a network, for tests of packages
// that use one. Both ask a fault plan at every call by S3's names: "s3.PutObject", "s3.GetObject",
// "s3.HeadObject", "s3.ListObjectsV2", "s3.DeleteObject".
package objstoretest
