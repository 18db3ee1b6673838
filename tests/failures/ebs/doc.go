// Package ebs has the failures of snapshots and volumes: how EC2 cuts, refuses, forgets and loses them (B),
// how they are waited for (C), how they are deleted (D), and how volumes are made of them (E).
//
// Tests that load the whole machine are not parallel: the short leases of the others would end meanwhile.
package ebs
