// Package doctor makes the checks of a backup, a restore and gc one by one, with the functions that their preflight
// uses, and gives a hint for each that does not pass. It changes nothing but an object in the storage, which it
// writes and deletes. No check hides another: each has its own time limit, and one that could not be made is never ok.
package doctor
