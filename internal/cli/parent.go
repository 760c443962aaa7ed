//go:build unix

package cli

import (
	"os"
	"time"
)

// parentCheck is how often a child looks whether its parent is still there.
const parentCheck = 200 * time.Millisecond

// awaitEndOf returns when the process that was this one's parent has ended: the system then gives this one another.
// Asking beats the ways to be told. Linux's signal of the parent's death (PR_SET_PDEATHSIG) comes when the parent's
// thread ends that happened to start this process, a pidfd is refused by some sandboxes, and neither is known
// elsewhere.
func awaitEndOf(parent int) {
	for os.Getppid() == parent {
		time.Sleep(parentCheck)
	}
}
