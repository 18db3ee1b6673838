package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pause is shortened, and what comes after it moves with it.
func TestShorten(t *testing.T) {
	t.Parallel()
	got := shorten([]line{{"a", time.Second}, {"b", 10 * time.Second}, {"c", 11 * time.Second}}, 2*time.Second)
	require.Equal(t, []line{{"a", time.Second}, {"b", 3 * time.Second}, {"c", 4 * time.Second}}, got)
}

// The picture is XML, has every line that was printed, and ends with the last ones in sight.
func TestDraw(t *testing.T) {
	t.Parallel()
	lines := []line{{"$ tisnap <&>", time.Second}, {strings.Repeat("─", 2*columns), 2 * time.Second}}
	for i := range rows {
		lines = append(lines, line{fmt.Sprintf("  ✔ check %d", i), 3 * time.Second})
	}
	var b strings.Builder
	draw(&b, lines)
	d := xml.NewDecoder(strings.NewReader(b.String()))
	texts := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
			texts++
		}
	}
	require.Equal(t, len(lines), texts)
	require.Contains(t, b.String(), `<g id="s" style="transform:translateY(-36px)">`)
	require.NotContains(t, b.String(), strings.Repeat("─", columns), "a long line is cut")
}
