//go:build unix

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// role is the variable that makes the test binary one of the processes of TestEndsWithItsParent.
const role = "CLI_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "parent":
		os.Exit(parent())
	default:
		os.Exit(child())
	}
}

// parent runs a child until it is killed. The child has the parent's standard input, and the pipes that it was given.
func parent() int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=child")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

// child is a command that runs until it is to end.
func child() int {
	cmd := Setup(&cobra.Command{Use: "child", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Println("up")
		<-cmd.Context().Done()
		fmt.Println("ends")
		return nil
	}})
	cmd.SetArgs([]string{"--end-with-stdin"})
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		return 1
	}
	return 0
}

// TestEndsWithItsParent holds that a child ends when its standard input closes, and when its parent is killed while
// another process, this one, holds that open.
func TestEndsWithItsParent(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(parent *exec.Cmd, stdin io.Closer) error
	}{
		{"standard input closes", func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() }},
		{"the parent is killed", func(parent *exec.Cmd, _ io.Closer) error { return parent.Process.Kill() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, stdin, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, out, err := os.Pipe() // its end comes when parent and child have ended
			if err != nil {
				t.Fatal(err)
			}
			defer stdout.Close()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), role+"=parent")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }() // the parent may have been killed
			in.Close()
			out.Close()
			if err := stdout.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			if !lines.Scan() || lines.Text() != "up" {
				t.Fatalf("the child says %q, %v", lines.Text(), lines.Err())
			}
			if err := c.end(cmd, stdin); err != nil {
				t.Fatal(err)
			}
			if !lines.Scan() || lines.Text() != "ends" || lines.Scan() || lines.Err() != nil {
				t.Errorf("the child lives on (%q, %v)", lines.Text(), lines.Err())
			}
		})
	}
}
