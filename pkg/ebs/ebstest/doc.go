// Package ebstest is a stand-in for Amazon EC2 and EBS, as far as tisnap needs them: a state machine that
// speaks EC2's query protocol (and STS's GetCallerIdentity and AssumeRole) on a loopback listener, so that aws-sdk-go-v2
// and the aws command talk to it by AWS_ENDPOINT_URL.
//
// Volumes have bytes (pkg/standin/disk). A CreateSnapshots call copies all its volumes at one instant inside
// the call; snapshots then go from pending to completed by a model of their dirty data. EC2's bad habits are
// kept: new ids that Describe denies for a while, id lists that fail for one unknown id, token buckets, 15 s
// between snapshots of a volume, 5 pending ones of a volume and 100 of the account, 50 tags, sets that fail
// as one, limits that are checked before client tokens. All durations are virtual time.
//
// Several accounts and regions on one clock are a World: snapshots are shared between its accounts and copied between
// its regions by the documented rules of what may be read, which key is needed, and how much data has to move.
//
// At every call the server asks its fault plan at "ec2.<Action>" or "sts.<Action>", and at
// "ec2.CopySnapshot.late" about what becomes of a copy that was accepted.
package ebstest
