package format

import "crypto/sha256"

// VerifiedPath is the object that has which archives were read, and when.
const VerifiedPath = "verified"

// Maps is the digest of an archive's maps: of another value, its blocks are, at least in part, elsewhere.
func (a *Archive) Maps() Digest {
	h := sha256.New()
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			for _, name := range v.Segments {
				h.Write(name[:])
			}
		}
	}
	return Digest(h.Sum(nil))
}

// Saved is how many blocks of its volumes are saved.
func (a *Archive) Saved() (blocks int64) {
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			blocks += v.Counts.Saved
		}
	}
	return blocks
}
