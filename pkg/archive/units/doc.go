// Package units splits the making of one archive among processes that know each other only by the repository. A unit is
// one segment of a volume's map: 32 GiB.
//
// Below units/ARCHIVE/ of the repository are the plan, which the run writes once, and for each unit a claim and a
// result. A claim only keeps two processes from doing the same: if both do, both results are right, and the first one
// counts. So a claim may be replaced on any suspicion, and safety needs no clock. Objects are sealed with the
// repository's key and their own path: without the key no part of an archive can be forged, or exchanged for another.
package units
