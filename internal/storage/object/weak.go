package object

import "strings"

// LastModified begins the ETag of a file of which a time of modification is all that is known.
const LastModified = "lm:"

// IsWeak reports whether a file's ETag may be that of other bytes, too: a weak one of HTTP (W/"...") or a time. What is
// read of such a file must not be handed to anybody else who asks for the same ETag.
func IsWeak(etag string) bool {
	return strings.HasPrefix(etag, "W/") || strings.HasPrefix(etag, LastModified)
}
