// Package generate prints what manifests/ holds with a user's names in place of those there: the IAM policies, the
// Kubernetes objects of the nightly backup, the bucket and Terraform. It contacts nothing and changes nothing.
//
// YAML and JSON are changed as objects, so a name cannot become anything but a value. Names that go into a script or
// into Terraform consist of characters that mean nothing there.
package generate
