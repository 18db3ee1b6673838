// Package ebsdirecttest is a stand-in for the EBS direct APIs: a state machine that speaks their REST protocol and reads
// and writes the snapshots of an account of ebstest, at whose address it is served. A snapshot that was written here is
// one of EC2's, with the bytes.
package ebsdirecttest
