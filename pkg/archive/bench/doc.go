// Package bench measures, on blocks of the user's own, what each level of compression of an archive costs and saves.
package bench
