// Package volume archives one volume into a repository, and gives it back: it reads the blocks of a source, leaves out
// those that are zeros or are where a base archive has them, packs the rest, and writes the volume's map.
package volume
