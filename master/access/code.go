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
	// ByName is what the workers' environments have.
	ByName Code = "by-name"
	// ByValue is whatever trainers send, too.
	ByValue Code = "by-value"
)

// Check refuses what is none of them.
func (c Code) Check() error {
	if c != NoCode && c != ByName && c != ByValue {
		return fmt.Errorf("%q; want %s, %s, which has workers run the Python functions that their environments have, "+
			"or %s, which has them run those that trainers send, too", string(c), NoCode, ByName, ByValue)
	}
	return nil
}

// May refuses functions that sessions of a namespace are to have, ByName or ByValue.
func (c Code) May(namespace string, have Code) error {
	if c == ByValue || c == have {
		return nil
	}
	what, instead := "Python functions of their trainers' run on the fleet's workers", ""
	switch {
	case have == ByName:
		what = "Python functions run on the fleet's workers"
	case c == ByName:
		instead = ". It may have those that the workers' environments have, by name: " +
			`penstock.op("package.module:name", ...)`
	}
	return status.Errorf(codes.FailedPrecondition, // no other token helps
		"namespace %s may not have %s (code: %s); whoever runs the masters can allow it, by `code: %s` for the namespace "+
			"in the file of --namespaces, or for all by --code %s of `penstock master` or `penstock local`%s",
		namespace, what, c, have, have, instead)
}
