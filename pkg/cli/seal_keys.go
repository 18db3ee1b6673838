package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// signPassword is the environment variable with the password of --sign-key. No flag takes a secret.
const signPassword = "TISNAP_SIGN_PASSWORD" //nolint:gosec // its name

// verifyKeyFlag is the same for every command that reads a sealed backup for its user.
func verifyKeyFlag(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "verify-key", "",
		"public key of minisign, or the file with it: a backup that this key did not sign is refused")
}

// readSigningKey reads the key of --sign-key; nil without one.
func readSigningKey(file string) (*manifest.SigningKey, error) {
	if file == "" {
		return nil, nil // to sign nothing is a choice, not an error
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, failure.New(failure.Usage, "read --sign-key", file, "%w", err).
			WithHint("give the file with the secret key that `minisign -G` wrote; without --sign-key the backup is " +
				"not signed")
	}
	key, err := manifest.ParseSigningKey(text, os.Getenv(signPassword))
	return key, failure.Annotate(err, "read --sign-key", file)
}

// readVerifyKey reads the key of --verify-key; nil without one.
func readVerifyKey(value string) (*manifest.VerifyKey, error) {
	if value == "" {
		return nil, nil // to demand no signature is a choice, not an error
	}
	if key, err := manifest.ParseVerifyKey([]byte(value)); err == nil {
		return key, nil
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return nil, failure.New(failure.Usage, "read --verify-key", value,
			"it is neither a public key of minisign nor a file: %w", err).
			WithHint("give the file minisign.pub that `minisign -G` wrote, or the second line of it")
	}
	key, err := manifest.ParseVerifyKey(text)
	return key, failure.Annotate(err, "read --verify-key", value)
}
