// Package blockvolume asks for empty block volumes by claims, of any CSI driver. A claim is known by the run that made
// it and by its UID: the run finds its own again, and nothing of another run is changed or deleted.
package blockvolume
