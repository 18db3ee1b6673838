// Package prune forgets archives, deletes what no archive refers to, and rewrites packs that are mostly unused, beside
// any number of clients and other prunes: package lease has the rules. It deletes nothing in doubt, and a prune that
// dies is continued by the next one.
package prune
