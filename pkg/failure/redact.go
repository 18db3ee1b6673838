package failure

import (
	"regexp"
	"strings"
)

// redacted replaces a secret.
const redacted = "***"

// The secrets in a text: a URL's user and password, AWS request signatures (in a query, or in a header that some errors
// quote), query parameters with a secret's name, and bearer tokens. A value extends to the first character that cannot
// be part of it, so a text truncated inside a secret loses the rest of it.
var (
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`)
	signing  = regexp.MustCompile(`(?i)(x-amz-(?:signature|security-token|credential)|\bsignature|\bcredential)` +
		`("?(?:=|%3D|: ?)"?)[^&\s"'<>,;\\]+`)
	parameter = regexp.MustCompile(
		`(?i)([?&;](?:sig|token|access_token|id_token|auth|password|passwd|secret|api_?key)=)[^&\s"'<>,;\\]+`)
	bearer = regexp.MustCompile(`(?i)(\bbearer )[A-Za-z0-9._~+/=-]{16,}`)
)

// Redact replaces the secrets in URLs and headers of a text by ***. It is idempotent.
func Redact(text string) string {
	if !strings.ContainsAny(text, "=@%:") && !strings.Contains(text, "earer") {
		return text
	}
	text = userInfo.ReplaceAllString(text, "${1}"+redacted+"@")
	text = signing.ReplaceAllString(text, "${1}${2}"+redacted)
	text = parameter.ReplaceAllString(text, "${1}"+redacted)
	return bearer.ReplaceAllString(text, "${1}"+redacted)
}
