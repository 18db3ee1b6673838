package manifest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// The folders below a storage prefix. All keys are relative to the prefix and use '/'.
const (
	BackupsPrefix = "backups/" // backups/<id>/…
	RunsPrefix    = "runs/"    // runs/<run>/…
	LocksPrefix   = "locks/"   // locks/<namespace>.<name>.json
	ResolvePrefix = "resolve/" // resolve/<namespace>.<name>/<id>.json.gz
	ReportsPrefix = "reports/" // reports/<backup>/<run>.json
	PinsPrefix    = "pins/"    // pins/<backup>.json

	DeletionsPrefix = "deletions/" // deletions/<namespace>.<name>.json
	ArchivesPrefix  = "archives/"  // archives/<repository>.json
)

// The files of a backup, below BackupPrefix.
const (
	ClaimFile      = "claim.json"    // first: the id is taken, and by whom
	ManifestFile   = "manifest.json" // when all snapshots are accepted
	BackupMetaFile = "backupmeta"    // br's document of the same
	MarksFile      = "marks.gz"      // before the manifest, which holds its digest
	SealFile       = "seal.json"     // last: all snapshots are completed

	// Before the manifest of a copy: the manifest of the nearest source that was signed, and its signature.
	OriginFile          = "origin.json"
	OriginSignatureFile = "origin.json.minisig"
)

// The files that br and TiDB Operator write at the root of a prefix.
const (
	BRClusterMeta = "clustermeta" // by the Operator, before it calls br
	BRBackupMeta  = "backupmeta"  // by br's backup
	BRRestoreMeta = "restoremeta" // by the Operator, from br's output file
	BRLock        = "backup.lock" // by br: the prefix is used

	// BRCutMeta is by this br: the snapshots of a cut that is not proven. TiDB Operator deletes the snapshots of a
	// Backup by what `rclone copy PREFIX/backupmeta` brings: the object of that name, or, without one, what is in the
	// folder of that name.
	BRCutMeta = "backupmeta/backupmeta"
)

// BRMarkers lists the files at the root that mean that br used the prefix.
func BRMarkers() []string { return []string{BRBackupMeta, BRLock, BRClusterMeta} }

// BackupPrefix is the folder of a backup, with a final '/'.
func BackupPrefix(id cluster.BackupID) string { return BackupsPrefix + string(id) + "/" }

// ClaimKey is the object that takes the id.
func ClaimKey(id cluster.BackupID) string { return BackupPrefix(id) + ClaimFile }

// ManifestKey is the manifest's object.
//
//nolint:revive // Key would not name which
func ManifestKey(id cluster.BackupID) string { return BackupPrefix(id) + ManifestFile }

// MarksKey is the object with the marks.
func MarksKey(id cluster.BackupID) string { return BackupPrefix(id) + MarksFile }

// SealKey is the seal's object.
func SealKey(id cluster.BackupID) string { return BackupPrefix(id) + SealFile }

// PinKey is the object that keeps a backup from being deleted. It is not in the backup's folder, which has to be empty
// before a backup can have its name.
func PinKey(id cluster.BackupID) string { return PinsPrefix + string(id) + ".json" }

// SplitPinKey reads "pins/<backup>.json"; ok is false for any other key.
func SplitPinKey(key string) (id cluster.BackupID, ok bool) {
	file, isPin := strings.CutPrefix(key, PinsPrefix)
	name, isJSON := strings.CutSuffix(file, ".json")
	return cluster.BackupID(name), isPin && isJSON && CheckID(cluster.BackupID(name)) == nil
}

// ReportsOf is the folder of the reports of a backup's runs, with a final '/'. It stays when the backup is deleted.
func ReportsOf(id cluster.BackupID) string { return ReportsPrefix + string(id) + "/" }

// ReportKey is the report of a run that made a backup, or restored one.
func ReportKey(id cluster.BackupID, run cluster.RunID) string {
	return ReportsOf(id) + string(run) + ".json"
}

// BackupMetaKey is the object with br's document of a backup.
func BackupMetaKey(id cluster.BackupID) string { return BackupPrefix(id) + BackupMetaFile }

// OriginKeys are those of the signed source of a copy: its manifest, and its signature.
func OriginKeys(id cluster.BackupID) (document, signature string) {
	return BackupPrefix(id) + OriginFile, BackupPrefix(id) + OriginSignatureFile
}

// RunPrefix is the folder of a run, with a final '/'.
func RunPrefix(run cluster.RunID) string { return RunsPrefix + string(run) + "/" }

// JournalPrefix is the folder of a run's journal, with a final '/'.
func JournalPrefix(run cluster.RunID) string { return RunPrefix(run) + "journal/" }

// JournalKey is the run's journal entry number seq, from 1. Keys sort by number up to 999999.
func JournalKey(run cluster.RunID, seq int) string {
	return fmt.Sprintf("%s%06d.json", JournalPrefix(run), seq)
}

// LockKey is the object that admits one run at a time to a cluster. A namespace has no '.', so that no
// two clusters share a key.
func LockKey(name cluster.Name) string {
	return LocksPrefix + name.Namespace + "." + name.Name + ".json"
}

// DeletionsKey is the object that names the backups of a cluster that are about to be buried.
func DeletionsKey(name cluster.Name) string {
	return DeletionsPrefix + name.Namespace + "." + name.Name + ".json"
}

// ArchivesKey is the object with what the archive repository of this id has of the storage's clusters.
func ArchivesKey(repository string) string { return ArchivesPrefix + repository + ".json" }

// ResolveKey is the object with how far the resolve of a cluster to a backup has come.
func ResolveKey(name cluster.Name, id cluster.BackupID) string {
	return ResolvePrefix + name.Namespace + "." + name.Name + "/" + string(id) + ".json.gz"
}

// SplitReportKey reads "reports/<backup>/<run>.json"; ok is false for any other key.
func SplitReportKey(key string) (id cluster.BackupID, run cluster.RunID, ok bool) {
	rest, isReport := strings.CutPrefix(key, ReportsPrefix)
	backup, file, inFolder := strings.Cut(rest, "/")
	name, isJSON := strings.CutSuffix(file, ".json")
	if !isReport || !inFolder || !isJSON || name == "" || CheckID(cluster.BackupID(backup)) != nil {
		return "", "", false
	}
	return cluster.BackupID(backup), cluster.RunID(name), true
}

// SplitBackupKey reads "backups/<id>/<file>"; ok is false for any other key.
func SplitBackupKey(key string) (id cluster.BackupID, file string, ok bool) {
	rest, found := strings.CutPrefix(key, BackupsPrefix)
	if !found {
		return "", "", false
	}
	name, file, found := strings.Cut(rest, "/")
	if !found || file == "" || CheckID(cluster.BackupID(name)) != nil {
		return "", "", false
	}
	return cluster.BackupID(name), file, true
}

// SplitJournalKey reads "runs/<run>/journal/<seq>.json"; ok is false for any other key.
func SplitJournalKey(key string) (run cluster.RunID, seq int, ok bool) {
	rest, found := strings.CutPrefix(key, RunsPrefix)
	if !found {
		return "", 0, false
	}
	name, file, found := strings.Cut(rest, "/journal/")
	digits, isJSON := strings.CutSuffix(file, ".json")
	seq, err := strconv.Atoi(digits)
	if !found || !isJSON || err != nil || seq < 0 || JournalKey(cluster.RunID(name), seq) != key {
		return "", 0, false
	}
	return cluster.RunID(name), seq, true
}

// ids is compiled once: a listing of ten thousand backups checks each of its keys.
var ids = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// CheckID accepts what can be a folder, a tag's value and an argument: a letter or digit, then up to 99
// letters, digits, '.', '_' and '-'. Anything else is Usage.
func CheckID(id cluster.BackupID) error {
	if ids().MatchString(string(id)) {
		return nil
	}
	return failure.New(failure.Usage, "check backup id", fmt.Sprintf("%q", id),
		"want a letter or digit, then up to 99 letters, digits, dots, underscores and hyphens").
		WithHint("choose another --name")
}
