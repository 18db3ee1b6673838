// Package ebs is what tisnap needs of Amazon EC2 and EBS, in tisnap's words: cut the volumes of an
// instance at one instant, watch snapshots, make volumes from them, delete what a run made.
//
// The contract is in contract.go, the rules of volume types in volume_rules.go, the adapter over
// aws-sdk-go-v2 in client.go, and the one table that turns EC2's error codes into failure kinds in
// error_table.go. The stand-in for EC2 is beside it in ebstest. No SDK type leaves the package.
//
// All retrying is done here, in call.go, and none by the SDK: whether a call may be sent again depends on
// whether its last try can have taken effect, which the SDK does not ask.
package ebs
