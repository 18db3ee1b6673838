// Package adopt makes one backup of the parts that a VolumeBackup of TiDB Operator's federation leaves, one in the
// storage of each Kubernetes cluster. The parts were cut under one hold. Each knows its own stores alone, so that a
// missing part is not missed; the backup that is made of them has every store once, or is not made.
package adopt
