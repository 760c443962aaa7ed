package az

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// classify says in words of ours what went wrong, and marks what may go away by itself.
func (c *Client) classify(where at, r refusal, to *http.Request) error {
	r.message = c.signer.hide(r.message) // a service may repeat what it was sent
	r.code = c.signer.hide(r.code)
	switch r.code {
	case "ContainerNotFound":
		return fmt.Errorf("no container %s in account %s: %w", where.container, where.account, fs.ErrNotExist)
	case "ConditionNotMet", "InvalidRange":
		return object.ErrChanged
	case "BlobAlreadyExists":
		return fmt.Errorf("%w: %w", fs.ErrExist, r)
	case "AuthenticationFailed", "InvalidAuthenticationInfo":
		r.message = "" // it may tell what was signed, and by what
		return c.unauthenticated(r, to)
	case "AuthorizationFailure":
		return fmt.Errorf("%w; let this machine in by the account's network rules, if it has any; else %s: %w",
			object.ErrDenied, c.signer.advice(), r)
	case "BlobArchived", "BlobBeingRehydrated":
		return fmt.Errorf("the blob is in the archive tier; move it to hot or cool, and wait until it is there: %w", r)
	case "BlobUsesCustomerSpecifiedEncryption":
		return fmt.Errorf("the blob is encrypted by a key of its writer's own; write it without such a key: %w", r)
	}
	if denied := deniedFor(r.code); denied != "" {
		return fmt.Errorf("%w; %s: %w", object.ErrDenied, denied, r)
	}
	switch status := r.status; {
	case status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, r)
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return object.ErrChanged
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w; check the storage profile's credentials: %w", object.ErrDenied, r)
	case web.Passes(status):
		return object.Later(r, r.after)
	case status < http.StatusBadRequest:
		return fmt.Errorf("check the storage profile's endpoint, which sends its callers elsewhere: %w", r)
	}
	return r
}

func (c *Client) unauthenticated(r refusal, to *http.Request) error {
	err := object.Ours(fmt.Errorf("%w; %s: %w", object.ErrDenied, c.signer.advice(), r))
	if t, ok := c.signer.(*tokens); ok {
		t.forget(to)
		return object.Transient(err)
	}
	return err
}

// deniedFor says what is to be done if access is denied with a code; "" if it is not by that.
func deniedFor(code string) string {
	switch code {
	case "AuthorizationPermissionMismatch", "InsufficientAccountPermissions":
		return "give the identity the role Storage Blob Data Reader on the container, or Contributor to write; " +
			"a shared access signature needs the permissions r and l"
	case "AuthorizationResourceTypeMismatch", "AuthorizationServiceMismatch":
		return "the shared access signature is of other services or types; make one of service b and types c and o"
	case "AuthorizationSourceIPMismatch", "AuthorizationProtocolMismatch":
		return "the shared access signature is of other addresses, or of https alone; make one for this machine"
	case "NoAuthenticationInformation", "PublicAccessNotPermitted":
		return "nobody reads this without credentials; set the storage profile's credentials"
	case "KeyBasedAuthenticationNotPermitted":
		return "the account takes no keys, and no shared access signatures made with them; " +
			"use credentials: default or managed_identity"
	case "AccountIsDisabled":
		return "the account is disabled"
	}
	return ""
}

// network is web.Network without the URL of a request: it may hold a shared access signature.
func (c *Client) network(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", strings.ToUpper(u.Op), u.Err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return object.Transient(fmt.Errorf("check the account's name: %w", err))
	}
	return web.Network(err)
}

// maxMessage bounds what is repeated of a service's words.
const maxMessage = 300

// firstLine is what a service says, without the ids and times that follow.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return cut(strings.TrimSpace(text), maxMessage)
}

func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
