package access

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Code says which Python functions of users a fleet runs.
type Code string

const (
	// NoCode is none.
	NoCode Code = "none"
	// ByValue is whatever trainers send.
	ByValue Code = "by-value"
)

// Check refuses what is none of them.
func (c Code) Check() error {
	if c != NoCode && c != ByValue {
		return fmt.Errorf("%q; want %s, or %s, which has workers run the Python functions that trainers send",
			string(c), NoCode, ByValue)
	}
	return nil
}

// May refuses functions that trainers of a namespace send.
func (c Code) May(namespace string) error {
	if c == ByValue {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, // no other token helps
		"namespace %s may not have Python functions run on the fleet's workers (code: %s); whoever runs the masters "+
			"can allow it, by `code: by-value` for the namespace in the file of --namespaces, or for all by --code "+
			"by-value of `penstock master` or `penstock local`", namespace, NoCode)
}
