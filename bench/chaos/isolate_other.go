//go:build !linux

package main

import (
	"context"
	"errors"
	"os/exec"
)

func isolated() bool { return false }

func mayIsolate() error { return errors.New("network namespaces are Linux's") }

func runIsolated(context.Context) error { return mayIsolate() }

func mountTmpfs(string, int64) error { return mayIsolate() }

func unmount(string) error { return mayIsolate() }

func dieWith(*exec.Cmd) {}
