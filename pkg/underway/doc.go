// Package underway works out, from its journal, how far a live run is and when it should end.
package underway
