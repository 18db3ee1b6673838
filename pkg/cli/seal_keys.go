package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// signKeyVariable is the environment variable for the password of --sign-key. No flag takes a secret.
const signKeyVariable = "TISNAP_SIGN_PASSWORD"

// verifyKeyFlag is shared by the commands that read a sealed backup.
func verifyKeyFlag(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "verify-key", "",
		"minisign public key or key file: a backup that it did not sign is refused")
}

// readSigningKey reads the key of --sign-key; nil without one.
func readSigningKey(file string) (*manifest.SigningKey, error) {
	if file == "" {
		return nil, nil // signing is optional
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, failure.New(failure.Usage, "read --sign-key", file, "%w", err).
			WithHint("use the secret key file that `minisign -G` wrote; without --sign-key the backup is " +
				"not signed")
	}
	key, err := manifest.ParseSigningKey(text, os.Getenv(signKeyVariable))
	return key, failure.Annotate(err, "read --sign-key", file)
}

// readVerifyKey reads the key of --verify-key; nil without one.
func readVerifyKey(value string) (*manifest.VerifyKey, error) {
	if value == "" {
		return nil, nil // verification is optional
	}
	if key, err := manifest.ParseVerifyKey([]byte(value)); err == nil {
		return key, nil
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return nil, failure.New(failure.Usage, "read --verify-key", value,
			"it is neither a minisign public key nor a file: %w", err).
			WithHint("use the file minisign.pub that `minisign -G` wrote, or its second line")
	}
	key, err := manifest.ParseVerifyKey(text)
	return key, failure.Annotate(err, "read --verify-key", value)
}
