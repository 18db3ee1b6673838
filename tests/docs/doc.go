// Package docs reads the module's Markdown pages, for tests that hold what a page names against what there is.
package docs
