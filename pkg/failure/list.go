package failure

import (
	"fmt"
	"strings"
)

// MaxListed bounds how many of a list's items a message shows.
const MaxListed = 10

// List joins the first items for a message, followed by how many more there are.
func List(items []string) string {
	if len(items) <= MaxListed {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(items[:MaxListed], ", "), len(items)-MaxListed)
}
