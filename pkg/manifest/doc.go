// Package manifest is the record of a backup: what was cut, when, from which cluster, and how to restore it. It is
// vocabulary: no I/O and no clock, so that the same bytes always mean the same thing.
//
// A backup is two objects. manifest.json is written as soon as the snapshots are accepted, so that no snapshot is
// without a record; seal.json is written last and holds the manifest's digest. Only a manifest whose seal fits can be
// restored: Open refuses all else, and shows whether the backup is unfinished (Unready), damaged (Corrupt) or made by
// a newer tisnap (Usage).
//
// br.go is the document that br and TiDB Operator exchange (clustermeta, backupmeta, restoremeta). Members unknown to
// this package are kept as they are. layout.go names the keys of all objects below a storage prefix.
package manifest
