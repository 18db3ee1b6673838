package failure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestLine_RemoteText_IsCutAndStripped(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"":                              "",
		"no such volume: vol-1":         "no such volume: vol-1",
		"größe: 日本":                     "größe: 日本",
		"a\nb\tc\r\n":                   "a b c  ",
		"\x1b[2Jcleared":                "[2Jcleared",
		"\u202egnp.exe":                 "gnp.exe",
		"bad \xff byte":                 "bad \uFFFD byte",
		strings.Repeat("x", 2000):       strings.Repeat("x", 2000),
		strings.Repeat("x", 2000) + "y": strings.Repeat("x", 2000) + "… (1 bytes more)",
	}
	for text, want := range cases {
		t.Run(want[:min(len(want), 20)], func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, failure.Line(text))
		})
	}
}

// FuzzLine: whatever another system answers is one short line of valid text, and cleaning it twice changes nothing
// unless it was cut.
func FuzzLine(f *testing.F) {
	f.Add("\x1b[31mred\n")
	f.Add(strings.Repeat("日", 900))
	f.Fuzz(func(t *testing.T, text string) {
		line := failure.Line(text)
		require.True(t, utf8.ValidString(line))
		require.LessOrEqual(t, len(line), failure.MaxRemote+50)
		require.Equal(t, -1, strings.IndexFunc(line, unicode.IsControl))
		if len(line) <= failure.MaxRemote {
			require.Equal(t, line, failure.Line(line))
		}
	})
}

func TestRemote_ErrorOfAnotherSystem_KeepsItsIdentity(t *testing.T) {
	t.Parallel()
	require.NoError(t, failure.Remote(nil))
	plain := errors.New("no such volume")
	require.Same(t, plain, failure.Remote(plain))
	dirty := fmt.Errorf("\x1b[2J%w\nforged line", context.DeadlineExceeded)
	err := failure.Remote(dirty)
	require.EqualError(t, err, "[2Jcontext deadline exceeded forged line")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
}
