// Package fleet derives from a storage alone how each of its clusters stands: its newest backup, its runs, who has its
// lock, and whether it is held. It shows nothing and changes nothing.
package fleet
