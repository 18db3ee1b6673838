// Package journaltest holds what the use cases' tests have in common about journals.
package journaltest
