package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Archived is what an archive run read, and what it stored.
type Archived struct {
	Repository string `json:"repository"`        // its id
	Archive    string `json:"archive,omitempty"` // "" before it was chosen
	// Base is the archive that it was compared with; "" for none.
	Base string `json:"base,omitempty"`
	ArchivedBytes
	Packs       int64 `json:"packs"`
	StoredBytes int64 `json:"storedBytes"` // in packs: compressed and encrypted
	// Lists and Reads are requests to the EBS direct APIs; Throttled of them were refused because of a rate.
	Lists     int64 `json:"lists"`
	Reads     int64 `json:"reads"`
	Throttled int64 `json:"throttled,omitempty"`
	// RequestsUSD is what AWS bills for these and for the packs; nil if a price is unknown.
	RequestsUSD *float64         `json:"requestsUSD,omitempty"`
	Volumes     []ArchivedVolume `json:"volumes"` // that are done
}

// ArchivedBytes are the bytes of blocks, before compression. What was read is zeros, unchanged, repeated or packed.
type ArchivedBytes struct {
	ReadBytes    int64 `json:"readBytes"`
	FreeBytes    int64 `json:"freeBytes,omitempty"`    // not read: the file system does not use them
	AuditedBytes int64 `json:"auditedBytes,omitempty"` // read, though they are free, by an audit
	// AuditedDataBytes are those of them that are not zeros: only in these would a restore without them differ.
	AuditedDataBytes int64 `json:"auditedDataBytes,omitempty"`
	ZeroBytes        int64 `json:"zeroBytes,omitempty"`      // zeros
	UnchangedBytes   int64 `json:"unchangedBytes,omitempty"` // where the base has them
	RepeatedBytes    int64 `json:"repeatedBytes,omitempty"`  // packed earlier in the run
	PackedBytes      int64 `json:"packedBytes"`
}

// ArchivedVolume is what became of one volume.
type ArchivedVolume struct {
	Store     cluster.StoreID    `json:"store"`
	Role      cluster.Role       `json:"role"`
	Snapshot  cluster.SnapshotID `json:"snapshot"`
	SizeBytes int64              `json:"sizeBytes"`
	Compared  string             `json:"comparedWith"` // nothing, archive, snapshot or itself
	// FreeUnknown is why no block was left out as free, as a clause; "" if some could be, or were not to be.
	FreeUnknown string `json:"freeUnknown,omitempty"`
	ArchivedBytes
	Seconds float64 `json:"seconds"` // of the process that finished it
}

// Facts are lines, each as a term and a text; none for nil.
func (a *Archived) Facts() [][2]string {
	if a == nil {
		return nil
	}
	where := Name(orAbsent(a.Archive)) + " in repository " + Name(a.Repository)
	if a.Base != "" {
		where += ", after " + Name(a.Base)
	}
	requests := fmt.Sprintf("%s lists and %s reads of blocks", humanize.Comma(a.Lists), humanize.Comma(a.Reads))
	if a.Throttled > 0 {
		requests += fmt.Sprintf(", %s of them throttled", humanize.Comma(a.Throttled))
	}
	requests += "; " + count(int(a.Packs), "pack", "packs")
	if a.RequestsUSD != nil {
		requests += "; " + usd(*a.RequestsUSD)
	}
	out := [][2]string{{"archive", where}, {"read", a.Text()}}
	if a.AuditedBytes > 0 {
		out = append(out, [2]string{"audit", fmt.Sprintf("%s are free by the file systems, %s of them not zeros; "+
			"all of it was read", Bytes(a.AuditedBytes), Bytes(a.AuditedDataBytes))})
	}
	if why := FreeUnknown(a.Volumes); len(why) > 0 {
		out = append(out, [2]string{"free blocks unknown", failure.List(why)})
	}
	out = append(out, [2]string{"requests", requests})
	if slowest := a.slowest(); slowest != nil {
		out = append(out, [2]string{"slowest volume", fmt.Sprintf("store %d %s, %s in %s", slowest.Store,
			Name(string(slowest.Role)), Bytes(slowest.ReadBytes), Duration(slowest.Seconds))})
	}
	return out
}

// FreeUnknown is why nothing was left out as free, each reason once with the volumes of which this is so.
func FreeUnknown(volumes []ArchivedVolume) (out []string) {
	of := map[string][]*ArchivedVolume{}
	var reasons []string
	for i := range volumes {
		v := &volumes[i]
		if v.FreeUnknown == "" {
			continue
		}
		if of[v.FreeUnknown] == nil {
			reasons = append(reasons, v.FreeUnknown)
		}
		of[v.FreeUnknown] = append(of[v.FreeUnknown], v)
	}
	for _, why := range reasons {
		which := fmt.Sprintf("store %d %s", of[why][0].Store, Name(string(of[why][0].Role)))
		if n := len(of[why]); n > 1 {
			which = fmt.Sprintf("%d of %d volumes", n, len(volumes))
		}
		out = append(out, which+": "+Name(why))
	}
	return out
}

// Text is how much was read, what of it was stored, and in how many bytes.
func (a *Archived) Text() string {
	var parts []string
	for _, p := range []struct {
		bytes int64
		what  string
	}{{a.ZeroBytes, "zeros"}, {a.UnchangedBytes, "unchanged"}, {a.RepeatedBytes, "repeated"}} {
		if p.bytes > 0 {
			parts = append(parts, Bytes(p.bytes)+" "+p.what)
		}
	}
	text := "nothing"
	if a.ReadBytes > 0 {
		text = Bytes(a.ReadBytes)
	}
	if a.PackedBytes > 0 {
		parts = append(parts, fmt.Sprintf("%s stored in %s", Bytes(a.PackedBytes), Bytes(a.StoredBytes)))
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if a.FreeBytes > 0 {
		text += "; not read as free: " + Bytes(a.FreeBytes)
	}
	return text
}

// slowest is the volume that took longest; nil if none was read.
func (a *Archived) slowest() (found *ArchivedVolume) {
	for i := range a.Volumes {
		if v := &a.Volumes[i]; v.ReadBytes > 0 && (found == nil || v.Seconds > found.Seconds) {
			found = v
		}
	}
	return found
}

// printable makes its texts safe by as.
func (a *Archived) printable(as func(string) string) *Archived {
	if a == nil {
		return nil
	}
	out := *a
	out.Repository, out.Archive, out.Base = as(a.Repository), as(a.Archive), as(a.Base)
	out.Volumes = slices.Clone(a.Volumes)
	for i := range out.Volumes {
		v := &out.Volumes[i]
		v.Role, v.Compared, v.FreeUnknown = cluster.Role(as(string(v.Role))), as(v.Compared), as(v.FreeUnknown)
	}
	return &out
}

// usd is an amount of money.
func usd(amount float64) string {
	if amount > 0 && amount < 0.01 {
		return "<0.01 USD"
	}
	return fmt.Sprintf("%.2f USD", amount)
}
