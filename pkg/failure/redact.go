package failure

import (
	"regexp"
	"strings"
)

// redacted takes the place of a secret.
const redacted = "***"

// The parts of a text that let somebody else in: a URL's user and password, what signs a request to AWS (a query, or
// the header that some errors quote), parameters of a query whose name says that they are secret, and bearer tokens. A
// value ends at what cannot be in it, so that a text that was cut inside of one loses its rest.
var (
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`)
	signing  = regexp.MustCompile(`(?i)(x-amz-(?:signature|security-token|credential)|\bsignature|\bcredential)` +
		`("?(?:=|%3D|: ?)"?)[^&\s"'<>,;\\]+`)
	parameter = regexp.MustCompile(
		`(?i)([?&;](?:sig|token|access_token|id_token|auth|password|passwd|secret|api_?key)=)[^&\s"'<>,;\\]+`)
	bearer = regexp.MustCompile(`(?i)(\bbearer )[A-Za-z0-9._~+/=-]{16,}`)
)

// Redact is text without the secrets in URLs and headers: they are replaced by ***. Doing it twice changes nothing.
func Redact(text string) string {
	if !strings.ContainsAny(text, "=@%:") && !strings.Contains(text, "earer") {
		return text
	}
	text = userInfo.ReplaceAllString(text, "${1}"+redacted+"@")
	text = signing.ReplaceAllString(text, "${1}${2}"+redacted)
	text = parameter.ReplaceAllString(text, "${1}"+redacted)
	return bearer.ReplaceAllString(text, "${1}"+redacted)
}
